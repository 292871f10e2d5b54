"""The Euclidean ground cost, of the vectors as they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..ground_cost import register
from .euclidean import Euclidean


@register
class EuclideanUnscaled(Euclidean):
    r"""Distance of the tokens' vectors: a word's weight is its mass alone and does not move its point.

    .. math:: C(x, y) = \lVert w_x - w_y \rVert_2 \qquad\text{(thesis, equation 7.2 without 7.7)}

    The cost of Word Mover's Distance, with contextual vectors; its bound is that of the scaled one, which holds for any
    points.
    """

    name = "euclidean_unscaled"

    def factors(self, weights: NDArray[np.float64], temperature: float) -> NDArray[np.float64] | None:
        return None
