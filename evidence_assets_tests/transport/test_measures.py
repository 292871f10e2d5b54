"""Published ways to build a measure, each against its formula."""

from __future__ import annotations

import numpy as np
import pytest

from evidence_assets.retrieval.maxsim import maxsim, maxsim_texts
from evidence_assets.transport import TokenMeasure, TokenPool, distance, top_k
from evidence_assets.transport.measures import build_measure, cost_of, power_means, word_means, word_spans

RNG = np.random.default_rng(0)


def test_jsd_is_the_softmax_of_weight_times_vector_over_temperature() -> None:
    vectors, weights = RNG.normal(size=(4, 6)), np.array([0.0, 1.0, 2.0, 5.0])
    made = build_measure(vectors, weights, "jsd", temperature=2.0)
    z = np.exp(vectors * weights[:, None] / 2.0)
    assert made.points == pytest.approx(z / z.sum(axis=1, keepdims=True))
    assert made.masses == pytest.approx(weights / 8)
    assert made.points[0] == pytest.approx(np.full(6, 1 / 6))  # a weight of 0 forgets the word
    plain = np.exp(vectors)
    unscaled = build_measure(vectors, weights, "jsd_unscaled")
    assert unscaled.points == pytest.approx(plain / plain.sum(axis=1, keepdims=True))
    assert build_measure(vectors, weights, "cosine").points.tolist() == vectors.tolist()
    assert build_measure(vectors, weights, "euclidean").points.tolist() == vectors.tolist()


def test_a_pool_of_vectors_gives_the_same_distances_as_built_measures() -> None:
    vectors, weights = RNG.normal(size=(9, 6)), RNG.random(9)
    pool = TokenPool(vectors, [0, 4, 9], weights)
    query = build_measure(RNG.normal(size=(3, 6)), [1, 1, 0], "jsd")
    for scaled, variant in ((True, "jsd"), (False, "jsd_unscaled")):
        found = top_k(query, pool.with_softmax(0.5, scaled=scaled), 2)
        for text, value in zip(found.indices, found.distances, strict=True):
            rows = slice(pool.offsets[text], pool.offsets[text + 1])
            other = build_measure(vectors[rows], weights[rows], variant, 0.5)  # type: ignore[arg-type]
            assert value == pytest.approx(distance(query, other), abs=1e-12)


def test_moverscore_takes_unit_power_means_of_layers() -> None:
    layers = RNG.normal(size=(3, 5, 4))
    made = build_measure(layers, [1, 2, 3], "moverscore")
    joined = np.concatenate([layers.mean(1), layers.max(1), layers.min(1)], axis=1)
    assert made.points == pytest.approx(joined / np.linalg.norm(joined, axis=1, keepdims=True))
    assert cost_of("moverscore") == "euclidean"
    third = power_means([[[-1.0], [-2.0]]], powers=[3.0])
    assert third[0, 0] == pytest.approx(-(4.5 ** (1 / 3)))
    with pytest.raises(ValueError, match="loses the sign"):
        power_means(layers, powers=[2.0])
    with pytest.raises(ValueError, match="tokens × layers"):
        build_measure(layers[0], [1] * 5, "moverscore")
    with pytest.raises(ValueError, match="unknown"):
        build_measure(layers[0], [1] * 5, "wmd")  # type: ignore[arg-type]


def test_words_can_be_the_mean_of_their_pieces() -> None:
    spans = word_spans([True, False, True, False, False])
    assert spans.tolist() == [0, 2, 5]
    assert word_means([[1.0], [3.0], [2.0], [4.0], [6.0]], spans).tolist() == [[2.0], [4.0]]
    assert word_spans([False, True]).tolist() == [0, 1, 2]
    assert word_spans([]).tolist() == [0]
    assert word_means(np.empty((0, 3)), [0]).shape == (0, 3)


def test_maxsim_equals_a_plain_loop() -> None:
    texts = [RNG.normal(size=(n, 8)) for n in (1, 5, 3, 30)]
    query, weights = RNG.normal(size=(4, 8)), np.array([1.0, 0.0, 2.0, 1.0])
    texts[1][2] = 0.0
    pool = TokenPool.from_measures([TokenMeasure(t, np.ones(len(t))) for t in texts])
    expected = []
    for text in texts:
        best = []
        for q in query:
            norms = np.linalg.norm(text, axis=1) * np.linalg.norm(q)
            best.append(max((text @ q) / np.where(norms > 0, norms, 1)))
        expected.append(np.dot(weights, best) / weights.sum())
    assert maxsim_texts(query, pool, weights) == pytest.approx(expected, abs=1e-6)
    assert maxsim_texts(query, pool, weights, texts=[3, 0]) == pytest.approx([expected[3], expected[0]], abs=1e-6)
    assert maxsim(query, texts[2], weights) == pytest.approx(expected[2], abs=1e-6)
    assert maxsim_texts(query, pool, np.zeros(4)) == pytest.approx(maxsim_texts(query, pool), abs=1e-12)
    assert len(maxsim_texts(query, TokenPool(np.empty((0, 8)), [0], []))) == 0
    with pytest.raises(ValueError, match="cannot be compared"):
        maxsim_texts(query[:, :3], pool)
    with pytest.raises(ValueError, match="not negative"):
        maxsim_texts(query, pool, [-1, 1, 1, 1])
