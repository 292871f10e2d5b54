"""Everything that is measured on real data: result files in ``bench/results``, and ``docs/measured.md`` from them.

    python -m bench.measure_all [local] [--only NAME …] [--lakes FOLDER] [--profile FILE]

``bench/measured.yaml``, or ``bench/local.yaml`` for a language model on this computer, states the measurements, in
order: a benchmark of a world with variants and metrics, or answers of lakes made before against baselines. Each is read
from materialized assets and written to its result file, so that a figure that a commit changes shows in its diff. The
lakes stay in their folder; another run takes them over.

``embedded`` encodes in bfloat16 where a processor multiplies it natively, and then figures differ by some tenths of a
point from one kind of processor to the next; ``--profile bench/float32.yaml`` gives the same on all.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from bench.measuring import make_parser
from bench.result_files import RESULTS, Results
from bench.write_measured import LOCAL_PAGE, LOCAL_TEMPLATE, PAGE, TEMPLATE, write_page

BENCH = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Page:
    """A page of measurements: what it measures, by which command and, unless ``--profile`` is given, profile."""

    measurements: Path
    template: Path
    page: Path
    command: str
    profile: Path | None = None


MEASURED_PAGES = {
    "measured": Page(BENCH / "measured.yaml", TEMPLATE, PAGE, "make measure"),
    "local": Page(
        BENCH / "local.yaml",
        LOCAL_TEMPLATE,
        LOCAL_PAGE,
        "make measure-local",
        BENCH.parent / "evidence_assets" / "profiles" / "local.yaml",
    ),
}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("page", nargs="?", choices=MEASURED_PAGES, default="measured")
    parser.add_argument("--only", nargs="+", default=[], help="names of measurements; by default all")
    parser.add_argument("--lakes", type=Path, default=Path(".measure"), help="where to keep what is materialized")
    parser.add_argument("--profile", type=Path, help="a profile to measure with")
    options = parser.parse_args()
    page = MEASURED_PAGES[options.page]
    measurements = yaml.safe_load(page.measurements.read_text(encoding="utf-8"))
    lakes = options.lakes / options.page if options.page != "measured" else options.lakes
    lakes.mkdir(parents=True, exist_ok=True)
    for name in options.only or measurements:
        print(f"== {name}", flush=True)
        file = RESULTS / f"{name}.json"
        entry = measurements[name]
        has_model = page.profile is not None and not entry.get("without_model")
        arguments = command(entry, lakes, options.profile or (page.profile if has_model else None))
        arguments += ["--with-model"] if has_model else []
        subprocess.run([sys.executable, *arguments, "--json", str(file)], check=True)
        replace(Results.read(name), command=page.command).write(file)
    page.page.write_text(write_page(page.template), encoding="utf-8")


def command(entry: dict[str, Any], lakes: Path, profile: Path | None) -> list[str]:
    """The module and its arguments: variants on a benchmark, or what is read from lakes made before."""
    if "answers" in entry:
        places = [f"{lakes / place.partition(':')[0] / 'lake'}:{place.partition(':')[2]}" for place in entry["answers"]]
        return ["-m", "bench.answers.measure_answers", *places]
    if "confidence" in entry:
        return ["-m", "bench.answers.fit_confidence", *(str(lakes / name / "lake") for name in entry["confidence"])]
    lake = lakes / (Path(entry.get("world", "sample")).stem + ("_without_model" if entry.get("without_model") else ""))
    lake.mkdir(parents=True, exist_ok=True)
    options = ["--lake", str(lake), "--metrics", ",".join(entry["metrics"])]
    options += ["--world", str(BENCH / "worlds" / entry["world"])] if "world" in entry else []
    options += ["--profile", str(profile)] if profile else []
    return ["-m", "bench.answers.measure_variants", entry["benchmark"], *entry["variants"], *options]


if __name__ == "__main__":
    main()
