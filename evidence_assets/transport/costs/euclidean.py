"""The Euclidean ground cost, of the vectors as they are."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ..ground_cost import UNIT, GroundCost, Workspace, gamma, register

Array = NDArray[np.float64]


@register
class Euclidean(GroundCost):
    r"""Distance of the tokens' vectors.

    .. math:: C(x, y) = \lVert x - y \rVert_2 \qquad\text{(thesis, table 7.5)}

    The bound expands the square, :math:`\lVert x \rVert^2 + \lVert y \rVert^2 - 2\, x \cdot y`, which is one product of
    matrices. In float32 it is off by at most γ of each part and by the rounding of the points, so that
    (2γ + 16u)(‖x‖² + ‖y‖²) is taken off it.
    """

    name = "euclidean"

    def matrix(self, x: Array, y: Array) -> Array:
        """Taken from differences: the expanded square loses half of the digits of near points."""
        return np.stack([np.linalg.norm(y - row, axis=1) for row in x])

    def features(self, points: Array) -> tuple[NDArray[np.float32], ...]:
        with np.errstate(over="ignore"):  # infinite: no bound, solved exactly
            rounded = points.astype(np.float32)
            return rounded, np.einsum("ij,ij->i", rounded, rounded)

    def lower(
        self, features: tuple[torch.Tensor, ...], x: torch.Tensor, factors: torch.Tensor | None, work: Workspace
    ) -> torch.Tensor:
        points, squares = features
        bound, sizes, _ = work.products(len(x))
        work.product(points, x, bound)
        torch.add(squares[:, None], torch.linalg.vector_norm(x, dim=1).square_()[None, :], out=sizes)
        bound.mul_(-2).add_(sizes, alpha=1 - 2 * gamma(x.shape[1]) - 16 * UNIT)
        return bound.clamp_(min=0).sqrt_().mul_(1 - 4 * UNIT)
