"""One package a published system: its settings, its stages under the numbers of the paper, its variants.

Nothing here knows Dagster; what two systems share belongs in ``experiment`` or below.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from evidence_assets.experiment.system import System
from evidence_assets.experiment.variants import FILE, SYSTEMS


def names() -> list[str]:
    """The systems that there are: packages with a file of variants."""
    return sorted(file.parent.name for file in SYSTEMS.glob(f"*/{FILE}"))


@cache
def load(name: str) -> System:
    """The system of this name; its package says ``SYSTEM`` in ``methods``."""
    system: System = import_module(f"{__name__}.{name}.methods").SYSTEM
    return system
