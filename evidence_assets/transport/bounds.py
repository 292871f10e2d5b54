r"""Lower bounds of the transport cost that need matrix products only, with proofs.

**From costs to transport.** For any vector u over the query's tokens put v_j = min_i (C_ij − u_i). Then
u_i + v_j ≤ C_ij for all i, j, so that every plan T with marginals a, b costs

.. math:: \langle C, T\rangle \ge \sum_{ij} (u_i + v_j)\, T_{ij} = a \cdot u + b \cdot v .

The right side is therefore a lower bound of the optimum, whatever u is (weak duality), and stays one when C is replaced
by any matrix below it. Texts of one pool want much the same u, so the potentials of a few solved texts serve all.

**The Jensen–Shannon cost without logarithms for each pair.** With t = p/q the divergence is a sum over dimensions of
q·φ(t), φ(t) = ½(t ln t − (1+t) ln((1+t)/2)). Let s = ln t and w(s) = (1+t)/2. Then

.. math:: \frac{\varphi}{w} = h(s) = \ln 2 + x\ln x + (1-x)\ln(1-x), \qquad x = \frac{1}{1+e^{-s}},

and √t/w = sech(s/2). If numbers c₀, c₁, c₂ satisfy, for every s ≥ 0 (all functions here are even),

.. math:: g(s) = c_0 + c_1\,\mathrm{sech}(s/2) + c_2\,\mathrm{sech}(s/2)\cos(s/2) \le h(s), \tag{1}

then multiplying by q·w = (p+q)/2 and summing over the dimensions of two distributions gives

.. math:: \mathrm{JSD}(P, Q) \ge c_0 + c_1 A + c_2 B,\qquad A = \sum_l \sqrt{p_l q_l},\quad
          B = \sum_l \sqrt{p_l q_l}\,\cos\bigl(\tfrac12\ln p_l - \tfrac12\ln q_l\bigr).

Both sums are inner products: with ψ = √p = e^θ, θ = ½ ln p, the features of a token are ψ for A and
(ψ cos θ, ψ sin θ) for B. :data:`COEFFICIENTS` holds sets that satisfy (1), made by linear programming for pairs that
are near (flat distributions) up to far apart (peaky ones); the bound is the greatest of them.
Proof of (1) for each set: |h'| = x(1−x)s < 0.23 and |g'| ≤ |c₁|/4 + 3|c₂|/4 < 0.5, so that g ≤ h everywhere if
g ≤ h − 10⁻⁵ on a grid of step 2·10⁻⁵; the tests evaluate that grid on [0, 40], and beyond it sech(s/2) < 10⁻⁸ while
h > ln 2 − 10⁻¹⁵ ≥ c₀ + 10⁻⁵.

**Rounding.** Everything above is computed in float32, so a margin is subtracted that covers it: an inner product of
unit vectors over d terms is off by at most γ_d = d·2⁻²⁴/(1 − d·2⁻²⁴), and a feature by what its angle is off. The
functions here return bounds after that margin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .costs import CostName, distributions

__all__ = ["COEFFICIENTS", "Features", "dual_bound", "query_features"]

Array = NDArray[np.float64]
Array32 = NDArray[np.float32]

# (c0, c1, c2), each c0 lowered by 2e-5 so that (1) holds with room for the grid of its proof.
COEFFICIENTS: tuple[tuple[float, float, float], ...] = (
    (0.56614, -0.13562, -0.43054),
    (0.63682, -0.29263, -0.34423),
    (0.67169, -0.38085, -0.29088),
    (0.69312, -0.44583, -0.24733),
)
UNIT = 2.0**-24
LOWEST_ANGLE = -60.0  # e^-60 stands in for the root of 0: all of its products together are under 1e-20


def gamma(terms: int) -> float:
    """Greatest relative error of a float32 sum of so many products."""
    return terms * UNIT / (1 - terms * UNIT)


def dual_bound(a: Array, b: Array, costs: Array, potentials: Array) -> float:
    """Best weak-duality bound over several potentials (one a row), in float64.

    Examples
    --------
    >>> dual_bound(np.array([1.0]), np.array([0.5, 0.5]), np.array([[1.0, 3.0]]), np.array([[0.0]]))
    2.0
    """
    reduced = (costs[None, :, :] - potentials[:, :, None]).min(axis=1)
    return float((potentials @ a + reduced @ b).max())


@dataclass(frozen=True)
class Features:
    """Query tokens of one or several queries, ready for products with blocks of a pool.

    ``main`` (n × d) and, for ``jsd``, ``turned`` (n × 2d); ``slack`` is what the query's own rounding may add to an
    error; ``squares`` are squared norms for ``euclidean``.
    """

    cost: CostName
    main: Array32
    turned: Array32 | None
    slack: float
    squares: Array32


def query_features(points: Array, cost: CostName) -> Features:
    """Features of query points, rounded from float64."""
    none = np.empty(0, dtype=np.float32)
    if cost == "jsd":
        p = distributions(points)
        with np.errstate(divide="ignore"):
            theta = np.maximum(0.5 * np.log(p), LOWEST_ANGLE)
        root = np.exp(theta)
        turned = np.concatenate([root * np.cos(theta), root * np.sin(theta)], axis=1)
        return Features(cost, root.astype(np.float32), turned.astype(np.float32), 4 * UNIT, none)
    if cost == "cosine":
        top = np.abs(points).max(axis=1, keepdims=True)
        scaled = points / np.where(top > 0, top, 1.0)
        norms = np.linalg.norm(scaled, axis=1, keepdims=True)
        unit = scaled / np.where(norms > 0, norms, 1.0)
        return Features(cost, unit.astype(np.float32), None, 4 * UNIT, none)
    with np.errstate(over="ignore"):  # infinite: no bound, solved exactly
        rounded = points.astype(np.float32)
    return Features(cost, rounded, None, 0.0, np.einsum("ij,ij->i", rounded, rounded))


def widen(vectors: NDArray[Any], out: Array32) -> Array32:
    """Copy a block into float32; torch does it twenty times faster than numpy for float16."""
    if vectors.dtype == np.float16:
        torch.from_numpy(out).copy_(torch.from_numpy(vectors))
    else:
        with np.errstate(over="ignore"):  # becomes infinite, hence a bound of minus infinity: solved exactly
            np.copyto(out, vectors, casting="same_kind")
    return out


def _padded(rows: Array32) -> Array32:
    return np.concatenate([rows, np.zeros((-len(rows) % 8, rows.shape[1]), dtype=np.float32)])


class BlockBounds:
    """Scratch memory and the float32 kernels that bound the costs of one block of pool rows from below."""

    def __init__(self, features: Features, rows: int, dimensions: int) -> None:
        self.features = features
        # Whole vector registers: 24 query rows are multiplied a third faster than 22.
        self.main = _padded(features.main)
        self.turned = None if features.turned is None else _padded(features.turned)
        self.scratch = np.empty((3, rows, dimensions), dtype=np.float32)
        self.products = np.empty((3, len(self.main) * rows), dtype=np.float32)

    def costs(self, vectors: NDArray[Any], factors: Array | None) -> Array32:
        """Lower bounds of the costs from every query token to every row, n × rows; NaN where float32 gave up."""
        with np.errstate(all="ignore"):
            x = widen(vectors, self.scratch[0, : len(vectors)])
            if self.features.cost == "jsd":
                found = self._jsd(x, factors)
            else:
                if factors is not None:
                    x = _softmax32(x, factors)
                found = self._cosine(x) if self.features.cost == "cosine" else self._euclidean(x)
        return found[: len(self.features.main)]

    def _views(self, rows: int) -> tuple[Array32, Array32, Array32]:
        n = len(self.main)
        first, second, third = (p[: n * rows].reshape(n, rows) for p in self.products)
        return first, second, third

    def _jsd(self, x: Array32, factors: Array | None) -> Array32:
        # torch for what goes row by row (numpy is three times slower there), numpy for exp, cos and sin (torch is).
        rows, d = x.shape
        angle = torch.from_numpy(x)
        if factors is None:
            np.log(x, out=x)
            angle.mul_(0.5).clamp_(min=LOWEST_ANGLE)
            # log: at most 2^-22 of its value, plus the rounding of the entry itself.
            angle_error = np.full(rows, 2.0**-23 + 2.0**-22 * -LOWEST_ANGLE)
        else:
            angle.mul_(torch.from_numpy((0.5 * factors).astype(np.float32))[:, None])
            top, low = angle.amax(dim=1), angle.amin(dim=1)
            reach = np.maximum(np.abs(top.numpy()), np.abs(low.numpy())).astype(np.float64)
            if not reach.max() < 40:  # exp of it, squared and summed, could overflow
                angle.sub_(top[:, None]).clamp_(min=LOWEST_ANGLE)
            # Product, difference and logarithm of the norm: roundings of numbers no greater than four times the reach.
            angle_error = 2.0**-21 * (1 + reach)
        root, turn = self.scratch[1, :rows], self.scratch[2, :rows]
        np.exp(x, out=root)
        norm = torch.linalg.vector_norm(torch.from_numpy(root), dim=1)
        angle.sub_(norm.log()[:, None])
        affinity, turned, spare = self._views(rows)
        assert self.turned is not None
        np.matmul(self.main, root.T, out=affinity)
        np.cos(x, out=turn)
        turn *= root
        np.matmul(self.turned[:, :d], turn.T, out=turned)
        np.sin(x, out=turn)
        turn *= root
        turned += np.matmul(self.turned[:, d:], turn.T, out=spare)
        shrink = (1 / norm).numpy()
        affinity *= shrink
        turned *= shrink
        # A feature vector has norm 1 and is off by twice the angle error (its size and its turn) and a few units of
        # exp, log, cos and sin; |c1| + |c2| < 0.72 bounds what that and the sums do to c0 + c1 A + c2 B.
        own = 3 * angle_error + 32 * UNIT + gamma(d)
        margin = (0.72 * (own + self.features.slack + gamma(2 * d)) + 8 * UNIT).astype(np.float32)
        a, b, best = torch.from_numpy(affinity), torch.from_numpy(turned), torch.from_numpy(spare)
        for number, (c0, c1, c2) in enumerate(COEFFICIENTS):
            value = a.mul(c1).add_(c0).add_(b, alpha=c2)
            if number:
                torch.maximum(best, value, out=best)
            else:
                best.copy_(value)
        best.sub_(torch.from_numpy(margin))
        return spare

    def _cosine(self, x: Array32) -> Array32:
        rows, d = x.shape
        top = np.abs(x).max(axis=1)
        x /= np.where(top > 0, top, np.float32(1))[:, None]
        norms = np.sqrt(np.einsum("ij,ij->i", x, x))
        x /= np.where(norms > 0, norms, np.float32(1))[:, None]
        result = self._views(rows)[0]
        np.matmul(self.main, x.T, out=result)
        np.subtract(np.float32(1 - 2 * gamma(d) - 16 * UNIT - self.features.slack), result, out=result)
        return result

    def _euclidean(self, x: Array32) -> Array32:
        rows, d = x.shape
        result = self._views(rows)[0]
        np.matmul(self.main, x.T, out=result)
        squares = np.concatenate([self.features.squares, np.zeros(len(self.main) - len(self.features.squares))])
        sizes = squares.astype(np.float32)[:, None] + np.einsum("ij,ij->i", x, x)[None, :]
        # |x|² + |y|² − 2xy is off by at most γ of each part and by the rounding of the points to float32.
        result *= np.float32(-2)
        result += sizes
        result -= np.float32(2 * gamma(d) + 16 * UNIT) * sizes
        np.sqrt(np.maximum(result, 0, out=result), out=result)
        result *= np.float32(1 - 4 * UNIT)
        return result


def _softmax32(x: Array32, factors: Array) -> Array32:
    """Softmax in float64, rounded once: these costs are no bottleneck and float32 would need a margin of its own."""
    z = x.astype(np.float64) * factors[:, None]
    z -= z.max(axis=1, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(axis=1, keepdims=True)
    return z.astype(np.float32)


def text_bounds(
    costs: Array32, a: Array, masses: Array, starts: NDArray[np.int64], potentials: Array
) -> NDArray[np.float64]:
    """Dual bounds of all texts of a block, best over the potentials; minus infinity where float32 gave up."""
    best = np.full(len(starts), -np.inf)
    with np.errstate(all="ignore"):
        for row in potentials:
            u = row.astype(np.float32)  # any u bounds, so its rounding costs nothing as long as it is the same below
            reduced = (costs - u[:, None]).min(axis=0)
            values = np.add.reduceat(masses * reduced, starts) + float(a @ u.astype(np.float64))
            size = float(np.abs(u).max()) + float(np.abs(costs).max(initial=0.0))
            values -= 4 * UNIT * size if math.isfinite(size) else math.inf
            np.maximum(best, np.where(np.isnan(values), -np.inf, values), out=best)
    return best
