"""Who reasons: solvers by the name that a reasoner's YAML gives."""

from __future__ import annotations

from evidence_assets.components.models_in_use import encoder
from evidence_assets.components.table_asset import Step
from evidence_assets.reasoning.extractive import ExtractiveSolver
from evidence_assets.reasoning.tasks import Solver


def solver_named(name: str, step: Step) -> Solver:
    """The solver ``name``: ``extractive``, or ``generator`` for the profile's language model."""
    if name == "extractive":
        return ExtractiveSolver(encoder(step.profile.encoder))
    raise ValueError(f"there is no solver {name!r}")
