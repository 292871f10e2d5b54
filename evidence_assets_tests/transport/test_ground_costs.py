"""The contract of ground costs, tested for all registered ones."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from evidence_assets.transport import GroundCost, TokenMeasure, TokenPool, find_nearest_texts, get_ground_cost, search
from evidence_assets.transport.bounds import BoundPass, LowerBound, TextBounds
from evidence_assets.transport.costs.jsd import (
    COEFFICIENTS,
    CURVATURES,
    SMALLEST_TANGENTS,
    tangent_offset,
    tangent_slope,
)
from evidence_assets.transport.ground_cost import ROUNDING_UNIT, Array32, Chunk, Workspace, list_ground_costs
from evidence_assets.transport.pool import normalise_texts
from evidence_assets.transport.search import NearestTexts
from evidence_assets_tests.transport.random_texts import distance, half_store, random_pool

Array = NDArray[np.float64]


def naive_jsd(p: Array, q: Array) -> float:
    p, q = p / p.sum(), q / q.sum()
    pairs = [(x, y) for a, b in ((p, q), (q, p)) for x, y in zip(a, b, strict=True) if x > 0]
    return float(sum(x * np.log(2 * x / (x + y)) / 2 for x, y in pairs))


def softmax(x: Array) -> Array:
    return np.asarray(np.exp(x) / np.exp(x).sum(axis=1, keepdims=True))


class NaiveCost(NamedTuple):
    """A cost as its formula is written: points from vectors, weights and temperature, and SciPy's metric of two."""

    points: Callable[[Array, Array, float], Array]
    metric: str | Callable[[Array, Array], float]


def keep_vectors(vectors: Array, _weights: Array, _temperature: float) -> Array:
    return vectors


NAIVE_COSTS = {
    "jsd": NaiveCost(lambda v, m, t: softmax(v * m[:, None] / t), naive_jsd),
    "jsd_unscaled": NaiveCost(lambda v, m, t: softmax(v / t), naive_jsd),
    "cosine": NaiveCost(keep_vectors, "cosine"),
    "euclidean": NaiveCost(lambda v, m, t: v * m[:, None], "euclidean"),
    "euclidean_unscaled": NaiveCost(keep_vectors, "euclidean"),
    "moverscore": NaiveCost(keep_vectors, "euclidean"),
}


def naive_cost(name: str) -> NaiveCost:
    assert name in NAIVE_COSTS, f"add a naive formula for cost {name!r} to NAIVE_COSTS in {__name__}"
    return NAIVE_COSTS[name]


def naive_matrix(cost: GroundCost, x: Array, y: Array) -> Array:
    """The costs by SciPy, whose cosine of a zero vector is no number."""
    return np.asarray(np.nan_to_num(cdist(x, y, naive_cost(cost.name).metric), nan=1.0))


def naive_distances(cost: GroundCost, query: TokenMeasure, pool: list[TokenMeasure]) -> Array:
    """Exact distances by POT, one problem at a time."""

    def masses(measure: TokenMeasure) -> Array:
        weights = measure.weights
        return np.asarray(weights / weights.sum() if weights.sum() else np.full(len(weights), 1 / len(weights)))

    costs = [naive_matrix(cost, query.points, y.points) for y in pool]
    return np.array([ot.emd2(masses(query), masses(y), c, numItermax=10**6) for y, c in zip(pool, costs, strict=True)])


def assert_nearest(nearest: NearestTexts, truth: Array, k: int) -> None:
    order = np.argsort(truth, kind="stable")[:k]
    assert len(set(nearest.indices.tolist())) == len(nearest.indices) == min(k, len(truth))
    assert nearest.distances == pytest.approx(truth[order], abs=1e-6, rel=1e-6)
    assert truth[nearest.indices] == pytest.approx(nearest.distances, abs=1e-6, rel=1e-6)
    for i, expected in zip(nearest.indices, order, strict=True):  # another text only where the two are equal
        assert i == expected or truth[i] == pytest.approx(truth[expected], abs=1e-9)


