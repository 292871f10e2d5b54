"""Exact search against a naive loop that shares no code with it, over random and real measures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from evidence_assets.transport import TokenMeasure, TokenPool, distance, plan, strongest_pairs, top_k
from evidence_assets.transport.bounds import COEFFICIENTS, BlockBounds, dual_bound, query_features, text_bounds
from evidence_assets.transport.costs import CostName, cost_matrix
from evidence_assets.transport.device import DevicePass
from evidence_assets.transport.divergence import softmax

Array = NDArray[np.float64]
COSTS: tuple[CostName, ...] = ("jsd", "cosine", "euclidean")


def naive_cost(x: Array, y: Array, cost: CostName) -> Array:
    """Every pair by its definition, in float64."""
    result = np.empty((len(x), len(y)))
    for i, p in enumerate(x):
        for j, q in enumerate(y):
            if cost == "jsd":
                p, q = p / p.sum(), q / q.sum()
                m = (p + q) / 2
                with np.errstate(divide="ignore", invalid="ignore"):
                    terms = np.where(p > 0, p * np.log(p / m), 0) + np.where(q > 0, q * np.log(q / m), 0)
                result[i, j] = terms.sum() / 2
            elif cost == "cosine":
                norms = np.linalg.norm(p) * np.linalg.norm(q)
                result[i, j] = 1 - (p @ q / norms if norms > 0 else 0.0)
            else:
                result[i, j] = np.sqrt(((p - q) ** 2).sum())
    return result


def naive_distance(x: TokenMeasure, y: TokenMeasure, cost: CostName) -> float:
    a, b = (m.weights / m.weights.sum() if m.weights.sum() else np.full(len(m), 1 / len(m)) for m in (x, y))
    return float(ot.emd2(a, b, naive_cost(x.points, y.points, cost), numItermax=1_000_000))


def assert_same(found: object, query: TokenMeasure, pool: list[TokenMeasure], k: int, cost: CostName) -> None:
    truth = np.array([naive_distance(query, y, cost) for y in pool])
    order = np.argsort(truth, kind="stable")[:k]
    indices, distances = found.indices, found.distances  # type: ignore[attr-defined]
    assert len(set(indices.tolist())) == len(indices) == min(k, len(pool))
    assert distances == pytest.approx(truth[order], abs=1e-6)
    assert truth[indices] == pytest.approx(distances, abs=1e-6)
    for i, expected in zip(indices, order, strict=True):  # another text only where the two are equal
        assert i == expected or truth[i] == pytest.approx(truth[expected], abs=1e-9)


def random_measures(rng: np.random.Generator, count: int, d: int, most: int, kind: str) -> list[TokenMeasure]:
    measures: list[TokenMeasure] = []
    spread = {"flat": 0.05, "peaky": 12.0, "mixed": 2.0}[kind]
    for _ in range(count):
        n = int(rng.integers(1, most + 1))
        vectors = rng.normal(size=(n, d)) * spread
        if measures and rng.random() < 0.3:  # a near-duplicate of an earlier text
            other = measures[int(rng.integers(len(measures)))]
            points = np.clip(other.points * (1 + 1e-4 * rng.normal(size=other.points.shape)), 0, None)
            measures.append(TokenMeasure(points, other.weights))
            continue
        points = softmax(vectors)
        if rng.random() < 0.3:
            points[rng.integers(n)] = points[0]  # identical points
        if rng.random() < 0.2:
            points[0] = np.eye(d)[rng.integers(d)]  # zeros in a distribution
        weights = rng.gamma(0.7, size=n) * (rng.random(n) > 0.2)
        measures.append(TokenMeasure(points, weights if rng.random() > 0.1 else np.zeros(n)))
    return measures


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    d=st.sampled_from([2, 3, 17, 64]),
    count=st.integers(1, 40),
    k=st.integers(1, 8),
    kind=st.sampled_from(["flat", "peaky", "mixed"]),
    cost=st.sampled_from(COSTS),
)
def test_top_k_equals_the_naive_loop(seed: int, d: int, count: int, k: int, kind: str, cost: CostName) -> None:
    rng = np.random.default_rng(seed)
    pool = random_measures(rng, count, d, 8, kind)
    pool += pool[: count // 4]  # exact ties
    queries = random_measures(rng, 2, d, 8, kind)
    for query, found in zip(queries, top_k(queries, pool, k, cost, threads=2), strict=True):
        assert_same(found, query, pool, k, cost)


@pytest.mark.parametrize("kind", ["flat", "peaky", "mixed"])
@pytest.mark.parametrize("cost", COSTS)
def test_top_k_at_full_size(kind: str, cost: CostName) -> None:
    rng = np.random.default_rng(5)
    pool = random_measures(rng, 40, 1024, 60, kind)
    (query,) = random_measures(rng, 1, 1024, 60, kind)
    reference = np.array([distance(query, y, cost) for y in pool])
    found = top_k(query, pool, 5, cost)
    assert found.indices.tolist() == np.argsort(reference, kind="stable")[:5].tolist()
    assert found.distances.tolist() == reference[found.indices].tolist()
    for i in found.indices[:2]:
        assert distance(query, pool[i], cost) == pytest.approx(naive_distance(query, pool[i], cost), abs=1e-9)


def half_store(rng: np.random.Generator, texts: int, d: int) -> TokenPool:
    lengths = rng.integers(1, 30, texts)
    topics = rng.normal(size=(12, d))
    vectors = (topics[rng.integers(12, size=lengths.sum())] + 0.5 * rng.normal(size=(lengths.sum(), d))) * 0.4
    weights = np.round(rng.gamma(1.0, size=lengths.sum()) * 4, 2) * (rng.random(lengths.sum()) > 0.2)
    return TokenPool(vectors.astype(np.float16), np.concatenate([[0], np.cumsum(lengths)]), weights)


@pytest.mark.parametrize("scaled", [True, False])
def test_memory_mapped_half_precision_store(tmp_path: Path, scaled: bool) -> None:
    rng = np.random.default_rng(3)
    made = half_store(rng, 300, 48)
    for name in ("vectors", "offsets", "weights"):
        np.save(tmp_path / f"{name}.npy", getattr(made, name))
    opened = [np.load(tmp_path / f"{n}.npy", mmap_mode="r") for n in ("vectors", "offsets", "weights")]
    pool = TokenPool(*opened).with_softmax(scaled=scaled)
    queries = []
    for text in (4, 9):
        z = made.vectors[made.offsets[text] : made.offsets[text + 1]].astype(float) + 0.1
        w = made.weights[made.offsets[text] : made.offsets[text + 1]] + 0.01
        queries.append(TokenMeasure(softmax(z * w[:, None] if scaled else z), w))
    measures = [pool.measure(i) for i in range(len(pool))]
    found = top_k(queries, pool, 7)
    for query, one in zip(queries, found, strict=True):
        assert_same(one, query, measures, 7, "jsd")
        assert one.solved < 200, "the bounds should spare most of the 300 texts"
        alone = top_k(query, pool, 7, threads=1)
        assert alone.indices.tolist() == one.indices.tolist()
        assert alone.distances.tolist() == one.distances.tolist()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    d=st.sampled_from([2, 5, 64, 384]),
    spread=st.sampled_from([1e-3, 0.1, 1.0, 8.0, 100.0, 5000.0]),
    form=st.sampled_from(["softmax", "points"]),
    cost=st.sampled_from(COSTS),
)
def test_every_bound_is_a_bound(seed: int, d: int, spread: float, form: str, cost: CostName) -> None:
    rng = np.random.default_rng(seed)
    z = (rng.normal(size=(24, d)) * spread).astype(np.float16).astype(np.float64)
    z[5] = z[4]
    weights = rng.gamma(1.0, size=24) * 3
    offsets = np.array([0, 1, 8, 24])
    pool = TokenPool(z.astype(np.float16), offsets, weights)
    if form == "softmax":
        pool = pool.with_softmax()
    elif cost == "jsd":
        pool = TokenPool(softmax(z).astype(np.float32), offsets, weights)
    other = softmax(z[3:9] * weights[3:9, None]) if cost == "jsd" or form == "softmax" else z[3:9] * 1.01
    query = TokenMeasure(other, rng.random(6))
    exact = np.concatenate([cost_matrix(query.points, pool.measure(i).points, cost) for i in range(3)], axis=1)
    kernel = BlockBounds(query_features(query.points, cost), 24, d)
    lower = kernel.costs(pool.vectors, pool.factors).copy()
    usable = ~np.isnan(lower)
    assert (lower[usable] <= exact[usable]).all()
    potentials = np.stack([rng.normal(size=6) * exact.std(), exact.min(axis=1)])
    bounds = text_bounds(lower, query.masses, pool.masses(), offsets[:-1], potentials)
    for i in range(3):
        true = distance(query, pool.measure(i), cost)
        assert bounds[i] <= true + 1e-12
        part = exact[:, offsets[i] : offsets[i + 1]]
        assert dual_bound(query.masses, pool.measure(i).masses, part, potentials) <= true + 1e-9 * (1 + exact.max())


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_device_pass_gives_bounds_and_the_same_answer(cost: CostName, device: str) -> None:
    """The torch pass, here on the processor too, where its arithmetic can be checked without a GPU."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    rng = np.random.default_rng(8)
    store = half_store(rng, 120, 48)
    for pool in (store.with_softmax(), store.with_softmax(scaled=False), store):
        if cost == "jsd" and pool is store:
            pool = TokenPool.from_measures([store.with_softmax().measure(i) for i in range(120)])
        queries = [pool.measure(3), pool.measure(50)]
        queries = [TokenMeasure(q.points[q.masses > 0], q.weights[q.masses > 0]) for q in queries]
        features = query_features(np.concatenate([q.points for q in queries]), cost)
        edges = np.cumsum([0, len(queries[0]), len(queries[1])])
        duals = [np.full(len(q), 0.1) for q in queries]
        work = DevicePass(features, edges, device)
        bounds = work.run(pool, pool.masses(), [q.masses for q in queries], duals)
        pool.keep_on(device)
        assert np.allclose(work.run(pool, pool.masses(), [q.masses for q in queries], duals), bounds, atol=1e-5)
        for query, lower in zip(queries, bounds, strict=True):
            true = np.array([distance(query, pool.measure(i), cost) for i in range(len(pool))])
            assert (lower <= true + 1e-12).all()
            assert np.median(lower[true > 0] / true[true > 0]) > 0.2, "a bound that says nothing prunes nothing"
            if device == "cuda":
                found = top_k(query, pool, 5, cost, device=device)
                assert found.indices.tolist() == np.argsort(true, kind="stable")[:5].tolist()


