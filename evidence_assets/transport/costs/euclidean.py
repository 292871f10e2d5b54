"""The Euclidean ground cost, of vectors scaled by their words' weights: what tables 5.9 and 7.5 compare with."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from evidence_assets.models.vectors import Array

from ..ground_cost import UNIT, GroundCost, Workspace, gamma, register


@register
class Euclidean(GroundCost):
    r"""Distance of the tokens' vectors, each scaled by the weight of its word, as printed.

    .. math:: C(x, y) = \lVert m_x w_x - m_y w_y \rVert_2 \qquad\text{(thesis, equations 7.2 and 7.7; 5.13 in chapter 5)}

    with the token's vector w and its BM25 weight m (equation 7.9). The bound expands the square,
    :math:`\lVert x \rVert^2 + \lVert y \rVert^2 - 2\, x \cdot y`, which is one product of matrices. In float32 each of
    these sums over d terms is off by at most γ_d of (‖x‖² + ‖y‖²)/2 to (‖x‖² + ‖y‖²), 2γ in all. The points themselves are
    off by u and 2u of their lengths (two roundings where a vector is scaled), so that a distance D of them is off by at
    most 2u(‖x‖ + ‖y‖), its square by at most 4uD(‖x‖ + ‖y‖) ≤ 8u(‖x‖² + ‖y‖²) and terms in u²; four more roundings are of
    numbers no greater than ‖x‖² + ‖y‖². So (2γ + 16u)(‖x‖² + ‖y‖²) is taken off.
    """

    name = "euclidean"

    def factors(self, weights: Array, temperature: float) -> Array | None:
        return weights

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
        if factors is not None:
            x.mul_(factors.float()[:, None])
        points, squares = features
        bound, sizes, _ = work.products(len(x))
        work.product(points, x, bound)
        torch.add(squares[:, None], torch.linalg.vector_norm(x, dim=1).square_()[None, :], out=sizes)
        bound.mul_(-2).add_(sizes, alpha=1 - 2 * gamma(x.shape[1]) - 16 * UNIT)
        return bound.clamp_(min=0).sqrt_().mul_(1 - 4 * UNIT)
