"""Exact optimal transport between two measures: its value, its plan and the word pairs that carry it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evidence_assets.models.inference import single_threaded_blas
from evidence_assets.models.vectors import Array

from .ground_cost import CostLike, get_ground_cost
from .measure import TokenMeasure

# POT stops early past this many pivots and only warns; problems here need a few thousand.
MAX_PIVOTS = 10_000_000


@dataclass(frozen=True)
class Solution:
    """Value, plan (n × m) and dual potential of the first side (n; NaN where that token has no mass)."""

    value: float
    plan: Array
    potential: Array


@dataclass(frozen=True)
class TokenPair:
    """One cell of a plan: which tokens, how much mass moves between them and at what cost a unit."""

    source: int
    target: int
    mass: float
    cost: float


def solve_transport(a: Array, b: Array, costs: Array) -> Solution:
    r"""Solve :math:`\min_{T \ge 0} \langle C, T \rangle,\ T\mathbf 1 = a,\ T^\top \mathbf 1 = b` by network simplex.

    Tokens without mass are left out of the problem, which does not change its value.
    """
    import ot  # with scipy's statistics half a second, which who only loads definitions need not wait for

    keep_a, keep_b = a > 0, b > 0
    whole = bool(keep_a.all() and keep_b.all())
    if not whole:
        a, b, costs, shape = a[keep_a], b[keep_b], costs[np.ix_(keep_a, keep_b)], costs.shape
    # By the division both sides have equal mass, so that this need not be checked.
    moved, log = ot.emd(
        a / a.sum(), b / b.sum(), np.ascontiguousarray(costs), numItermax=MAX_PIVOTS, log=True, check_marginals=False
    )
    if log["warning"]:
        raise ArithmeticError(f"the transport problem was not solved: {log['warning']}")
    if whole:
        return Solution(float(log["cost"]), moved, log["u"])
    transport = np.zeros(shape)
    transport[np.ix_(keep_a, keep_b)] = moved
    potential = np.full(len(keep_a), np.nan)
    potential[keep_a] = log["u"]
    return Solution(float(log["cost"]), transport, potential)


def find_strongest_pairs(x: TokenMeasure, y: TokenMeasure, cost: CostLike = "jsd", limit: int = 10) -> list[TokenPair]:
    """The cells of the optimal plan that move mass, most mass first, then by cost and by position."""
    with single_threaded_blas():
        costs = get_ground_cost(cost).matrix(x.points, y.points)
    moved = solve_transport(x.masses, y.masses, costs).plan
    sources, targets = np.nonzero(moved > 0)
    mass, price = moved[sources, targets], costs[sources, targets]
    # Twelve digits: two masses that differ by the solver's rounding alone are equal and fall back on cost.
    order = np.lexsort((targets, sources, price.round(12), -mass.round(12)))[:limit]
    return [TokenPair(int(sources[i]), int(targets[i]), float(mass[i]), float(price[i])) for i in order]
