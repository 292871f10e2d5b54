"""The published systems, one package each, with settings, stages and variants.

Systems do not import Dagster. Code shared by two systems belongs in ``experiment`` or below.
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
    """Names of all systems: packages with a file of variants."""
    return sorted(file.parent.name for file in SYSTEMS_FOLDER.glob(f"*/{VARIANTS_FILE}"))


@cache
def load(name: str) -> System:
    """Load a system by name: ``SYSTEM`` in the module ``system`` of its package."""
    system: System = import_module(f"{__name__}.{name}.system").SYSTEM
    return system


def load_templates() -> list[Template]:
    """Prompt templates of all systems."""
    for name in list_systems():
        load(name)
    return [REPAIR, *(template for task in PROMPTED_TASKS.values() for template in task.templates)]


def load_settings(key: str) -> Any:
    """Settings of the variant ``family/name`` in the current profile."""
    variant = next(variant for variant in variants() if variant.key == key)
    return load(variant.system).method_of(variant).settings_of(variant)
