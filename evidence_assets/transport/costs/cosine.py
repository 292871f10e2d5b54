"""The cosine ground cost, of the vectors as they are."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from evidence_assets.models.vectors import Array, unit_rows

from ..ground_cost import UNIT, GroundCost, Workspace, gamma, register


def _unit(points: Array) -> Array:
    top = np.abs(points).max(axis=1, keepdims=True)
    return unit_rows(points / np.where(top > 0, top, 1.0))  # first, so that squares neither overflow nor vanish


@register
class Cosine(GroundCost):
    r"""One minus the cosine of the tokens' vectors, between 0 and 2; a zero vector is at cost 1 from every vector.

    .. math:: C(x, y) = 1 - \frac{x \cdot y}{\lVert x \rVert \lVert y \rVert} \qquad\text{(thesis, table 7.5)}

    The bound is the same product in float32, less its rounding: an inner product of unit vectors over d terms is off by
    at most γ_d, and so is each length; 20 units in the last place cover the divisions and the query's own rounding.
    """

    name = "cosine"

    def matrix(self, x: Array, y: Array) -> Array:
        return np.asarray(np.clip(1.0 - _unit(x) @ _unit(y).T, 0.0, 2.0))

    def features(self, points: Array) -> tuple[NDArray[np.float32], ...]:
        return (_unit(points).astype(np.float32),)

    def lower(
        self, features: tuple[torch.Tensor, ...], x: torch.Tensor, factors: torch.Tensor | None, work: Workspace
    ) -> torch.Tensor:
        top = torch.maximum(x.amax(dim=1, keepdim=True), -x.amin(dim=1, keepdim=True))
        x.div_(top.masked_fill_(top == 0, 1))
        length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        x.div_(length.masked_fill_(length == 0, 1))
        bound = work.product(features[0], x, work.products(len(x))[0])
        return bound.neg_().add_(1 - 2 * gamma(x.shape[1]) - 20 * UNIT)
