r"""The published ground cost, the Jensen–Shannon divergence of softmaxes, and a lower bound of it in matrix products.

**The bound without logarithms for each pair.** With t = p/q the divergence is a sum over dimensions of
q·φ(t), φ(t) = ½(t ln t − (1+t) ln((1+t)/2)). Let s = ln t and w(s) = (1+t)/2. Then

.. math:: \frac{\varphi}{w} = h(s) = \ln 2 + x\ln x + (1-x)\ln(1-x), \qquad x = \frac{1}{1+e^{-s}},

and √t/w = sech(s/2). If numbers c₀, c₁, c₂ satisfy, for every s ≥ 0 (all functions here are even),

.. math:: g(s) = c_0 + c_1\,\mathrm{sech}(s/2) + c_2\,\mathrm{sech}(s/2)\cos(s/2) \le h(s), \tag{1}

then multiplying by q·w = (p+q)/2 and summing over the dimensions of two distributions gives

.. math:: \mathrm{JSD}(P, Q) \ge c_0 + c_1 A + c_2 B,\qquad A = \sum_l \sqrt{p_l q_l},\quad
          B = \sum_l \sqrt{p_l q_l}\,\cos\bigl(\tfrac12\ln p_l - \tfrac12\ln q_l\bigr).

Both sums are inner products: with ψ = √p = e^θ, θ = ½ ln p, the features of a token are ψ for A and
(ψ cos θ, ψ sin θ) for B. :data:`COEFFICIENTS` are solutions of (1) by linear programming, for pairs from close (flat
distributions) to distant (peaked ones); the bound is their maximum.
Proof of (1) for each set: |h'| = x(1−x)s < 0.23 and |g'| ≤ |c₁|/4 + 3|c₂|/4 < 0.5, so g ≤ h everywhere if
g ≤ h − 10⁻⁵ on a grid of step 2·10⁻⁵. The tests evaluate that grid on [0, 40]; beyond it sech(s/2) < 10⁻⁸ while
h > ln 2 − 10⁻¹⁵ ≥ c₀ + 10⁻⁵.

**Rounding.** Computation is in float32, and a margin for its error is subtracted: an inner product of unit vectors over
d terms has an error of at most γ_d = d·2⁻²⁴/(1 − d·2⁻²⁴), a feature that of its angle.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import torch
from numpy.typing import NDArray

from evidence_assets.models.vectors import Array, softmax

from ..divergence import jensen_shannon_matrix
from ..ground_cost import ROUNDING_UNIT, GroundCost, Workspace, register_cost, sum_error

# (c0, c1, c2); each c0 is lowered by 2e-5 for the grid of the proof of (1)
COEFFICIENTS: tuple[tuple[float, float, float], ...] = (
    (0.56614, -0.13562, -0.43054),
    (0.63682, -0.29263, -0.34423),
    (0.67169, -0.38085, -0.29088),
    (0.69312, -0.44583, -0.24733),
)
LOWEST_ANGLE = -60.0  # e^-60 replaces the root of 0; the sum of its products is under 1e-20


def normalise_rows(points: Array) -> Array:
    """Divide rows by their sums; raise ValueError for rows that are not distributions."""
    negative = points < 0
    if negative.any():
        row, column = (int(i) for i in np.unravel_index(int(np.argmax(negative)), points.shape))
        raise ValueError(
            f"points[{row}, {column}] is {points[row, column]}: this cost compares distributions. Apply "
            "softmax to the vectors or choose another cost"
        )
    sums = points.sum(axis=1, keepdims=True)
    if not (sums > 0).all():
        raise ValueError(f"points[{int(np.argmin(sums))}] sums to 0: a row of zeros is not a distribution")
    return np.asarray(points / sums)


@register_cost
class JensenShannon(GroundCost):
    r"""Divergence of softmax(BM25 · w / T), as published.

    .. math:: C(x, y) = \tfrac12 D_{KL}(P_x \Vert M) + \tfrac12 D_{KL}(P_y \Vert M),\quad M = \tfrac12 (P_x + P_y),
              \quad P_x = \mathrm{softmax}(m_x w_x / T) \qquad\text{(thesis, equations 7.6 and 7.7)}

    with the token's vector w and its BM25 weight m (equation 7.9); between 0 and ln 2.
    """

    name = "jsd"

    def factors(self, weights: Array, temperature: float) -> Array | None:
        if not temperature > 0:
            raise ValueError(f"temperature is {temperature}: it must be above 0")
        return np.asarray(weights / temperature)

    def points(self, scaled: Array) -> Array:
        return softmax(scaled)

    def matrix(self, x: Array, y: Array) -> Array:
        return jensen_shannon_matrix(normalise_rows(x), normalise_rows(y))

    def features(self, points: Array) -> tuple[NDArray[np.float32], ...]:
        p = normalise_rows(points)
        with np.errstate(divide="ignore"):
            theta = np.maximum(0.5 * np.log(p), LOWEST_ANGLE)
        root = np.exp(theta)
        features = root, root * np.cos(theta), root * np.sin(theta)
        return tuple(feature.astype(np.float32) for feature in features)

    def lower(
        self, features: tuple[torch.Tensor, ...], x: torch.Tensor, factors: torch.Tensor | None, work: Workspace
    ) -> torch.Tensor:
        rows, d = x.shape
        _, root, turn = work.rows(rows)
        assert factors is not None
        angle = x.mul_((0.5 * factors).float()[:, None])
        top, low = angle.amax(dim=1), angle.amin(dim=1)
        reach = torch.maximum(top.abs(), low.abs())
        if not reach.max() < 40:  # the sum of squared exponentials could overflow
            angle.sub_(top[:, None]).clamp_(min=LOWEST_ANGLE)
        # rounding of product, difference and logarithm of the norm: numbers of at most four times the reach
        angle_error = 2.0**-21 * (1 + reach)
        work.apply("exp", angle, root)
        norm = torch.linalg.vector_norm(root, dim=1)
        angle.sub_(norm.log()[:, None])
        affinity, turned, spare = work.products(rows)
        work.product(features[0], root, affinity)
        work.product(features[1], work.apply("cos", angle, turn).mul_(root), turned)
        work.product(features[2], work.apply("sin", angle, turn).mul_(root), spare)
        turned += spare
        # divide the products by the norm instead of the roots, as there are fewer
        shrink = norm.reciprocal_()
        affinity *= shrink
        turned *= shrink
        # A feature vector has norm 1 and an error of twice the angle error (length and direction) and a few units of
        # exp, log, cos and sin. |c1| + |c2| < 0.72 bounds the effect of that and of the sums on c0 + c1 A + c2 B.
        margin = 0.72 * (3 * angle_error + 36 * ROUNDING_UNIT + sum_error(d) + sum_error(2 * d)) + 8 * ROUNDING_UNIT
        bounds = (affinity.mul(c1).add_(c0).add_(turned, alpha=c2) for c0, c1, c2 in COEFFICIENTS)
        # torch.maximum propagates NaN, which marks overflow
        return reduce(torch.maximum, bounds).sub_(margin)


@register_cost
class JensenShannonUnscaled(JensenShannon):
    r"""Divergence of softmax(w / T): a word's weight determines its mass but not its point.

    .. math:: C(x, y) = \mathrm{JSD}\bigl(\mathrm{softmax}(w_x / T), \mathrm{softmax}(w_y / T)\bigr)

    Equations 7.6 and 7.7 without the factor of 7.9; the bound of the published cost applies.
    """

    name = "jsd_unscaled"

    def factors(self, weights: Array, temperature: float) -> Array | None:
        return super().factors(np.ones(len(weights)), temperature)
