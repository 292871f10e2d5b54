"""Ground costs between tokens, in float64: what it costs to move one unit of mass from one point to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evidence_assets.transport.divergence import jensen_shannon_matrix

__all__ = ["Cost", "CostName", "cost_matrix", "distributions"]

Array = NDArray[np.float64]
CostName = Literal["jsd", "cosine", "euclidean"]
Cost = CostName | Callable[[Array, Array], Array]


def distributions(points: Array) -> Array:
    """Rows divided by their sums, after a check that each can be a distribution."""
    negative = points < 0
    if negative.any():
        row, column = (int(i) for i in np.unravel_index(int(np.argmax(negative)), points.shape))
        raise ValueError(
            f"points[{row}, {column}] is {points[row, column]}: the cost 'jsd' compares distributions, so take the "
            "softmax of vectors first or choose 'cosine' or 'euclidean'"
        )
    sums = points.sum(axis=1, keepdims=True)
    if not (sums > 0).all():
        raise ValueError(f"points[{int(np.argmin(sums))}] sums to 0: a row of zeros is no distribution")
    return np.asarray(points / sums)


def _unit(points: Array) -> Array:
    top = np.abs(points).max(axis=1, keepdims=True)
    scaled = points / np.where(top > 0, top, 1.0)  # so that squares neither overflow nor vanish
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled / np.where(norms > 0, norms, 1.0))


def _cosine(x: Array, y: Array) -> Array:
    """1 − cos(x, y), between 0 and 2; a zero vector is at cost 1 from every vector."""
    return np.asarray(np.clip(1.0 - _unit(x) @ _unit(y).T, 0.0, 2.0))


def _euclidean(x: Array, y: Array) -> Array:
    """‖x − y‖₂ by differences: the expanded square loses half of the digits of near points."""
    return np.stack([np.linalg.norm(y - row, axis=1) for row in x])


def cost_matrix(x: Array, y: Array, cost: Cost = "jsd") -> Array:
    """Cost of moving each row of ``x`` to each row of ``y``, n × m.

    ``jsd`` is :func:`~evidence_assets.transport.divergence.jensen_shannon_matrix` of the rows as distributions,
    ``cosine`` is 1 − cos (1 for a zero vector), ``euclidean`` the distance; a callable is given both arrays.
    """
    if callable(cost):
        made = np.asarray(cost(x, y), dtype=np.float64)
        if made.shape != (len(x), len(y)):
            raise ValueError(f"the cost function gave shape {made.shape} where ({len(x)}, {len(y)}) is needed")
        if not np.isfinite(made).all():
            raise ValueError("the cost function gave a number that is not finite")
        return made
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"points of {x.shape[1]} and of {y.shape[1]} dimensions cannot be compared")
    if cost == "jsd":
        return jensen_shannon_matrix(distributions(x), distributions(y))
    if cost == "cosine":
        return _cosine(x, y)
    if cost == "euclidean":
        return _euclidean(x, y)
    raise ValueError(f"cost {cost!r} is unknown: give jsd, cosine, euclidean or a function of two arrays")
