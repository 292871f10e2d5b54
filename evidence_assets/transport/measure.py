"""A text as a measure with one point and one mass per token, and the validation of its input."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evidence_assets.models.vectors import Array


def normalise_masses(weights: ArrayLike) -> Array:
    """Masses that sum to 1; uniform if all weights are zero."""
    w = np.asarray(weights, dtype=np.float64)
    top = w.max()
    if top <= 0:
        return np.full(len(w), 1.0 / len(w))
    w = w / top  # avoids overflow and underflow of sums
    return np.asarray(w / w.sum())


class TokenMeasure:
    """Token distributions or vectors and their masses.

    ``points``: n × d, n ≥ 1. Rows are distributions for the cost ``jsd``: not negative, divided by their sums.
    ``weights``: n numbers, not negative; only their proportions count. All zero means uniform.

    >>> TokenMeasure([[1.0, 0.0], [0.5, 0.5]], [0.0, 0.0]).masses.tolist()
    [0.5, 0.5]
    """

    def __init__(self, points: ArrayLike, weights: ArrayLike) -> None:
        self.points: Array = np.asarray(points, dtype=np.float64)
        self.weights: Array = np.asarray(weights, dtype=np.float64)
        if not (np.isfinite(self.points).all() and np.isfinite(self.weights).all() and (self.weights >= 0).all()):
            raise ValueError("points and weights must be finite, and weights not negative")

    def __len__(self) -> int:
        return len(self.points)

    @property
    def masses(self) -> Array:
        """The weights, normalised to 1."""
        return normalise_masses(self.weights)

    def mean(self) -> Array:
        """Mean of the points, weighted by the masses; its bits do not depend on the number of threads."""
        points, masses = self.with_mass()
        return np.asarray(np.einsum("i,id->d", masses, points))

    def with_mass(self) -> tuple[Array, Array]:
        """Points and masses of the tokens that have mass; the others do not change a distance."""
        masses = self.masses
        has_mass = masses > 0
        return self.points[has_mass], masses[has_mass]
