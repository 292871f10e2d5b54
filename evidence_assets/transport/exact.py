"""Exact optimal transport between two measures: value, plan and strongest token pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evidence_assets.models.inference import single_threaded_blas
from evidence_assets.models.vectors import Array

from .ground_cost import CostLike, get_ground_cost
from .measure import TokenMeasure

# POT stops with a warning after this many pivots; problems here need a few thousand.
MAX_PIVOTS = 10_000_000


@dataclass(frozen=True)
class Solution:
    """Value, plan (n × m) and dual potential of the first measure (n; NaN for tokens without mass)."""

    value: float
    plan: Array
    potential: Array


@dataclass(frozen=True)
class TokenPair:
    """One cell of a plan: two tokens, the mass moved between them and the cost per unit."""

    source: int
    target: int
    mass: float
    cost: float


def solve_transport(a: Array, b: Array, costs: Array) -> Solution:
    r"""Solve :math:`\min_{T \ge 0} \langle C, T \rangle,\ T\mathbf 1 = a,\ T^\top \mathbf 1 = b` by network simplex.

    Tokens without mass are excluded, which does not change the value.
    """
    import ot  # takes half a second, which loading definitions must not

    keep_a, keep_b = a > 0, b > 0
    has_full_support = bool(keep_a.all() and keep_b.all())
    if not has_full_support:
        a, b, costs, shape = a[keep_a], b[keep_b], costs[np.ix_(keep_a, keep_b)], costs.shape
    # the division makes the masses equal, so POT need not check them
    plan, log = ot.emd(
        a / a.sum(), b / b.sum(), np.ascontiguousarray(costs), numItermax=MAX_PIVOTS, log=True, check_marginals=False
    )
    if log["warning"]:
        raise ArithmeticError(f"POT did not solve the transport problem: {log['warning']}")
    if has_full_support:
        return Solution(float(log["cost"]), plan, log["u"])
    full_plan = np.zeros(shape)
    full_plan[np.ix_(keep_a, keep_b)] = plan
    potential = np.full(len(keep_a), np.nan)
    potential[keep_a] = log["u"]
    return Solution(float(log["cost"]), full_plan, potential)


def find_strongest_pairs(x: TokenMeasure, y: TokenMeasure, cost: CostLike = "jsd", limit: int = 10) -> list[TokenPair]:
    """Cells of the optimal plan with mass, sorted by descending mass, then by cost and position."""
    with single_threaded_blas():
        costs = get_ground_cost(cost).matrix(x.points, y.points)
    return strongest_pairs(solve_transport(x.masses, y.masses, costs).plan, costs, limit)


def strongest_pairs(plan: Array, costs: Array, limit: int) -> list[TokenPair]:
    """Cells of a plan with mass, sorted by descending mass, then by cost and position."""
    sources, targets = np.nonzero(plan > 0)
    mass, unit_cost = plan[sources, targets], costs[sources, targets]
    # rounded, so that masses that differ by the solver's rounding are ties
    order = np.lexsort((targets, sources, unit_cost.round(12), -mass.round(12)))[:limit]
    return [TokenPair(int(sources[i]), int(targets[i]), float(mass[i]), float(unit_cost[i])) for i in order]
