"""Everything that is measured on real data, and the tables of ``docs/measured.md`` that show it.

    python -m bench.measure_all [--only NAME …] [--lakes FOLDER] [--profile FILE]

``bench/measured.yaml`` states the measurements, in order: a benchmark of a world with variants and metrics, or answers
of lakes made before against baselines. Each is read from materialized assets, and its table is put between its marks
in the page, so that a figure that a commit changes shows in its diff. The lakes stay in their folder; another run
takes them over.

``embedded`` encodes in bfloat16 where a processor multiplies it natively, and then figures differ by some tenths of a
point from one kind of processor to the next; ``--profile bench/float32.yaml`` gives the same on all.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

BENCH = Path(__file__).resolve().parent
PAGE = BENCH.parent / "docs" / "measured.md"


def put(page: str, name: str, table: str) -> str:
    """The page with the table ``name`` in place of what stands between its marks."""
    marks = re.compile(rf"(<!-- measured: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not marks.search(page):
        raise SystemExit(f"docs/measured.md has no marks for {name!r}: <!-- measured: {name} --> … <!-- end -->")
    return marks.sub(lambda match: f"{match[1]}\n{table}\n\n{match[2]}", page)


def main() -> None:
    measurements = yaml.safe_load((BENCH / "measured.yaml").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(measurements), default=list(measurements))
    parser.add_argument("--lakes", type=Path, default=Path(".measure"), help="where to keep what is materialized")
    parser.add_argument("--profile", type=Path, help="a profile to measure with; embedded by default")
    options = parser.parse_args()
    options.lakes.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        table = options.lakes / f"{name}.md"
        print(f"== {name}", flush=True)
        subprocess.run(
            [sys.executable, *command(measurements[name], options.lakes, options.profile), "--markdown", str(table)],
            check=True,
        )
        PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), name, table.read_text("utf-8").strip()), encoding="utf-8")


def command(entry: dict[str, Any], lakes: Path, profile: Path | None) -> list[str]:
    """The module and its arguments: variants on a benchmark, or what is read from lakes made before."""
    if "answers" in entry:
        places = [f"{lakes / place.partition(':')[0] / 'lake'}:{place.partition(':')[2]}" for place in entry["answers"]]
        return ["-m", "bench.answers.measure_answers", *places]
    if "confidence" in entry:
        return ["-m", "bench.answers.fit_confidence", *(str(lakes / name / "lake") for name in entry["confidence"])]
    lake = lakes / Path(entry.get("world", "sample")).stem
    lake.mkdir(parents=True, exist_ok=True)
    options = ["--lake", str(lake), "--metrics", ",".join(entry["metrics"])]
    options += ["--world", str(BENCH / "worlds" / entry["world"])] if "world" in entry else []
    options += ["--profile", str(profile)] if profile else []
    return ["-m", "bench.answers.measure_variants", entry["benchmark"], *entry["variants"], *options]


if __name__ == "__main__":
    main()
