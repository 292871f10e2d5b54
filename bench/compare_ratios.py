"""Run the quick benches and print what became slower than ``bench/results/ratios.json``: ``make bench-compare``.

    python -m bench.compare_ratios [--only NAME …] [--rounds 3] [--write]

A bench prints its speed as a ratio to a baseline that runs in the same process, so that the table holds on other
machines, too. A bench is slower if its best ratio of all rounds is below the lowest recorded one by more than the
spread of the recorded rounds, or by more than a tenth. ``--write`` records the ratios instead. The exit status is 1 if
a bench is slower.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bench.measuring import make_parser
from bench.result_files import RESULTS, Results, write_results

NAME = "ratios"
LEAST_NOISE = 0.1
"""Relative decrease that is never reported."""


class Bench(NamedTuple):
    """Arguments of a bench, and the pattern of its ratio in what it prints; a higher ratio is faster."""

    arguments: str
    pattern: str
    baseline: str


BENCHES = {
    "harvest.tuple_search": Bench("", r"([\d.]+) times faster", "one call for each node"),
    "harvest.triple_scoring": Bench("", r"ratio ([\d.]+)", "one pair at a time"),
    "graphs.attention": Bench(
        "--questions 2 --steps 20 2 --repeats 2", r"ratio of the best ([\d.]+)", "torch-geometric, in a loop"
    ),
    "retrieval.encoder": Bench(
        "--texts 60 --rounds 3",
        r"clauses\S* \S+ +float32(?: +\d+){4} +([\d.]+)",
        "the network as transformers loads it",
    ),
}


def run_bench(name: str) -> float:
    """Run a bench once and return the first ratio that it prints."""
    bench = BENCHES[name]
    command = [sys.executable, "-m", f"bench.{name}", *bench.arguments.split()]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    match = re.search(bench.pattern, output)
    if not match:
        raise SystemExit(f"bench.{name} printed no ratio; {bench.pattern!r} matches nothing in:\n{output}")
    return float(match[1])


def format_rows(ratios: Mapping[str, Sequence[float]]) -> list[list[str]]:
    """The lowest, middle and highest ratio of each bench."""
    rows = []
    for name, values in ratios.items():
        ordered = sorted(values)
        figures = [f"{value:.2f}" for value in (ordered[0], ordered[len(ordered) // 2], ordered[-1])]
        command = f"python -m bench.{name} {BENCHES[name].arguments}".strip()
        rows.append([f"`{command}`", BENCHES[name].baseline, *figures])
    return rows


def read_ranges(results: Results) -> dict[str, tuple[float, float]]:
    """The lowest and highest recorded ratio of each bench, by its name."""
    ranges = {}
    for command, _, low, _, high in results.rows:
        name = command.strip("`").split()[2].removeprefix("bench.")
        ranges[name] = (float(low), float(high))
    return ranges


def is_slower(values: Sequence[float], low: float, high: float) -> bool:
    """Whether the best new ratio is below the lowest recorded one by more than the noise."""
    return max(values) < low - max(LEAST_NOISE * low, high - low)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=list(BENCHES), default=list(BENCHES), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="record the ratios in bench/results")
    options = parser.parse_args()
    recorded = read_ranges(Results.read(NAME))
    ratios = {}
    slower = []
    for name in options.only:
        ratios[name] = [run_bench(name) for _ in range(options.rounds)]
        line = f"{name:24} {', '.join(f'{ratio:.2f}' for ratio in ratios[name])}"
        if name in recorded:
            low, high = recorded[name]
            slower += [name] if is_slower(ratios[name], low, high) else []
            line += f"  recorded {low:.2f} to {high:.2f}{'  SLOWER' if name in slower else ''}"
        print(line, flush=True)
    if options.write:
        if len(ratios) < len(BENCHES):
            raise SystemExit("--write records all benches; leave --only out")
        columns = ("command", "baseline", "lowest", "middle", "highest")
        write_results(RESULTS / f"{NAME}.json", columns, format_rows(ratios))
    elif slower:
        raise SystemExit(f"slower than bench/results/ratios.json: {', '.join(slower)}")


if __name__ == "__main__":
    main()