def relax(cost: GroundCost, query: TokenMeasure, others: Array) -> tuple[LowerBound, tuple[Array32, ...]] | None:
    """The relaxed bound of a cost, fitted to a plan that moves all mass evenly; None if it has none."""
    plan = np.full((len(query), len(others)), 1 / len(query) / len(others))
    features = cost.relax(query.points, others, plan)
    return None if features is None else (cost.relaxed_lower, features)


@pytest.mark.parametrize("cost", list_ground_costs().values(), ids=list_ground_costs())
class TestRegisteredCosts:
    @settings(max_examples=15, deadline=None)
    @given(seed=st.integers(0, 10**6), d=st.sampled_from([2, 17, 64]), spread=st.sampled_from([1e-3, 1.0, 50.0]))
    def test_the_matrix_is_that_of_each_pair(self, cost: GroundCost, seed: int, d: int, spread: float) -> None:
        rng = np.random.default_rng(seed)
        vectors, weights = rng.normal(size=(9, d)) * spread, rng.gamma(1.0, size=9)
        points = cost.measure(vectors, weights, 0.5).points
        x, y = points[:5], points[3:]
        costs = cost.matrix(x, y)
        assert np.isfinite(points).all() and np.isfinite(costs).all() and costs.shape == (5, 6)
        scale = max(1.0, float(np.abs(costs).max()))
        assert costs == pytest.approx(naive_matrix(cost, x, y), abs=1e-12 * scale)
        assert pytest.approx(costs, abs=1e-12 * scale) == cost.matrix(y, x).T
        assert cost.matrix(x, x).diagonal() == pytest.approx(0, abs=1e-12 * scale)

    @settings(max_examples=15, deadline=None)
    @given(
        seed=st.integers(0, 10**6),
        d=st.sampled_from([2, 5, 64, 384]),
        spread=st.sampled_from([1e-3, 0.1, 1.0, 8.0, 100.0, 5000.0]),
    )
    def test_the_bound_is_never_above_the_exact_distance(
        self, cost: GroundCost, seed: int, d: int, spread: float
    ) -> None:
        rng = np.random.default_rng(seed)
        vectors = (rng.normal(size=(24, d)) * spread).astype(np.float16)
        vectors[5] = vectors[4]
        pool = TokenPool(vectors, [0, 1, 8, 24], rng.gamma(1.0, size=24) * 3)
        texts = [pool.measure(i, cost) for i in range(3)]
        query = cost.measure(vectors[3:9].astype(float) * 1.01, rng.random(6) + 0.01)
        exact = cost.matrix(query.points, np.concatenate([t.points for t in texts]))
        others = cost.measure(rng.normal(size=(7, d)) * spread, rng.random(7)).points
        tight, relaxed = (cost.lower, cost.features(query.points)), relax(cost, query, others)
        for lower, features in [tight] + ([relaxed] if relaxed else []):
            chunk = Chunk(pool.vectors, np.arange(24), cost.factors(pool.weights, 1.0))
            workspace = Workspace(6, 24, 7, d)
            costs = lower(tuple(torch.from_numpy(f) for f in features), chunk, workspace).numpy()
            usable = ~np.isnan(costs)
            assert (costs[usable] <= exact[usable]).all()
            assert usable.all() or lower != cost.lower or not cost.name.startswith("jsd")
            for potential in (rng.normal(size=6) * exact.std(), exact.min(axis=1)):
                bound_pass = BoundPass(cost, lower, [features], [query.masses], [potential])
                (bounds,) = bound_pass.run(pool)
                for bound, text in zip(bounds, texts, strict=True):
                    assert bound <= distance(query, text, cost) + 1e-12
        for potential in (rng.normal(size=6) * exact.std(), exact.min(axis=1)):
            masses = normalise_texts(pool.weights, np.diff(pool.offsets))
            sharper = TextBounds(exact.astype(np.float32), query.masses, masses, pool.offsets[:-1])
            first = sharper.values.copy()
            sharper.tighten(potential)
            assert (sharper.values >= first).all()
            for bound, text in zip(sharper.values, texts, strict=True):
                assert bound <= distance(query, text, cost) + 1e-6 * (1 + exact.max())

    @settings(max_examples=25, deadline=None)
    @given(seed=st.integers(0, 10**6), d=st.sampled_from([2, 5, 64]), kind=st.sampled_from(["flat", "peaky", "mixed"]))
    def test_the_cost_of_mean_points_is_a_bound_if_the_cost_is_convex(
        self, cost: GroundCost, seed: int, d: int, kind: str
    ) -> None:
        pool = random_pool(np.random.default_rng(seed), 6, d, 8, kind)
        texts = [pool.measure(i, cost) for i in range(len(pool))]
        means = np.stack([text.mean() for text in texts])
        assert means == pytest.approx(np.stack([np.average(t.points, axis=0, weights=t.masses) for t in texts]))
        bounds = cost.matrix(means, means)
        exact = np.array([[distance(x, y, cost) for y in texts] for x in texts])
        is_bound = (bounds <= exact + 1e-9 * (1 + exact)).all()
        assert is_bound or not cost.is_convex

    @settings(max_examples=8, deadline=None)
    @given(
        seed=st.integers(0, 10**6),
        d=st.sampled_from([2, 3, 17, 64]),
        count=st.integers(1, 40),
        k=st.integers(1, 8),
        kind=st.sampled_from(["flat", "peaky", "mixed"]),
    )
    def test_the_nearest_texts_equal_those_of_a_naive_loop(
        self, cost: GroundCost, seed: int, d: int, count: int, k: int, kind: str
    ) -> None:
        rng = np.random.default_rng(seed)
        pool, query_pool = random_pool(rng, count, d, 8, kind), random_pool(rng, 2, d, 8, kind)
        texts = [pool.measure(i, cost) for i in range(count)]
        queries = [query_pool.measure(i, cost) for i in range(2)]
        for query, nearest in zip(queries, find_nearest_texts(queries, pool, k, cost, threads=2), strict=True):
            assert_nearest(nearest, naive_distances(cost, query, texts), k)

    def test_a_memory_mapped_half_precision_store_is_searched_with_few_texts_solved(
        self, cost: GroundCost, tmp_path: Path
    ) -> None:
        store = half_store(np.random.default_rng(3), 300, 48)
        for name in ("vectors", "offsets", "weights"):
            np.save(tmp_path / f"{name}.npy", getattr(store, name))
        pool = TokenPool(*(np.load(tmp_path / f"{n}.npy", mmap_mode="r") for n in ("vectors", "offsets", "weights")))
        queries = []
        for text in (4, 9):
            rows = slice(store.offsets[text], store.offsets[text + 1])
            queries.append(cost.measure(store.vectors[rows].astype(float) + 0.1, store.weights[rows] + 0.01, 0.7))
        texts = [pool.measure(i, cost, 0.7) for i in range(len(pool))]
        for query, nearest in zip(queries, find_nearest_texts(queries, pool, 7, cost, 0.7), strict=True):
            truth = np.array([distance(query, text, cost) for text in texts])
            assert_nearest(nearest, truth, 7)
            assert nearest.n_solved < 200, "the bounds should spare most of the 300 texts"

    def test_the_cascade_of_bounds_returns_what_one_bound_returns(
        self, cost: GroundCost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pool = half_store(np.random.default_rng(5), 400, 48)
        queries = [pool.measure(i, cost) for i in (3, 77)]
        expected = find_nearest_texts(queries, pool, 6, cost)
        monkeypatch.setattr(search, "MIN_FILTERED_TEXTS", 100)
        monkeypatch.setattr(search, "GROUP_TEXTS", 150)
        monkeypatch.setattr(search, "FIRST_TEXTS", 40)
        by_threads = [find_nearest_texts(queries, pool, 6, cost, threads=n) for n in (1, 2, 5)]
        for number, nearest in enumerate(expected):
            for results in by_threads:
                assert results[number].indices.tolist() == nearest.indices.tolist()
                assert results[number].distances.tolist() == nearest.distances.tolist()
                assert (results[number].n_solved, results[number].n_pruned) == (
                    by_threads[0][number].n_solved,
                    by_threads[0][number].n_pruned,
                )
                assert results[number].n_solved + sum(results[number].n_pruned.values()) == len(pool)
            assert by_threads[0][number].n_pruned["filter"] > 0


def test_points_match_the_published_formulas() -> None:
    rng = np.random.default_rng(0)
    vectors, weights = rng.normal(size=(4, 6)), np.array([0.0, 1.0, 2.0, 5.0])
    measures = {name: cost.measure(vectors, weights, temperature=2.0) for name, cost in list_ground_costs().items()}
    for name, measure in measures.items():
        assert measure.points == pytest.approx(naive_cost(name).points(vectors, weights, 2.0)), name
        assert measure.masses == pytest.approx(weights / 8)
    assert measures["jsd"].points[0] == pytest.approx(np.full(6, 1 / 6))  # a weight of 0 forgets the word
    layers = rng.normal(size=(3, 5, 4))
    concatenated = np.concatenate([layers.mean(1), layers.max(1), layers.min(1)], axis=1)
    power_means = get_ground_cost("moverscore").vectors(layers)
    assert power_means == pytest.approx(concatenated / np.linalg.norm(concatenated, axis=1, keepdims=True))


def test_the_cosine_of_mean_points_is_no_bound() -> None:
    cost = get_ground_cost("cosine")
    x, y = TokenMeasure([[1.0, 0.0], [-1.0, 0.1]], [1, 1]), TokenMeasure([[1.0, 0.0], [-3.0, 0.3]], [1, 1])
    assert distance(x, y, cost) == pytest.approx(0, abs=1e-12) and not cost.is_convex
    assert cost.matrix(x.mean()[None], y.mean()[None]).item() > 0.5


def test_a_cost_without_a_naive_formula_is_named() -> None:
    with pytest.raises(AssertionError, match="add a naive formula for cost 'unknown' to NAIVE_COSTS"):
        naive_cost("unknown")


def test_exponentials_are_within_six_rounding_units() -> None:
    x = np.linspace(-87, 88, 1 << 20, dtype=np.float32)
    errors = torch.from_numpy(x).exp().numpy() / np.exp(x.astype(np.float64)) - 1
    assert np.abs(errors).max() <= 6 * ROUNDING_UNIT


def test_coefficients_stay_below_the_generator_on_the_grid_of_the_proof() -> None:
    s = np.arange(0, 40, 1e-5)
    x, sech = 1 / (1 + np.exp(-s)), 1 / np.cosh(s / 2)
    h = np.log(2) + x * np.log(x) - (1 - x) * (s + np.log1p(np.exp(-s)))
    for c0, c1, c2 in COEFFICIENTS:
        assert (h - c0 - c1 * sech - c2 * sech * np.cosh(s / 4)).min() >= 2e-5
        assert abs(c1) / 4 + abs(c2) / 2 < 3.4 and c0 + 1e-2 < np.log(2)


@settings(max_examples=60, deadline=None)
@given(
    which=st.integers(0, len(CURVATURES) - 1), exponent=st.floats(0, 3), p=st.floats(1e-12, 1), q=st.floats(1e-12, 1)
)
def test_every_allowed_tangent_is_below_the_divergence_of_two_numbers(
    which: int, exponent: float, p: float, q: float
) -> None:
    curvature, y = CURVATURES[which], SMALLEST_TANGENTS[which] * 10**exponent
    term = (p * np.log(p) + q * np.log(q) - (p + q) * np.log((p + q) / 2)) / 2
    bound = p * tangent_offset(y, curvature) + np.sqrt(p * q) * tangent_slope(y, curvature) + curvature * q
    assert bound <= term + 1e-9
    assert tangent_offset(SMALLEST_TANGENTS, CURVATURES) == pytest.approx(np.log(2) / 2, abs=1e-9)
