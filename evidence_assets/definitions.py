"""The door Dagster enters by: loads ``defs``, nothing else."""

from __future__ import annotations

import warnings
from pathlib import Path

import dagster as dg

# Partition mappings between dimensions are marked beta in 1.13; users should not be told at every start.
warnings.filterwarnings("ignore", category=dg.BetaWarning)


@dg.definitions
def defs() -> dg.Definitions:
    """Everything below ``defs``."""
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