def test_coefficients_stay_below_the_generator_on_the_grid_of_the_proof() -> None:
    s = np.arange(0, 40, 2e-5)
    x = 1 / (1 + np.exp(-s))
    h = np.log(2) + x * np.log(x) - (1 - x) * (s + np.log1p(np.exp(-s)))
    for c0, c1, c2 in COEFFICIENTS:
        g = c0 + (c1 + c2 * np.cos(s / 2)) / np.cosh(s / 2)
        assert (h - g).min() >= 1e-5
        assert abs(c1) / 4 + 3 * abs(c2) / 4 < 0.5 and abs(c1) + abs(c2) < 0.72 and c0 + 1e-5 <= np.log(2)


def test_the_bound_is_tight_where_it_was_fitted() -> None:
    rng = np.random.default_rng(0)
    for spread, share in ((0.3, 0.99), (3.0, 0.97)):
        z = rng.normal(size=(40, 384)) * spread
        exact = cost_matrix(softmax(z[:10]), softmax(z[10:]), "jsd")
        kernel = BlockBounds(query_features(softmax(z[:10]), "jsd"), 30, 384)
        assert (kernel.costs(z[10:], np.ones(30)) / exact).mean() > share


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(COSTS))
def test_distance_equals_a_linear_program(seed: int, cost: CostName) -> None:
    rng = np.random.default_rng(seed)
    x, y = random_measures(rng, 2, 6, 6, "mixed")
    costs, n, m = naive_cost(x.points, y.points, cost), len(x), len(y)
    equal = np.concatenate([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    best = linprog(costs.ravel(), A_eq=equal, b_eq=np.concatenate([x.masses, y.masses]), method="highs")
    assert distance(x, y, cost) == pytest.approx(best.fun, abs=1e-8)
    assert distance(y, x, cost) == pytest.approx(best.fun, abs=1e-8)
    moved = plan(x, y, cost)
    assert moved.sum(axis=1) == pytest.approx(x.masses, abs=1e-9)
    assert moved.sum(axis=0) == pytest.approx(y.masses, abs=1e-9)
    assert (moved * costs).sum() == pytest.approx(best.fun, abs=1e-8)


def test_strongest_pairs_name_the_words_that_aligned() -> None:
    x = TokenMeasure([[0.0], [10.0]], [1, 3])
    y = TokenMeasure([[11.0], [0.5]], [3, 1])
    pairs = strongest_pairs(x, y, "euclidean")
    assert [(p.source, p.target, p.mass, p.cost) for p in pairs] == [(1, 0, 0.75, 1.0), (0, 1, 0.25, 0.5)]
    assert len(strongest_pairs(x, y, "euclidean", limit=1)) == 1


def test_a_callable_is_a_cost_even_where_it_is_negative() -> None:
    rng = np.random.default_rng(1)
    pool = [TokenMeasure(rng.normal(size=(4, 3)), rng.random(4)) for _ in range(60)]
    query = TokenMeasure(rng.normal(size=(3, 3)), rng.random(3))

    def inner(x: Array, y: Array) -> Array:
        return -(x @ y.T)

    truth = [ot.emd2(query.masses, y.masses, inner(query.points, y.points)) for y in pool]
    found = top_k(query, pool, 4, inner)
    assert found.indices.tolist() == np.argsort(truth, kind="stable")[:4].tolist()
    with pytest.raises(ValueError, match="gave shape"):
        top_k(query, pool, 1, lambda x, y: np.zeros((1, 1)))
    with pytest.raises(ValueError, match="not finite"):
        top_k(query, pool, 1, lambda x, y: np.full((len(x), len(y)), np.nan))


def test_bad_and_extreme_input_has_a_defined_result() -> None:
    one = TokenMeasure([[0.2, 0.8]], [0.0])
    assert one.masses.tolist() == [1.0]
    uniform, zero = TokenMeasure([[1.0, 0], [0, 1]], [1, 1]), TokenMeasure([[1.0, 0], [0, 1]], [0, 0])
    assert distance(zero, one) == distance(uniform, one)
    assert top_k(zero, [one], 3).distances.tolist() == [distance(uniform, one)]  # pool smaller than k
    empty = top_k(one, [], 3)
    assert (len(empty.indices), len(empty.distances), empty.solved) == (0, 0, 0)
    assert [r.solved for r in top_k([one, zero], [], 3)] == [0, 0]
    assert top_k([], [one], 3) == []
    huge = TokenMeasure([[1.0, 0], [0, 1]], [1e308, 1e308])
    assert huge.masses.tolist() == [0.5, 0.5]
    assert TokenPool([[1.0], [2.0]], [0, 2], [1e308, 1e308]).masses().tolist() == [0.5, 0.5]
    assert distance(TokenMeasure([[0.0, 0.0]], [1]), one, "cosine") == 1.0
    far = [TokenMeasure([[1e30 * i, 1e300]], [1]) for i in range(30)]  # beyond float32: no bound, still exact
    assert top_k(far[7], far, 2, "euclidean").indices.tolist()[0] == 7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TokenMeasure([[1.0, np.nan]], [1]), r"points\[0, 1\] is nan"),
        (lambda: TokenMeasure([[1.0], [np.inf]], [1, 1]), r"points\[1, 0\] is inf"),
        (lambda: TokenMeasure([[1.0], [2.0]], [1, -1]), r"weights\[1\] is -1"),
        (lambda: TokenMeasure([[1.0]], [np.nan]), r"weights\[0\] is nan"),
        (lambda: TokenMeasure([[1.0]], [1, 2]), "one number for each of the 1 tokens"),
        (lambda: TokenMeasure(np.empty((0, 3)), []), "at least one token"),
        (lambda: TokenPool([[1.0], [np.nan]], [0, 1, 2], [1, 1]), r"vectors\[1, 0\] is nan \(text 1\)"),
        (lambda: TokenPool([[1.0]], [0, 1], [-2.0]), r"weights\[0\] is -2"),
        (lambda: TokenPool([[1.0]], [0, 1], [1.0], [np.inf]), r"factors\[0\] is inf"),
        (lambda: TokenPool([[1.0]], [0, 0, 1], [1]), "text 0 has no token"),
        (lambda: TokenPool([[1.0]], [0, 2], [1]), "offsets must run from 0 to the 1 rows"),
        (lambda: TokenPool([[1.0]], [0, 1], [1, 1]), "weights have shape"),
        (lambda: TokenPool([1.0], [0, 1], [1]), "one row a token"),
        (lambda: TokenPool([[1.0]], [0, 1], [1]).with_softmax(0), "temperature is 0"),
        (lambda: TokenPool.from_measures([TokenMeasure([[1.0]], [1]), TokenMeasure([[1.0, 2]], [1])]), "share a pool"),
        (lambda: top_k(TokenMeasure([[1.0]], [1]), [], 0), "at least one text"),
        (lambda: top_k(TokenMeasure([[1.0]], [1]), [TokenMeasure([[1.0, 2]], [1])], 1), "1 dimensions, the pool's 2"),
        (lambda: top_k(TokenMeasure([[1.0]], [1]), [], 1, "l1"), "cost 'l1' is unknown"),  # type: ignore[call-overload]
        (lambda: distance(TokenMeasure([[-1.0, 2]], [1]), TokenMeasure([[1.0, 2]], [1])), "compares distributions"),
        (lambda: distance(TokenMeasure([[0.0, 0]], [1]), TokenMeasure([[1.0, 2]], [1])), r"points\[0\] sums to 0"),
    ],
)
def test_bad_input_is_named(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_a_negative_distribution_in_a_pool_is_named_and_not_lost() -> None:
    pool = [TokenMeasure([[0.5, 0.5]], [1]) for _ in range(40)]
    pool[33] = TokenMeasure([[-0.5, 1.5]], [1])
    with pytest.raises(ValueError, match="compares distributions"):
        top_k(TokenMeasure([[0.5, 0.5]], [1]), pool, 1)


@pytest.mark.dev_data
def test_real_words_as_token_vectors(dev_data: Path) -> None:
    """Real sentences with a fixed random vector for each word: repeated words are identical points."""
    corpus = json.loads((dev_data / "hotpotqa-100" / "hotpotqa_train_corpus.json").read_text(encoding="utf-8"))
    sentences = [s.lower().split() for text in corpus.values() for s in text if s.strip()][:250]
    rng = np.random.default_rng(0)
    table = {w: rng.normal(size=96) for w in sorted({w for s in sentences for w in s})}
    measures = [TokenMeasure(softmax([table[w] for w in s]), [float(len(w)) for w in s]) for s in sentences]
    found = top_k(measures[17], measures, 5)
    truth = np.array([naive_distance(measures[17], y, "jsd") for y in measures[:60]])
    assert found.indices[0] == 17 and found.distances[0] == pytest.approx(0, abs=1e-9)
    reference = np.array([distance(measures[17], y) for y in measures])
    assert reference[:60] == pytest.approx(truth, abs=1e-6)
    assert found.indices.tolist() == np.argsort(reference, kind="stable")[:5].tolist()
