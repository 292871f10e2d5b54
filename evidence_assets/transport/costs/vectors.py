"""Ground costs of token vectors: cosine and Euclidean variants (thesis, tables 5.9 and 7.5)."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import normalize

from evidence_assets.models.vectors import Array, unit_rows

from ..ground_cost import ROUNDING_UNIT, Array32, Chunk, GroundCost, Workspace, register_cost, sum_error


@register_cost
class Cosine(GroundCost):
    r"""One minus the cosine of the tokens' vectors, between 0 and 2; a zero vector has cost 1 to every vector.

    Other vectors must have lengths of 1e-150 to 1e150, whose squares neither underflow nor overflow.

    .. math:: C(x, y) = 1 - \frac{x \cdot y}{\lVert x \rVert \lVert y \rVert} \qquad\text{(thesis, table 7.5)}

    The bound is the same product in float32, minus its rounding error: at most γ_d for an inner product of unit vectors
    over d terms, and for each length; 20 units in the last place cover the divisions and the query's rounding.
    """

    name = "cosine"

    def matrix(self, x: Array, y: Array) -> Array:
        return np.asarray(np.clip(1.0 - unit_rows(x) @ unit_rows(y).T, 0.0, 2.0))

    def device_matrix(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (1 - normalize(x, eps=1e-150) @ normalize(y, eps=1e-150).T).clamp(0, 2)

    def features(self, points: Array) -> tuple[Array32, ...]:
        return (unit_rows(points).astype(np.float32),)

    def lower(self, features: tuple[torch.Tensor, ...], chunk: Chunk, work: Workspace) -> torch.Tensor:
        bound = work.products(len(chunk.rows))[0]
        for block, x in chunk.blocks(work):
            top = torch.maximum(x.amax(dim=1, keepdim=True), -x.amin(dim=1, keepdim=True))
            x.div_(top.masked_fill_(top == 0, 1))
            length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
            x.div_(length.masked_fill_(length == 0, 1))
            torch.mm(features[0], x.T, out=bound[:, block])
        return bound.neg_().add_(1 - 2 * sum_error(features[0].shape[1]) - 20 * ROUNDING_UNIT)


@register_cost
class Euclidean(GroundCost):
    r"""Distance of the tokens' vectors, each scaled by the weight of its word, as published.

    .. math:: C(x, y) = \lVert m_x w_x - m_y w_y \rVert_2 \qquad\text{(thesis, equations 7.2 and 7.7; 5.13 in chapter
    5)}

    with the token's vector w and its BM25 weight m (equation 7.9). The bound expands the square,
    :math:`\lVert x \rVert^2 + \lVert y \rVert^2 - 2\, x \cdot y`, which is one product of matrices. In float32 each of
    these sums over d terms is off by at most γ_d of (‖x‖² + ‖y‖²)/2 to (‖x‖² + ‖y‖²), 2γ in all. The points themselves
    are off by u and 2u of their lengths (two roundings where a vector is scaled), so that a distance D of them is off
    by at most 2u(‖x‖ + ‖y‖), its square by at most 4uD(‖x‖ + ‖y‖) ≤ 8u(‖x‖² + ‖y‖²) and terms in u²; four more
    roundings are of numbers no greater than ‖x‖² + ‖y‖². The bound therefore subtracts (2γ + 16u)(‖x‖² + ‖y‖²).
    """

    name = "euclidean"
    is_convex = True

    def factors(self, weights: Array, temperature: float) -> Array | None:
        return weights

    def matrix(self, x: Array, y: Array) -> Array:
        """Computed from differences, because the expanded square loses half of the digits for close points."""
        return np.stack([np.linalg.norm(y - row, axis=1) for row in x])

    def device_matrix(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")

    def features(self, points: Array) -> tuple[Array32, ...]:
        with np.errstate(over="ignore"):  # infinity gives no bound, so the text is solved exactly
            rounded = points.astype(np.float32)
            return rounded, np.einsum("ij,ij->i", rounded, rounded)

    def lower(self, features: tuple[torch.Tensor, ...], chunk: Chunk, work: Workspace) -> torch.Tensor:
        points, squares = features
        bound, sizes, _ = work.products(len(chunk.rows))
        lengths = points.new_empty(len(chunk.rows))
        for block, x in chunk.blocks(work):
            torch.mm(points, x.T, out=bound[:, block])
            torch.linalg.vector_norm(x, dim=1, out=lengths[block])
        torch.add(squares[:, None], lengths.square_()[None, :], out=sizes)
        bound.mul_(-2).add_(sizes, alpha=1 - 2 * sum_error(points.shape[1]) - 16 * ROUNDING_UNIT)
        return bound.clamp_(min=0).sqrt_().mul_(1 - 4 * ROUNDING_UNIT)


@register_cost
class EuclideanUnscaled(Euclidean):
    r"""Distance of the tokens' vectors: a word's weight determines its mass but not its point.

    .. math:: C(x, y) = \lVert w_x - w_y \rVert_2 \qquad\text{(thesis, equation 7.2 without 7.7)}

    The cost of Word Mover's Distance, with contextual vectors; the bound of the scaled cost holds for any
    points.
    """

    name = "euclidean_unscaled"

    def factors(self, weights: Array, temperature: float) -> Array | None:
        return None


@register_cost
class MoverScore(EuclideanUnscaled):
    r"""Euclidean distance of unit power means of a token's last five layers, its tokens weighted by idf.

    .. math:: C(x, y) = \lVert x - y \rVert_2,\qquad x = \frac{h}{\lVert h \rVert_2},\quad
              h = h^{(1)} \oplus h^{(\infty)} \oplus h^{(-\infty)} \qquad\text{(thesis, table 7.5)}

    with the power means :math:`h^{(p)} = \bigl(\tfrac15 \sum_l z_l^p\bigr)^{1/p}` over the layers z, which are their
    mean, maximum and minimum. The bound is that of the Euclidean cost.
    """

    name = "moverscore"
    layers = 5
    weighting = "idf"

    def vectors(self, layers: Array) -> Array:
        return unit_rows(np.concatenate([layers.mean(axis=1), layers.max(axis=1), layers.min(axis=1)], axis=1))
