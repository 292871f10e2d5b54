"""Exact optimal transport between two measures: value, plan and potential."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evidence_assets.models.vectors import Array

# POT stops with a warning after this many pivots; problems here need a few thousand.
MAX_PIVOTS = 10_000_000


@dataclass(frozen=True)
class Solution:
    """Value, plan (n × m) and dual potential of the first measure (n; NaN for tokens without mass)."""

    value: float
    plan: Array
    potential: Array


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
