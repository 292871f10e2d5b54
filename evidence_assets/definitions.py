"""Dagster's entry point: loads ``defs``."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from evidence_assets import defs as package_defs


@dg.definitions
def defs() -> dg.Definitions:
    """All definitions below ``defs``, wherever the package is installed."""
    return dg.ComponentTree.from_module(package_defs, Path(__file__).parent).build_defs()
