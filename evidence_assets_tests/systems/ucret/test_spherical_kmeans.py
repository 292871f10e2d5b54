"""Spherical k-means equals faiss and Euclidean steps, and has defined results for edge cases."""

from __future__ import annotations

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.models.vectors import unit_rows
from evidence_assets.systems.ucret.columns import cluster


def test_partition_equals_that_of_faiss() -> None:
    generator = np.random.default_rng(1)
    middles = generator.normal(size=(4, 16)) * 4
    points = unit_rows(np.repeat(middles, 30, axis=0) + generator.normal(size=(120, 16)) * 0.3)
    model = faiss.Kmeans(16, 4, spherical=True, niter=50, nredo=5, seed=1)
    model.train(points.astype(np.float32))
    faiss_labels = model.index.search(points.astype(np.float32), 1)[1][:, 0]
    runs = [cluster(points, 4, seed=seed) for seed in range(5)]
    labels, _ = max(runs, key=lambda labels_centroids: float((points @ labels_centroids[1].T).max(axis=1).sum()))
    assert len(set(zip(labels.tolist(), faiss_labels.tolist(), strict=True))) == len(set(labels.tolist())) == 4


@given(st.integers(0, 1000), st.integers(2, 4))
@settings(max_examples=40, deadline=None)
def test_a_step_is_a_euclidean_step_on_unit_vectors(seed: int, k: int) -> None:
    points = unit_rows(np.random.default_rng(seed).normal(size=(12, 4)))
    assignment, centroids = cluster(points, k, seed=seed)
    assert np.array_equal(assignment, ((points[:, None] - centroids[None]) ** 2).sum(axis=2).argmin(axis=1))
    for t in set(assignment.tolist()):
        assert np.allclose(centroids[t], unit_rows(points[assignment == t].mean(axis=0)[None])[0])


def test_equal_points_share_a_cluster_if_there_are_more_clusters_than_points() -> None:
    assignment, _ = cluster(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 3)
    assert assignment[0] == assignment[1] != assignment[2]


def test_zero_clusters_are_rejected() -> None:
    with pytest.raises(ValueError, match="k must be at least 1"):
        cluster(np.eye(3), 0)


def test_jsd_clusters_separate_peaked_distributions() -> None:
    peak_first, peak_last = [0.9, 0.05, 0.05], [0.05, 0.05, 0.9]
    assignment, _ = cluster(np.array([peak_first, peak_last, peak_first, peak_last]), 2, geometry="jsd")
    assert assignment.tolist() in ([0, 1, 0, 1], [1, 0, 1, 0])
