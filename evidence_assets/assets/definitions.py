"""Load all definitions of the package, the lake and the project."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from evidence_assets import defs as package_defs
from evidence_assets.lake.errors import BadInput


def load_definitions() -> dg.Definitions:
    """All definitions below ``defs``, wherever the package is installed.

    A user's error is raised as it is: Dagster buries it in a tree of all components.
    """
    try:
        return dg.ComponentTree.from_module(package_defs, Path(package_defs.__path__[0]).parent).build_defs()
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, BadInput):
            cause = cause.__cause__
        if cause is None:
            raise
        raise cause from None
