"""One package a published system: its settings, its stages under the numbers of the paper, its variants.

Nothing here knows Dagster; what two systems share belongs in ``experiment`` or below.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from evidence_assets.experiment.system import System
from evidence_assets.experiment.variants import SYSTEMS_FOLDER, VARIANTS_FILE, variants
from evidence_assets.reasoning.model_calls import PROMPTED_TASKS, REPAIR
from evidence_assets.reasoning.templates import Template


def list_systems() -> list[str]:
    """The systems that there are: packages with a file of variants."""
    return sorted(file.parent.name for file in SYSTEMS_FOLDER.glob(f"*/{VARIANTS_FILE}"))


@cache
def load(name: str) -> System:
    """The system of this name: ``SYSTEM`` in its package's module ``system``."""
    system: System = import_module(f"{__name__}.{name}.system").SYSTEM
    return system


def load_templates() -> list[Template]:
    for name in list_systems():
        load(name)
    return [REPAIR, *(template for task in PROMPTED_TASKS.values() for template in task.templates)]


def load_settings(place: str) -> Any:
    """The settings of the variant ``family/name`` in the profile in use."""
    variant = next(variant for variant in variants() if variant.key == place)
    return load(variant.system).method_of(variant).settings_of(variant)
