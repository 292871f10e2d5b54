"""Dagster components for the YAML in ``defs``; an ablation or a new benchmark needs no Python."""
