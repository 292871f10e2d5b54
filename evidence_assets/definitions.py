"""Dagster's entry point: loads ``defs``."""

from __future__ import annotations

import warnings
from pathlib import Path

import dagster as dg

from evidence_assets import defs as package_defs

# Hide Dagster's warnings of features that are beta or in preview in 1.13: partition mappings between dimensions, and
# partitions of a check.
for category in (dg.BetaWarning, dg.PreviewWarning):
    warnings.filterwarnings("ignore", category=category)


@dg.definitions
def defs() -> dg.Definitions:
    """All definitions below ``defs``, wherever the package is installed."""
    return dg.ComponentTree.from_module(package_defs, Path(__file__).parent).build_defs()
