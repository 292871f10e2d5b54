"""Everything that is measured on real data: result files in ``bench/results``, and ``docs/measured.md`` from them.

    python -m bench.measure_all [--only NAME …] [--lakes FOLDER] [--profile FILE]

``bench/measured.yaml`` states the measurements, in order: a benchmark of a world with variants and metrics, or answers
of lakes made before against baselines. Each is read from materialized assets and written to its result file, so
that a figure that a commit changes shows in its diff. The lakes stay in their folder; another run takes them over.

``embedded`` encodes in bfloat16 where a processor multiplies it natively, and then figures differ by some tenths of a
point from one kind of processor to the next; ``--profile bench/float32.yaml`` gives the same on all.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from bench.measuring import make_parser
from bench.result_files import RESULTS, Results
from bench.write_measured import PAGE, write_page

BENCH = Path(__file__).resolve().parent


def main() -> None:
    measurements = yaml.safe_load((BENCH / "measured.yaml").read_text(encoding="utf-8"))
    parser = make_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=list(measurements), default=list(measurements))
    parser.add_argument("--lakes", type=Path, default=Path(".measure"), help="where to keep what is materialized")
    parser.add_argument("--profile", type=Path, help="a profile to measure with; embedded by default")
    options = parser.parse_args()
    options.lakes.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        print(f"== {name}", flush=True)
        file = RESULTS / f"{name}.json"
        arguments = command(measurements[name], options.lakes, options.profile)
        subprocess.run([sys.executable, *arguments, "--json", str(file)], check=True)
        replace(Results.read(name), command="make measure").write(file)
    PAGE.write_text(write_page(), encoding="utf-8")


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
