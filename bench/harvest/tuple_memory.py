"""Memory of the tuple search at the published size.

The model is a table: the log-probability of a word is that of its rank in Zipf's law, plus noise that depends on the
query. The peak counts what the search allocates, as tracemalloc sees it. Run from the repository root::

    python -m bench.harvest.tuple_memory [--n 1000] [--words 30000] [--prompts 1] [--occurrences 10] [--noise 2]
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Sequence

import numpy as np

from bench.measuring import make_parser, resident
from evidence_assets.harvest.tuple_search import FillQuery, search_tuples


class ZipfModel:
    """Zipf's law over a vocabulary, shifted by noise of the query."""

    def __init__(self, words: int, noise: float) -> None:
        self._base = -np.log(np.arange(1, words + 1))
        self._noise, self.queries = noise, 0

    def __call__(self, queries: Sequence[FillQuery]) -> np.ndarray:
        self.queries += len(queries)
        rows = np.empty((len(queries), len(self._base)), dtype=np.float32)
        for row, query in zip(rows, queries, strict=True):
            random = np.random.default_rng([query.prompt, *query.shape, len(query.filled), *query.filled])
            row[:] = random.permutation(self._base) * 0.3 + self._base + self._noise * random.standard_normal(len(row))
        rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
        return rows


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--words", type=int, default=30_000)
    parser.add_argument("--prompts", type=int, default=1)
    parser.add_argument("--occurrences", type=int, default=10)
    parser.add_argument("--noise", type=float, default=2.0)
    options = parser.parse_args()
    model = ZipfModel(options.words, options.noise)
    vocabulary = [f"w{number}" for number in range(options.words)]
    tracemalloc.start()
    started = time.perf_counter()
    weights = [1 / options.prompts] * options.prompts
    pairs = search_tuples(model, vocabulary, weights, n=options.n, max_occurrences=options.occurrences)
    seconds, (_, peak) = time.perf_counter() - started, tracemalloc.get_traced_memory()
    print(
        f"n={options.n:,}, {options.words:,} words, {options.prompts} prompts: {len(pairs):,} pairs, "
        f"{model.queries:,} queries, {seconds:.0f} s; "
        f"peak of the search {peak / 1e6:,.0f} MB, of the process {resident('VmHWM'):,.0f} MB"
    )


if __name__ == "__main__":
    main()
