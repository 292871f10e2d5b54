"""A text as a measure with one point and one mass per token, and the validation of its input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evidence_assets.models.vectors import Array


def check_finite(values: NDArray[Any], name: str, non_negative: bool = False) -> None:
    """Raise ValueError with the first position that is not finite (or, optionally, negative)."""
    wrong = ~np.isfinite(values)
    if non_negative:
        wrong |= values < 0
    if wrong.any():
        position = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), values.shape))
        value = values[position]
        rule = "finite and not negative" if non_negative else "finite"
        index = ", ".join(map(str, position))
        raise ValueError(f"{name}[{index}] is {value}: every number must be {rule}")


def normalise_masses(weights: ArrayLike) -> Array:
    """Masses that sum to 1; uniform if all weights are zero."""
    w = np.asarray(weights, dtype=np.float64)
    top = w.max()
    if top <= 0:
        return np.full(len(w), 1.0 / len(w))
    w = w / top  # avoids overflow and underflow of sums
    return np.asarray(w / w.sum())


@dataclass(frozen=True, eq=False)
class TokenMeasure:
    """Token distributions or vectors and their masses.

    ``points``: n × d, n ≥ 1. Rows are distributions for the cost ``jsd``: not negative, divided by their sums.
    ``weights``: n numbers, not negative; only their proportions count. All zero means uniform.

    >>> TokenMeasure([[1.0, 0.0], [0.5, 0.5]], [0.0, 0.0]).masses.tolist()
    [0.5, 0.5]
    """

    points: Array
    weights: Array

    def __init__(self, points: ArrayLike, weights: ArrayLike) -> None:
        p = np.asarray(points, dtype=np.float64)
        w = np.asarray(weights, dtype=np.float64)
        if p.ndim != 2 or 0 in p.shape:
            raise ValueError(f"points have shape {p.shape}: expected n × d with at least one token and one dimension")
        if w.shape != (len(p),):
            raise ValueError(f"weights have shape {w.shape}: expected one number for each of the {len(p)} tokens")
        check_finite(p, "points")
        check_finite(w, "weights", non_negative=True)
        object.__setattr__(self, "points", p)
        object.__setattr__(self, "weights", w)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def masses(self) -> Array:
        """The weights, normalised to 1."""
        return normalise_masses(self.weights)
