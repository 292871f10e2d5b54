"""The squared Euclidean ground cost, of the vectors as they are."""

from __future__ import annotations

import numpy as np
import torch

from evidence_assets.models.vectors import Array

from ..ground_cost import UNIT, Workspace, register
from .euclidean_unscaled import EuclideanUnscaled


@register
class SquaredEuclidean(EuclideanUnscaled):
    r"""Squared distance of the tokens' vectors: its transport cost is the square of the 2-Wasserstein distance.

    .. math:: C(x, y) = \lVert x - y \rVert_2^2,\qquad \min_T \langle C, T \rangle = W_2^2

    (G. Peyré and M. Cuturi, Computational Optimal Transport, section 2.4, with p = 2.) Its bound is the square of
    that of the distance: 0 ≤ b ≤ d gives b² ≤ d², and the rounding of one product is taken off.
    """

    name = "squared_euclidean"

    def matrix(self, x: Array, y: Array) -> Array:
        """Taken from differences, as the distance is."""
        return np.stack([((y - row) ** 2).sum(axis=1) for row in x])

    def lower(
        self, features: tuple[torch.Tensor, ...], x: torch.Tensor, factors: torch.Tensor | None, work: Workspace
    ) -> torch.Tensor:
        return super().lower(features, x, factors, work).square_().mul_(1 - 4 * UNIT)
