"""Exact optimal transport between two measures: value, plan and potential."""

from __future__ import annotations

from dataclasses import dataclass

from evidence_assets.models.vectors import Array

# POT stops with a warning after this many pivots; problems here need a few thousand.
MAX_PIVOTS = 10_000_000


@dataclass(frozen=True)
class Solution:
    """Value, plan (n × m) and dual potential of the first measure (n)."""

    value: float
    plan: Array
    potential: Array


def solve_transport(a: Array, b: Array, costs: Array) -> Solution:
    r"""Solve :math:`\min_{T \ge 0} \langle C, T \rangle,\ T\mathbf 1 = a,\ T^\top \mathbf 1 = b` by network simplex.

    Masses are positive; POT scales ``b`` to the sum of ``a``.
    """
    import ot  # takes half a second, which loading definitions must not

    # checks of the sums and centred potentials would take a fifth of the time
    plan, log = ot.emd(a, b, costs, numItermax=MAX_PIVOTS, log=True, check_marginals=False, center_dual=False)
    if log["warning"]:
        raise ArithmeticError(f"POT did not solve the transport problem: {log['warning']}")
    return Solution(float(log["cost"]), plan, log["u"])
