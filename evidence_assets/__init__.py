"""evidence_assets: evidence-based reasoning as software-defined data assets.

``evidence_assets.definitions`` is the door Dagster enters by, ``evidence_assets.cli`` the one for people, and
``evidence_assets.lake.table(name)`` the one for notebooks.
"""

__version__ = "0.2.0"
