"""Dagster components that YAML in ``defs`` instantiates, so that an ablation or a new benchmark is YAML, not Python."""
