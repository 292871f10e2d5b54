"""BM25 of a corpus on disk: seconds to build, bytes a text on disk and in memory, time of a query, beside ``bm25s`` in
memory.

The corpus is made of real sentences put together anew (`EVIDENCE_DEV_DATA`); queries are HotpotQA's questions. Scores
are asserted to be those that ``bm25s`` gives where it builds the index its own way, times the factor k1 + 1 that it
leaves out.

    python -m bench.retrieval.bm25 --texts 200000
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import bm25s
import numpy as np

from bench.dev_data import hotpotqa_rows, hotpotqa_sentences
from bench.measuring import disk, make_parser, resident, timed
from evidence_assets.retrieval.bm25 import K1, B, TermIndex, TermIndexWriter, lowercase_words

K, QUERIES, AT_ONCE, TRIES = 200, 100, 8192, 5


def texts_of(sentences: Sequence[str], count: int) -> list[list[str]]:
    """Texts of four sentences, as words; one word of each is its own, so that the vocabulary grows."""
    rng, words = np.random.default_rng(0), [lowercase_words(sentence) for sentence in sentences]
    return [
        [word for i in rng.integers(0, len(words), 4) for word in words[i]] + [f"q{number}"] for number in range(count)
    ]


def milliseconds(ask: Callable[[list[str]], object], queries: Sequence[list[str]]) -> float:
    """The median over queries of the least time that each took in some tries."""
    return 1000 * statistics.median(min(timed(ask, query)[1] for _ in range(TRIES)) for query in queries)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--texts", type=int, default=200_000)
    count = parser.parse_args().texts
    texts = texts_of(hotpotqa_sentences(), count)
    queries = [lowercase_words(row["question"]) for row in hotpotqa_rows()[:QUERIES]]
    with tempfile.TemporaryDirectory() as folder:
        before, started = resident("VmRSS") * 2**20, time.perf_counter()
        writer = TermIndexWriter(Path(folder) / "index")
        for start in range(0, count, AT_ONCE):
            writer.add(texts[start : start + AT_ONCE])
        writer.finish()
        build_time = time.perf_counter() - started
        added_bytes = resident("VmHWM") * 2**20 - before
        size = disk(Path(folder) / "index")
        index = TermIndex(Path(folder) / "index")
        print(f"{count:,} texts: {size / count:.0f} bytes a text on disk, {added_bytes / count:.0f} in memory")
        other = bm25s.BM25(method="lucene", k1=K1, b=B)
        _, library_build = timed(other.index, texts, show_progress=False)
        for query in queries:
            expected = np.sort(other.get_scores(query))[::-1][:K] * (K1 + 1)
            assert np.allclose(index.top_k(query, K)[1], expected[expected > 0], rtol=1e-5)
        our_time = milliseconds(lambda query: index.top_k(query, K), queries)
        library = milliseconds(lambda query: other.retrieve([query], k=K, show_progress=False), queries)
        print(f"on disk           built in {build_time:6.1f} s, {our_time:7.2f} ms a query, the best {K}")
        print(f"bm25s, in memory  built in {library_build:6.1f} s, {library:7.2f} ms")
        print(
            f"ratio of times: building {build_time / library_build:.2f}, asking {our_time / library:.2f}; equal scores"
        )


if __name__ == "__main__":
    main()
