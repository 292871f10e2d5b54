"""Spherical k-means against faiss, Euclidean steps and its own invariants."""

from __future__ import annotations

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from evidence_assets.models.vectors import softmax, unit_rows
from evidence_assets.systems.ucret.spherical_kmeans import Clusters, _draw, cluster_batch
from evidence_assets.transport.divergence import jensen_shannon


def spherical_kmeans(vectors: np.ndarray, k: int, *, seed: int = 0) -> Clusters:
    """One set of vectors by direction: a batch of one."""
    return cluster_batch(unit_rows(np.asarray(vectors, dtype=np.float64))[None], k, seed=seed)


def _blobs(seed: int, centres: int = 4, each: int = 30, d: int = 16) -> np.ndarray:
    generator = np.random.default_rng(seed)
    middle = generator.normal(size=(centres, d)) * 4
    return unit_rows(np.repeat(middle, each, axis=0) + generator.normal(size=(centres * each, d)) * 0.3)


def _same_partition(left: np.ndarray, right: np.ndarray) -> bool:
    return (
        len(set(zip(left.tolist(), right.tolist(), strict=True))) == len(set(left.tolist())) == len(set(right.tolist()))
    )


def test_finds_the_partition_that_faiss_finds() -> None:
    points = _blobs(1)
    model = faiss.Kmeans(points.shape[1], 4, spherical=True, niter=50, nredo=5, seed=1)
    model.train(points.astype(np.float32))
    _, theirs = model.index.search(points.astype(np.float32), 1)
    best = min((spherical_kmeans(points, 4, seed=s) for s in range(5)), key=lambda c: float(c.objective[-1, 0]))
    assert _same_partition(best.assignment[0], theirs[:, 0])


@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_the_objective_never_rises_and_the_loop_ends(seed: int, k: int, n: int) -> None:
    points = unit_rows(np.random.default_rng(seed).normal(size=(n, 5)))
    found = spherical_kmeans(points, k, seed=seed)
    assert found.converged.all()
    assert (np.diff(found.objective[:, 0]) <= 1e-9).all()


@given(st.integers(0, 1000), st.integers(2, 4))
@settings(max_examples=40, deadline=None)
def test_a_step_is_a_euclidean_step_on_unit_vectors(seed: int, k: int) -> None:
    points = unit_rows(np.random.default_rng(seed).normal(size=(12, 4)))
    found = spherical_kmeans(points, k, seed=seed)
    squared = ((points[:, None] - found.centroids[0][None]) ** 2).sum(axis=2)
    assert np.array_equal(found.assignment[0], squared.argmin(axis=1))
    for t in range(k):
        members = points[found.assignment[0] == t]
        if len(members):
            assert np.allclose(found.centroids[0, t], unit_rows(members.mean(axis=0)[None])[0])


def test_seeded_and_the_same_alone_or_in_a_batch() -> None:
    batch = np.stack([_blobs(seed, 3, 4, 6) for seed in range(7)])
    together = cluster_batch(batch, 3, seed=5)
    for b, points in enumerate(batch):
        assert np.array_equal(cluster_batch(points[None], 3, seed=5).assignment[0], together.assignment[b])
    assert np.array_equal(cluster_batch(batch, 3, seed=5).assignment, together.assignment)


def test_seeds_are_drawn_in_proportion_to_their_distance() -> None:
    weights = np.array([[0.0, 1.0, 3.0, 0.0]])
    drawn = [int(_draw(weights, uniform)[0]) for uniform in np.linspace(0, 0.999, 1000)]
    assert drawn.count(1) == pytest.approx(250, abs=2)
    assert drawn.count(2) == pytest.approx(750, abs=2)
    assert _draw(np.zeros((1, 3)), 0.7)[0] == 0


def test_an_empty_cluster_is_seeded_again() -> None:
    # More clusters than distinct points: each place is its own cluster, the rest stay empty and the loop ends.
    points = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = spherical_kmeans(points, 3, seed=0)
    assert found.converged.all()
    assert found.assignment[0, 0] == found.assignment[0, 1] != found.assignment[0, 2]


def test_no_points_give_no_clusters() -> None:
    assert spherical_kmeans(np.zeros((0, 3)), 2).assignment.shape == (1, 0)


def test_zero_clusters_are_refused() -> None:
    with pytest.raises(ValueError, match="k must be at least 1"):
        spherical_kmeans(np.eye(3), 0)


@given(st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_divergence_equals_scipys_squared_distance(seed: int) -> None:
    p, q = softmax(np.random.default_rng(seed).normal(size=(2, 9)), 0.3)
    assert np.isclose(jensen_shannon(p, q), jensenshannon(p, q) ** 2, atol=1e-9)
    assert 0.0 <= jensen_shannon(p, q) <= np.log(2) + 1e-12


def test_softmax_of_unit_vectors_is_almost_flat_at_temperature_one() -> None:
    points = unit_rows(np.random.default_rng(0).normal(size=(50, 384)))
    flat = softmax(points, 1.0)
    assert float(jensen_shannon(flat[:1], flat[1:]).max()) < 0.001
    sharp = softmax(points, 0.02)
    assert float(np.median(jensen_shannon(sharp[:1], sharp[1:]))) > 0.3


def test_temperature_must_be_positive() -> None:
    with pytest.raises(ValueError, match="temperature"):
        softmax(np.ones((1, 2)), 0.0)


def test_jsd_clusters_separate_peaked_distributions() -> None:
    left, right = [0.9, 0.05, 0.05], [0.05, 0.05, 0.9]
    found = cluster_batch(np.array([left, right, left, right])[None], 2, geometry="jsd", seed=0)
    assert found.assignment[0].tolist() in ([0, 1, 0, 1], [1, 0, 1, 0])
