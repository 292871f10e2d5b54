"""The Jensen–Shannon cost with the weight left out of the softmax."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..ground_cost import register
from .jsd import JensenShannon


@register
class JensenShannonUnscaled(JensenShannon):
    r"""Divergence of softmax(w / T): a word's weight is its mass alone and does not move its point.

    .. math:: C(x, y) = \mathrm{JSD}\bigl(\mathrm{softmax}(w_x / T), \mathrm{softmax}(w_y / T)\bigr)

    Equations 7.6 and 7.7 without the factor of 7.9; its bound is that of the published cost.
    """

    name = "jsd_unscaled"

    def factors(self, weights: NDArray[np.float64], temperature: float) -> NDArray[np.float64] | None:
        return super().factors(np.ones(len(weights)), temperature)
