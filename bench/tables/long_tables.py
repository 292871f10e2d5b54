"""Time the search for cells that answer a question about a long table, beside a comparison of each cell with each cell.

    python -m bench.tables.long_tables [--rows 3000]

The baseline explains each of these cells as an option, as it is done for given options. Both must rank the same cell
first.
"""

from __future__ import annotations

import argparse
import random
import time

from evidence_assets.extractive.tables.open_questions import list_options
from evidence_assets.extractive.tables.questions import explain_options
from evidence_assets.reasoning.tables.table import TableView

BASELINE_ROWS = 500


def build_table(n_rows: int) -> TableView:
    """Items with a colour, a price, a stock and a shelf."""
    draw = random.Random(1)
    rows = [
        [
            f"{draw.choice(('cup', 'mug', 'bowl'))} {draw.choice('ABCDEFG')}{n}",
            draw.choice(("blue", "red", "green")),
            f"{draw.randint(100, 9999) / 100:.2f}",
            str(draw.randint(0, 200)),
            f"{draw.choice('ABCD')}{draw.randint(1, 30)}",
        ]
        for n in range(n_rows)
    ]
    return TableView.of("", ["Item", "Colour", "Price", "Stock", "Shelf"], rows)


def time_options(view: TableView) -> tuple[list[str], float]:
    """The cells that may answer a question about the row in the middle, and the seconds that this takes."""
    started = time.perf_counter()
    options = list_options(view, ask(view))
    return options, time.perf_counter() - started


def ask(view: TableView) -> str:
    return f"What is the price of {view.text_at((len(view.body) // 2, 0))}?"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3000)
    arguments = parser.parse_args()
    options, seconds = time_options(build_table(BASELINE_ROWS))
    view, started = build_table(BASELINE_ROWS), time.perf_counter()  # a view keeps what it computed
    chains = explain_options(view, ask(view), [str(n) for n in range(len(options))], options)
    compared = time.perf_counter() - started
    best = max(range(len(options)), key=lambda n: chains[n].support)
    if best:
        raise SystemExit(f"{options[best]!r} is first by comparison, {options[0]!r} here")
    times = f"{compared / seconds:.0f} times"
    print(f"{BASELINE_ROWS} rows: {seconds:.2f} s, by comparison of {len(options)} cells {compared:.2f} s ({times})")
    print(f"{arguments.rows:,} rows: {time_options(build_table(arguments.rows))[1]:.2f} s")


if __name__ == "__main__":
    main()
