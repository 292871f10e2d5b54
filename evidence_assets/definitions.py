"""Dagster's entry point: loads ``defs``."""

from __future__ import annotations

import warnings
from pathlib import Path

import dagster as dg

# Hide Dagster's beta warnings: partition mappings between dimensions are beta in 1.13.
warnings.filterwarnings("ignore", category=dg.BetaWarning)


@dg.definitions
def defs() -> dg.Definitions:
    """All definitions below ``defs``."""
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
