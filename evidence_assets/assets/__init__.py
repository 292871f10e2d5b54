"""Dagster components for the YAML in ``defs``; an ablation or a new benchmark needs no Python."""

import warnings

# Hide Dagster's warnings of features that are beta or in preview in 1.13: partition mappings between dimensions, and
# partitions of a check. Here and not in ``definitions``, because `dg` imports the components first.
warnings.filterwarnings("ignore", message=".*is currently in (beta|preview)")
