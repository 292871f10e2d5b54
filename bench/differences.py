"""How benches print a paired difference."""

from __future__ import annotations

from evidence_assets.experiment.scores.metrics import Estimate


def format_difference(d: Estimate, spec: str = "+.3f") -> str:
    """The difference with its interval; ``spec``: the format of each number."""
    return f"{d.value:{spec}} ({d.low:{spec}} to {d.high:{spec}})"
