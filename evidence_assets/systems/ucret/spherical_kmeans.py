"""k-means for directions and for distributions: many small problems at once, seeded, alike alone or in a batch.

What belongs here: seeding, assignment, centroid update and empty-cluster re-seeding for the two geometries that the
table selectors use. What a cluster is good for (which one answers a claim) is decided in `columns`.

Two geometries share one loop:

* ``cosine``: points on the unit sphere, distance ``1 - <x, mu>``, centroid ``sum(x) / ||sum(x)||``. As
  ``||x - y||^2 = 2 (1 - <x, y>)`` on the sphere, each assignment equals the Euclidean one, and seeding with weights
  ``1 - <x, mu>`` is k-means++ itself. Every step lowers the objective or leaves it.
* ``jsd``: points on the simplex, distance ``JSD(p, m)`` in nats, centroid the arithmetic mean. The mean is not the
  exact minimiser of summed divergences, so here the objective may rise by a hair; a bound on the steps ends the loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evidence_assets.models.vectors import unit_rows
from evidence_assets.transport.divergence import jensen_shannon

Floats = NDArray[np.float64]
Geometry = Literal["cosine", "jsd"]
# Equal columns give equal distances only up to the last bits of a matrix product; ties must not depend on those.
_TIE_DECIMALS = 12
_MAX_STEPS = 100


@dataclass(frozen=True)
class Clusters:
    """Result of clustering ``B`` sets of ``n`` points each.

    ``assignment``: ``(B, n)`` cluster of each point.
    ``centroids``: ``(B, k, d)``; a cluster without a point (possible only among equal points) has the point it was
        seeded with.
    ``objective``: ``(steps, B)`` summed distance of the points to their centroid after each assignment.
    ``converged``: ``(B,)`` whether the last step changed no assignment.
    """

    assignment: NDArray[np.int64]
    centroids: Floats
    objective: Floats
    converged: NDArray[np.bool_]


def _distances(points: Floats, centroids: Floats, geometry: Geometry) -> Floats:
    """``(B, n, k)`` distances of points ``(B, n, d)`` to centroids ``(B, k, d)``."""
    raw: Floats
    if geometry == "cosine":
        raw = 1.0 - points @ centroids.transpose(0, 2, 1)
    else:
        raw = np.stack([jensen_shannon(points, centroids[:, t, None, :]) for t in range(centroids.shape[1])], axis=2)
    rounded: Floats = np.maximum(raw, 0.0).round(_TIE_DECIMALS)
    return rounded


def _centroids(points: Floats, members: Floats, geometry: Geometry) -> Floats:
    """Centroids ``(B, k, d)`` from one-hot memberships ``(B, n, k)``."""
    sums: Floats = members.transpose(0, 2, 1) @ points
    if geometry == "cosine":
        return unit_rows(sums)
    totals = members.sum(axis=1)[:, :, None]
    means: Floats = np.divide(sums, totals, out=np.zeros_like(sums), where=totals > 0)
    return means


def _draw(weights: Floats, uniform: float) -> NDArray[np.int64]:
    """Index drawn from each row of weights by one uniform number; a row of zeros gives its first point."""
    cumulative = np.cumsum(weights, axis=1)
    target = uniform * cumulative[:, -1:]
    index = (cumulative <= target).sum(axis=1)
    # A row without weight (all points lie on a centroid already) would run off the end.
    result: NDArray[np.int64] = np.where(cumulative[:, -1] > 0, np.minimum(index, weights.shape[1] - 1), 0)
    return result


def cluster_batch(points: Floats, k: int, *, geometry: Geometry = "cosine", seed: int = 0) -> Clusters:
    """Cluster many sets of ``n`` points, each into ``min(k, n)`` clusters.

    The random numbers depend on the seed alone, so that a set gets the same clusters whatever stands beside it: one
    for the first centre, one for each further centre, then one a step for re-seeding.

    ``points``: ``(B, n, d)``: unit vectors for ``cosine``, distributions for ``jsd``.
    ``k``: Clusters wanted.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    points = np.asarray(points, dtype=np.float64)
    batch, n, dimensions = points.shape
    k = min(k, n)
    generator = np.random.default_rng(seed)

    # k-means++: the first centre uniformly, each next with probability proportional to its distance from the nearest.
    # (On the sphere this distance is half the squared Euclidean one, so it is the usual weight.)
    centroids = np.zeros((batch, k, dimensions))
    nearest = np.full((batch, n), np.inf)
    for t in range(k):
        uniform = float(generator.random())
        chosen = np.full(batch, int(uniform * n)) if t == 0 else _draw(nearest, uniform)
        centroids[:, t] = points[np.arange(batch), chosen]
        nearest = np.minimum(nearest, _distances(points, centroids[:, t : t + 1], geometry)[:, :, 0])

    assignment = np.full((batch, n), -1, dtype=np.int64)
    history: list[Floats] = []
    converged = np.full(batch, n == 0)
    objective = np.zeros(batch)
    for _ in range(_MAX_STEPS):
        active = np.flatnonzero(~converged)
        if not len(active):
            break
        distances = _distances(points[active], centroids[active], geometry)
        fresh, closest = distances.argmin(axis=2), distances.min(axis=2)
        objective = objective.copy()
        objective[active] = closest.sum(axis=1)
        history.append(objective)
        converged[active] = (fresh == assignment[active]).all(axis=1)
        assignment[active] = fresh
        members = (fresh[:, :, None] == np.arange(k)).astype(np.float64)
        updated = _centroids(points[active], members, geometry)
        uniform = float(generator.random())
        for t in range(k):
            empty = members[:, :, t].sum(axis=1) == 0
            if empty.any():
                updated[empty, t] = points[active[empty], _draw(closest[empty], uniform)]
        centroids[active] = updated
    return Clusters(assignment, centroids, np.array(history).reshape(-1, batch), converged)
