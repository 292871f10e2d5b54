"""MoverScore as a ground cost: Euclidean between unit power means of several layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evidence_assets.models.vectors import unit_rows

from ..ground_cost import register
from .euclidean import Euclidean

Array = NDArray[np.float64]
POWERS = (1.0, float("inf"), float("-inf"))


@register
class MoverScore(Euclidean):
    r"""Euclidean distance of unit power means of a token's last five layers, its tokens weighted by idf.

    .. math:: C(x, y) = \lVert x - y \rVert_2,\qquad x = \frac{h}{\lVert h \rVert_2},\quad
              h = h^{(1)} \oplus h^{(\infty)} \oplus h^{(-\infty)} \qquad\text{(thesis, table 7.5)}

    with the power means :math:`h^{(p)} = \bigl(\tfrac15 \sum_l z_l^p\bigr)^{1/p}` over the layers z. Its bound is that
    of the Euclidean cost.
    """

    name = "moverscore"
    layers = 5
    weighting = "idf"

    def vectors(self, layers: Array) -> Array:
        return unit_rows(power_means(layers))


def power_means(layers: ArrayLike, powers: Sequence[float] = POWERS) -> Array:
    """Mean, maximum and minimum over layers (tokens × layers × d), side by side: tokens × (len(powers) · d).

    A power of p other than 1 and ±infinity is the p-th root of the mean p-th power and needs an odd integer, which
    keeps the sign.
    """
    x = np.asarray(layers, dtype=np.float64)
    if x.ndim != 3:
        raise ValueError(f"power means need tokens × layers × dimensions, not shape {x.shape}")
    parts = []
    for p in powers:
        if p == float("inf"):
            parts.append(x.max(axis=1))
        elif p == float("-inf"):
            parts.append(x.min(axis=1))
        elif float(p).is_integer() and int(p) % 2:
            mean = (x**p).mean(axis=1)
            parts.append(np.sign(mean) * np.abs(mean) ** (1 / p))
        else:
            raise ValueError(f"power {p} loses the sign of numbers: give an odd integer or an infinity")
    return np.concatenate(parts, axis=1)
