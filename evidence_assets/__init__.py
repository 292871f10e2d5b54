"""evidence_assets: evidence-based reasoning as software-defined data assets.

Entry points: ``evidence_assets.definitions`` for Dagster, ``evidence_assets.cli`` for the command line, and
``evidence_assets.lake.table(name)`` for notebooks.
"""

__version__ = "0.2.0"
