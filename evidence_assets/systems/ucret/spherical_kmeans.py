"""Seeded k-means on unit vectors and on distributions, for the columns of a table.

* ``cosine``: points on the unit sphere, distance ``1 - <x, mu>``, centroid ``sum(x) / ||sum(x)||``. As
  ``||x - y||^2 = 2 (1 - <x, y>)`` on the sphere, each assignment equals the Euclidean one, and seeding with weights
  ``1 - <x, mu>`` is k-means++ itself.
* ``jsd``: points on the simplex, distance ``JSD(p, m)`` in nats, centroid the arithmetic mean. The mean does not
  exactly minimize the summed divergences, so the objective may rise slightly; the number of steps is bounded.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evidence_assets.models.vectors import unit_rows
from evidence_assets.transport.divergence import jensen_shannon

Floats = NDArray[np.float64]
Geometry = Literal["cosine", "jsd"]
# Distances of equal columns may differ in the last bits of a matrix product; ties must not depend on them.
_TIE_DECIMALS = 12
_MAX_STEPS = 100


def _distances(points: Floats, centroids: Floats, geometry: Geometry) -> Floats:
    """``(n, k)`` distances of points ``(n, d)`` to centroids ``(k, d)``."""
    if geometry == "cosine":
        distances: Floats = 1.0 - points @ centroids.T
    else:
        distances = jensen_shannon(points[:, None], centroids[None])
    return np.maximum(distances, 0.0).round(_TIE_DECIMALS)


def _draw(weights: Floats, uniform: float) -> int:
    """Index drawn with probability proportional to the weights; the first if all are zero."""
    cumulative = np.cumsum(weights)
    if cumulative[-1] <= 0:
        return 0
    return min(int((cumulative <= uniform * cumulative[-1]).sum()), len(weights) - 1)


def cluster(
    points: Floats, k: int, *, geometry: Geometry = "cosine", seed: int = 0
) -> tuple[NDArray[np.int64], Floats]:
    """Cluster points into ``min(k, n)`` clusters; returns the cluster of each point and the centroids ``(k, d)``.

    A cluster without points, possible only if points are equal, is seeded again.

    ``points``: ``(n, d)``, n at least 1: unit vectors for ``cosine``, distributions for ``jsd``.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    n = len(points)
    generator = np.random.default_rng(seed)
    # k-means++: draw the first centroid uniformly, the others in proportion to the distance from the nearest centroid.
    centroids = points[[int(generator.random() * n)]]
    for _ in range(1, min(k, n)):
        nearest = _distances(points, centroids, geometry).min(axis=1)
        centroids = np.vstack([centroids, points[_draw(nearest, generator.random())]])
    assignment = np.full(n, -1)
    for _ in range(_MAX_STEPS):
        distances = _distances(points, centroids, geometry)
        updated, closest = distances.argmin(axis=1), distances.min(axis=1)
        uniform = generator.random()
        for t in range(len(centroids)):
            members = points[updated == t]
            if not len(members):
                centroids[t] = points[_draw(closest, uniform)]
            elif geometry == "cosine":
                centroids[t] = unit_rows(members.sum(axis=0)[None])[0]
            else:
                centroids[t] = members.mean(axis=0)
        if (updated == assignment).all():
            break
        assignment = updated
    return assignment, centroids
