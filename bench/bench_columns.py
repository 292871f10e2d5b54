"""Column selection for 10,000 table–claim pairs against one pair after another, with equal results.

    python -m bench.bench_columns

The baseline runs the same steps for each pair alone: its own vectors normalised, its own clustering call, numpy
throughout. Vectors are random (encoding is not part of this measurement), tables are shared by ten claims each.
Both sides run in one process by turns.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from evidence_assets.systems import settings_of
from evidence_assets.systems.ucret.columns import ColumnSettings, Lines, Selection, select_lines

PAIRS, PER_TABLE, DIMENSIONS, ROUNDS = 10_000, 10, 384, 3


def make(seed: int) -> tuple[list[frozenset[str]], np.ndarray, list[int], list[Lines]]:
    """Random claims and tables; columns lie near a few themes, as real ones do."""
    generator = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(400)]
    themes = generator.normal(size=(30, DIMENSIONS))
    tables = []
    for _ in range(PAIRS // PER_TABLE):
        width = int(generator.integers(2, 13))
        vectors = themes[generator.integers(30, size=width)] + generator.normal(size=(width, DIMENSIONS))
        tokens = tuple(frozenset(generator.choice(words, size=int(generator.integers(3, 20)))) for _ in range(width))
        tables.append(Lines(tokens, vectors))
    table_of = [i // PER_TABLE for i in range(PAIRS)]
    texts = [frozenset(generator.choice(words, size=8)) for _ in range(PAIRS)]
    return (
        texts,
        themes[generator.integers(30, size=PAIRS)] + generator.normal(size=(PAIRS, DIMENSIONS)),
        table_of,
        tables,
    )


def one_by_one(
    texts: list[frozenset[str]], vectors: np.ndarray, table_of: list[int], tables: list[Lines], settings: ColumnSettings
) -> list[Selection]:
    """The baseline: each pair as a call of its own."""
    return [select_lines([texts[i]], vectors[i : i + 1], [0], [tables[t]], settings)[0] for i, t in enumerate(table_of)]


def main() -> None:
    data = make(0)
    for settings in (settings_of("table/ucret_published").columns, settings_of("table/ucret_js_published").columns):
        alone, together = [], []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            expected = one_by_one(*data, settings)
            middle = time.perf_counter()
            found = select_lines(*data, settings)
            together.append(time.perf_counter() - middle)
            alone.append(middle - start)
            assert found == expected, "batch and single results differ"
        slow, fast = statistics.median(alone), statistics.median(together)
        print(
            f"{settings.measure}: {PAIRS} pairs one by one {slow:.2f} s, together {fast:.2f} s, ratio {slow / fast:.1f}; "
            "results equal"
        )


if __name__ == "__main__":
    main()
