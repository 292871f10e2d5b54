"""BM25 of a corpus on disk: seconds to build, bytes a text, time of a query, and the same of libraries that are kept up.

The corpus is made of real sentences put together anew (`EVIDENCE_DEV_DATA`); queries are HotpotQA's questions. `bm25s` is
measured where it is installed (it is no dependency), with numba where that is. Positions and scores are asserted to be those of
the index in memory, bit by bit, and the scores of `bm25s`, which reckons in float32 and leaves the factor k1 + 1 out.

    python bench/bench_bm25.py --texts 200000
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from evidence_assets.retrieval.bm25 import K1, B, BM25Index, words
from evidence_assets.retrieval.term_index import TermIndex, TermIndexWriter

K, QUERIES, AT_ONCE, TRIES = 200, 100, 8192, 5


def sentences_and_questions() -> tuple[list[str], list[str]]:
    """Sentences of HotpotQA's passages, and its questions."""
    folder = Path(os.environ["EVIDENCE_DEV_DATA"]) / "hotpotqa-100"
    corpus = json.loads((folder / "hotpotqa_train_corpus.json").read_text(encoding="utf-8"))
    asked = json.loads((folder / "hotpotqa_train.json").read_text(encoding="utf-8"))
    return [s for passage in corpus.values() for s in passage if s.strip()], [row["question"] for row in asked]


def texts_of(sentences: Sequence[str], count: int) -> list[list[str]]:
    """Texts of four sentences, as words; one word of each is its own, so that the vocabulary grows."""
    rng, cut = np.random.default_rng(0), [words(sentence) for sentence in sentences]
    return [[word for i in rng.integers(0, len(cut), 4) for word in cut[i]] + [f"q{number}"] for number in range(count)]


def milliseconds(ask: Callable[[list[str]], object], queries: Sequence[list[str]]) -> float:
    """The median over queries of the least time that each took in some tries."""

    def once(query: list[str]) -> float:
        started = time.perf_counter()
        ask(query)
        return 1000 * (time.perf_counter() - started)

    return statistics.median(min(once(query) for _ in range(TRIES)) for query in queries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=200_000)
    count = parser.parse_args().texts
    sentences, questions = sentences_and_questions()
    texts, queries = texts_of(sentences, count), [words(question) for question in questions[:QUERIES]]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        writer = TermIndexWriter(Path(folder) / "index")
        for start in range(0, count, AT_ONCE):
            writer.add(texts[start : start + AT_ONCE])
        writer.finish()
        built = time.perf_counter() - started
        size = sum(path.stat().st_size for path in (Path(folder) / "index").iterdir())
        index = TermIndex(Path(folder) / "index")
        reference = BM25Index(texts, "plus_one")
        for query in queries:
            positions, scores = index.top_k(query, K, "plus_one")
            expected = reference.top_k(query, K)
            assert positions.tolist() == expected[0].tolist() and scores.tolist() == expected[1].tolist()
        own = milliseconds(lambda query: index.top_k(query, K, "plus_one"), queries)
        print(f"{count:,} texts: built in {built:.1f} s, {size / count:.0f} bytes a text, equal to the index in memory")
        print(f"on disk                {own:8.2f} ms a query, the best {K}")
        print(f"in memory, this project {milliseconds(lambda q: reference.top_k(q, K), queries):7.2f} ms")
        if find_spec("bm25s"):
            import bm25s

            for backend in ("numpy", "numba") if find_spec("numba") else ("numpy",):
                other = bm25s.BM25(method="lucene", k1=K1, b=B, backend=backend)
                started = time.perf_counter()
                other.index(texts, show_progress=False)
                built = time.perf_counter() - started
                ask = other.retrieve
                for query in queries:
                    theirs = ask([query], k=K, show_progress=False).scores[0] * (K1 + 1)
                    assert np.allclose(theirs, index.top_k(query, K, "plus_one")[1], rtol=1e-4)
                taken = milliseconds(lambda q: ask([q], k=K, show_progress=False, n_threads=1), queries)  # noqa: B023
                print(f"bm25s, {backend:15s} {taken:8.2f} ms, built in {built:.1f} s, in memory")


if __name__ == "__main__":
    main()
