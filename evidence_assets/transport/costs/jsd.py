r"""The published ground cost, the Jensen–Shannon divergence of softmaxes, and two lower bounds of it.

**The bound without logarithms for each pair.** With t = p/q the divergence is a sum over dimensions of
q·φ(t), φ(t) = ½(t ln t − (1+t) ln((1+t)/2)). Let s = ln t and w(s) = (1+t)/2. Then

.. math:: \frac{\varphi}{w} = h(s) = \ln 2 + x\ln x + (1-x)\ln(1-x), \qquad x = \frac{1}{1+e^{-s}},

and √t/w = sech(s/2). If numbers c₀, c₁, c₂ satisfy, for every s ≥ 0 (all functions here are even),

.. math:: g(s) = c_0 + c_1\,\mathrm{sech}(s/2) + c_2\,\mathrm{sech}(s/2)\cosh(s/4) \le h(s), \tag{1}

then multiplying by q·w = (p+q)/2 and summing over the dimensions of two distributions gives

.. math:: \mathrm{JSD}(P, Q) \ge c_0 + c_1 A + c_2 B,\qquad A = \sum_l p_l^{1/2} q_l^{1/2},\quad
          B = \tfrac12 \sum_l \bigl(p_l^{3/4} q_l^{1/4} + p_l^{1/4} q_l^{3/4}\bigr).

All sums are inner products of powers, and one exponential, the fourth root of q, gives the others by multiplication.
:data:`COEFFICIENTS` are solutions of (1) by linear programming, for pairs from close (flat distributions) to distant
(peaked ones); the bound is their maximum.
Proof of (1) for each set: |h'| = x(1−x)s < 0.23. The derivatives of sech(s/2) and sech(s/2) cosh(s/4) are at most ¼ and
½, so |g'| ≤ |c₁|/4 + |c₂|/2 < 3.4, and g ≤ h everywhere if g ≤ h − 2·10⁻⁵ on a grid of step 10⁻⁵. The tests evaluate
that grid on [0, 40]; beyond it sech(s/2) < 10⁻⁸, sech(s/2) cosh(s/4) < 10⁻⁴ and h > ln 2 − 10⁻¹⁵ > c₀ + 10⁻².

**The relaxed bound in one product of square roots.** One term of the divergence is φ(p, q) = p·G(y), y = √(q/p), with

.. math:: G(y) = y^2 \ln y - \tfrac{1+y^2}{2} \ln\tfrac{1+y^2}{2}, \quad G'(y) = y \ln\tfrac{2y^2}{1+y^2}, \quad
          G''(y) = \ln 2r + 2(1-r), \quad r = \tfrac{y^2}{1+y^2}.

G'' rises from −∞ at r = 0 to 1 at r = ½ and falls to ln 2 at r = 1. For 0 ≤ γ ≤ ½ ln 2, therefore, K(y) = G(y) − γy² is
concave up to some y_γ ≤ 1 and convex from there on. A tangent of K at y₀ ≥ y_γ, α + βy with

.. math:: \alpha = \tfrac12 (y_0^2 - 1) \ln\tfrac{1+y_0^2}{2} - y_0^2 \ln y_0 + \gamma y_0^2, \qquad
          \beta = y_0 \bigl(\ln\tfrac{2y_0^2}{1+y_0^2} - 2\gamma\bigr),

is below K on the convex part. If also α ≤ K(0) = ½ ln 2, it is below K at both ends of the concave part and thus on it.
So α + βy + γy² ≤ G(y) for all y ≥ 0, and with one γ for a query token and one y₀ for each of its dimensions,

.. math:: \mathrm{JSD}(P, Q) \ge \sum_l \alpha_l p_l + \gamma + \sum_l \beta_l \sqrt{p_l}\,\sqrt{q_l}.

(y₀ = 1 and γ = ½ ln 2 give ln 2 · (1 − A).) The best y₀ for expected roots E√q_l is E√q_l/√p_l, or the smallest allowed
one (:data:`SMALLEST_TANGENTS`) if that is greater; :meth:`JensenShannon.relax` takes the expectations from the plans of
solved texts and tries all :data:`CURVATURES` γ.

**Rounding.** Computation is in float32, and a margin for its error is subtracted: an inner product over d terms, all of
one sign, has a relative error of at most γ_d = d·u/(1 − d·u), u = 2⁻²⁴.
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import torch

from evidence_assets.models.vectors import Array

from ..divergence import jensen_shannon_matrix, jensen_shannon_tensor
from ..ground_cost import ROUNDING_UNIT, Array32, Chunk, GroundCost, Workspace, register_cost, sum_error

# (c0, c1, c2); each c0 is lowered by 2e-5 for the grid of the proof of (1)
COEFFICIENTS: tuple[tuple[float, float, float], ...] = (
    (-0.12979, -4.37678, 4.50654),
    (0.28226, -2.99467, 2.71238),
    (0.56214, -1.81483, 1.25266),
    (0.66378, -1.16338, 0.49957),
)
LARGEST_COEFFICIENTS = max(abs(c1) + abs(c2) for _, c1, c2 in COEFFICIENTS)
CURVATURES = np.linspace(0.0, 0.5 * np.log(2.0) * (1 - 1e-6), 12)
LARGEST_TANGENT = 1e3
LOWEST_LOGARITHM = -30.0  # e^-30 replaces the fourth root of 0; the sum of its products is under 1e-10


def tangent_offset(y: Array, curvature: Array | float) -> Array:
    """α of the relaxed bound."""
    square = y * y
    return np.asarray(0.5 * (square - 1) * np.log((1 + square) / 2) - square * np.log(y) + curvature * square)


def tangent_slope(y: Array, curvature: Array | float) -> Array:
    """β of the relaxed bound."""
    return np.asarray(y * (np.log(2 * y * y / (1 + y * y)) - 2 * curvature))


def _smallest_tangents() -> Array:
    """For each curvature the smallest y₀ with α ≤ ½ ln 2, by bisection.

    From K(0) = ½ ln 2 at y₀ = 0, α rises on the concave part and falls on the convex part, to γ at y₀ = 1.
    """
    low = np.full(len(CURVATURES), 1e-6)
    high = np.ones(len(CURVATURES))
    for _ in range(60):
        middle = (low + high) / 2
        too_small = tangent_offset(middle, CURVATURES) > 0.5 * np.log(2.0)
        low = np.where(too_small, middle, low)
        high = np.where(too_small, high, middle)
    return high


SMALLEST_TANGENTS = _smallest_tangents()


def normalise_rows(points: Array) -> Array:
    """Divide rows by their sums; raise ValueError for rows that are not distributions."""
    sums = points.sum(axis=1, keepdims=True)
    if not ((points >= 0).all() and (sums > 0).all()):
        raise ValueError("this cost compares distributions: apply softmax to the vectors, or choose another cost")
    return np.asarray(points / sums)


@register_cost
class JensenShannon(GroundCost):
    r"""Divergence of softmax(BM25 · w / T), as published.

    .. math:: C(x, y) = \tfrac12 D_{KL}(P_x \Vert M) + \tfrac12 D_{KL}(P_y \Vert M),\quad M = \tfrac12 (P_x + P_y),
              \quad P_x = \mathrm{softmax}(m_x w_x / T) \qquad\text{(thesis, equations 7.6 and 7.7)}

    with the token's vector w and its BM25 weight m (equation 7.9); between 0 and ln 2.
    """

    name = "jsd"
    is_convex = True

    def factors(self, weights: Array, temperature: float) -> Array | None:
        return np.asarray(weights / temperature)

    def points(self, scaled: torch.Tensor) -> torch.Tensor:
        return torch.softmax(scaled, dim=1)

    def matrix(self, x: Array, y: Array) -> Array:
        return jensen_shannon_matrix(normalise_rows(x), normalise_rows(y))

    def device_matrix(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return jensen_shannon_tensor(x / x.sum(dim=1, keepdim=True), y / y.sum(dim=1, keepdim=True))

    def features(self, points: Array) -> tuple[Array32, ...]:
        fourth_root = np.maximum(normalise_rows(points) ** 0.25, np.exp(LOWEST_LOGARITHM))
        return tuple((fourth_root**power).astype(np.float32) for power in (2, 3, 1))

    def lower(self, features: tuple[torch.Tensor, ...], chunk: Chunk, work: Workspace) -> torch.Tensor:
        r"""The maximum over all coefficients.

        Roundings of factor and product (and difference, if the greatest logarithm is subtracted) move the logarithm z
        of a fourth root by at most 4u|z| and exp by 6u. With the fourth powers of the roots as weights, the relative
        errors of the roots have a mean of fourth powers of at most E⁴, E = 4uρ + 6u, where ρ⁴ is the mean of z⁴. The
        powers of the roots are off by 2E + u and 3E + 2u, their norm by another γ_d/2 + u. All terms of A and B are
        positive, and Hölder's inequality limits their sums to 1 and the sums of their errors to E. So A is off by at
        most 4E + 1.5 γ_d + 12u, and so is B, as the mean of sums with errors of 2E + 1.25 γ_d + 8u and
        6E + 1.75 γ_d + 14u.

        Let t be the greatest z. As (t − z)⁴ e^{4(z − t)} < 1, the mean of (t − z)⁴ is at most d, and ρ ≤ |t| + d^¼. For
        the norm N of the squares, t ≤ ½ ln N ≤ t + ¼ ln d.
        """
        d = features[0].shape[1]
        largest, norms = features[0].new_empty((2, len(chunk.rows)))
        sum_a, sum_b, cube_sum = self._multiply_roots(features, chunk, work, norms)
        torch.log(norms, out=largest).abs_()
        if largest.max() < 30:  # the sums of fourth powers neither overflow nor underflow
            largest.mul_(0.5).add_(0.25 * math.log(d) + d**0.25)
        else:
            self._multiply_roots(features, chunk, work, norms, largest)
        # divide the products by powers of the norm instead of the roots, as there are fewer
        shrink = norms.reciprocal_()
        sum_a.mul_(shrink)
        sum_b.mul_(shrink.sqrt().mul_(0.5))
        sum_b += cube_sum.mul_(shrink.pow(1.5).mul_(0.5))
        root_error = ROUNDING_UNIT * (4 * largest + 6)
        margin = LARGEST_COEFFICIENTS * (4 * root_error + 1.5 * sum_error(d) + 20 * ROUNDING_UNIT)
        bounds = (sum_a.mul(c1).add_(c0).add_(sum_b, alpha=c2) for c0, c1, c2 in COEFFICIENTS)
        # torch.maximum propagates NaN, which marks overflow
        return reduce(torch.maximum, bounds).sub_(margin)

    def _multiply_roots(
        self,
        features: tuple[torch.Tensor, ...],
        chunk: Chunk,
        work: Workspace,
        norms: torch.Tensor,
        largest: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """The products of three powers of the roots, in the workspace; writes the norms of the squares to ``norms``.

        With ``largest``, the greatest logarithm of a text's token is subtracted from all, and ``largest`` receives the
        greatest absolute logarithm.
        """
        products = work.products(len(chunk.rows))
        for block, logarithm in chunk.blocks(work, 0.25):
            if largest is not None:
                top = logarithm.amax(dim=1)
                low = logarithm.amin(dim=1)
                torch.maximum(top.abs(), low.abs_(), out=largest[block])
                logarithm.sub_(top[:, None]).clamp_(min=LOWEST_LOGARITHM)
            fourth_root = logarithm.exp_()
            torch.mm(features[1], fourth_root.T, out=products[1][:, block])
            square = torch.mul(fourth_root, fourth_root, out=work.rows(len(fourth_root))[1])
            torch.linalg.vector_norm(square, dim=1, out=norms[block])
            torch.mm(features[0], square.T, out=products[0][:, block])
            cube = fourth_root.mul_(square)
            torch.mm(features[2], cube.T, out=products[2][:, block])
        return products

    def relax(self, points: Array, others: Array, plan: Array) -> tuple[Array32, ...]:
        p = normalise_rows(points)
        root = np.sqrt(p)
        expected_roots = (plan / plan.sum(axis=1, keepdims=True)) @ np.sqrt(normalise_rows(others))
        # curvatures × tokens × dimensions
        curvatures = CURVATURES[:, None, None]
        y = np.clip(expected_roots / np.maximum(root, 1e-150), SMALLEST_TANGENTS[:, None, None], LARGEST_TANGENT)
        all_offsets = (p * tangent_offset(y, curvatures)).sum(axis=2) + CURVATURES[:, None]
        all_slopes = root * tangent_slope(y, curvatures)
        best = (all_offsets + (all_slopes * expected_roots).sum(axis=2)).argmax(axis=0)
        tokens = np.arange(len(p))
        offsets = all_offsets[best, tokens]
        slopes = all_slopes[best, tokens]
        lengths = np.linalg.norm(slopes, axis=1)
        # the bisection and the sums in float64, and the roundings of offsets, slopes and sums to float32
        offsets -= 1e-9 + 8 * ROUNDING_UNIT * (np.abs(offsets) + lengths)
        return slopes.astype(np.float32), offsets.astype(np.float32), lengths.astype(np.float32)

    def relaxed_lower(self, features: tuple[torch.Tensor, ...], chunk: Chunk, work: Workspace) -> torch.Tensor:
        r"""One exponential for each number of the texts, and one product; NaN for tokens whose exponentials overflow.

        Roundings of factor and product move an angle z_l by up to 2u|z_l| and its exponential e_l by that and 6u of
        itself. Of the length ‖e‖ that is at most 2u·ρ + 6u, where ρ² is the mean of z² with the weights e². Let t be
        the largest angle: ρ ≤ |t| + (Σ(t − z_l)² e_l² / Σ e_l²)^½, whose last term is at most 1 + ½ ln d, and
        t ≤ ln ‖e‖ ≤ t + ½ ln d. So ρ ≤ |ln ‖e‖| + ln d + 1. The direction is off by twice as much.
        """
        slopes, offsets, lengths = features
        count = len(chunk.rows)
        d = slopes.shape[1]
        norm = torch.empty(count)
        product = work.products(count)[0]
        for block, half in chunk.blocks(work, 0.5):
            root = half.exp_()
            torch.linalg.vector_norm(root, dim=1, out=norm[block])
            torch.mm(slopes, root.T, out=product[:, block])
        size = norm.log().abs_()
        is_safe = size < 35  # squares neither overflow nor underflow
        angle_error = float(torch.where(is_safe, size, 0.0).max()) + math.log(d) + 1
        margin = ROUNDING_UNIT * (4.1 * angle_error + 24) + 2 * sum_error(d)
        product.mul_(norm.reciprocal_().masked_fill_(~is_safe, torch.nan))
        return product.add_((offsets - margin * lengths)[:, None])

    def relaxed_matrix(self, features: tuple[Array32, ...], others: Array) -> Array:
        slopes, offsets, _ = features
        return np.asarray(offsets[:, None] + slopes @ np.sqrt(normalise_rows(others)).T)


@register_cost
class JensenShannonUnscaled(JensenShannon):
    r"""Divergence of softmax(w / T): a word's weight determines its mass but not its point.

    .. math:: C(x, y) = \mathrm{JSD}\bigl(\mathrm{softmax}(w_x / T), \mathrm{softmax}(w_y / T)\bigr)

    Equations 7.6 and 7.7 without the factor of 7.9; the bound of the published cost applies.
    """

    name = "jsd_unscaled"

    def factors(self, weights: Array, temperature: float) -> Array | None:
        return super().factors(np.ones(len(weights)), temperature)
