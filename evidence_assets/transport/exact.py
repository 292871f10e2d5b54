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

    has_mass = np.ix_(a > 0, b > 0)
    kept_a, kept_b, kept_costs = a[a > 0], b[b > 0], np.ascontiguousarray(costs[has_mass])
    # the division makes the masses equal, so POT need not check them
    kept_plan, log = ot.emd(
        kept_a / kept_a.sum(), kept_b / kept_b.sum(), kept_costs, numItermax=MAX_PIVOTS, log=True, check_marginals=False
    )
    if log["warning"]:
        raise ArithmeticError(f"POT did not solve the transport problem: {log['warning']}")
    plan, potential = np.zeros(costs.shape), np.full(len(a), np.nan)
    plan[has_mass], potential[a > 0] = kept_plan, log["u"]
    return Solution(float(log["cost"]), plan, potential)
