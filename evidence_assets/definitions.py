"""Dagster's entry point: ``defs``.

Dagster asks a process of a run for its definitions twice, and would call a function that returns them each time. As a
value they are loaded once, on import; other code calls ``load_definitions``.
"""

from evidence_assets.assets.definitions import load_definitions

defs = load_definitions()
