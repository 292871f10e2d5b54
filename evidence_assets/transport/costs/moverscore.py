"""MoverScore as a ground cost: Euclidean between unit power means of several layers."""

from __future__ import annotations

import numpy as np

from evidence_assets.models.vectors import Array, unit_rows

from ..ground_cost import register
from .euclidean_unscaled import EuclideanUnscaled


@register
class MoverScore(EuclideanUnscaled):
    r"""Euclidean distance of unit power means of a token's last five layers, its tokens weighted by idf.

    .. math:: C(x, y) = \lVert x - y \rVert_2,\qquad x = \frac{h}{\lVert h \rVert_2},\quad
              h = h^{(1)} \oplus h^{(\infty)} \oplus h^{(-\infty)} \qquad\text{(thesis, table 7.5)}

    with the power means :math:`h^{(p)} = \bigl(\tfrac15 \sum_l z_l^p\bigr)^{1/p}` over the layers z, which are their
    mean, greatest and least. Its bound is that of the Euclidean cost.
    """

    name = "moverscore"
    layers = 5
    weighting = "idf"

    def vectors(self, layers: Array) -> Array:
        if layers.ndim != 3:
            raise ValueError(f"power means need tokens × layers × dimensions, not shape {layers.shape}")
        return unit_rows(np.concatenate([layers.mean(axis=1), layers.max(axis=1), layers.min(axis=1)], axis=1))
