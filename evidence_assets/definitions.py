"""The door Dagster enters by: loads ``defs``, nothing else."""

from __future__ import annotations

from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    """Everything below ``defs``."""
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
