"""The published systems, one package each, with settings, stages and variants.

Systems do not import Dagster. Code shared by two systems belongs in ``experiment`` or below.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from evidence_assets.experiment.methods import AnyMethod, Method
from evidence_assets.experiment.variants import SYSTEMS_FOLDER, VARIANTS_FILE, Variant, variants
from evidence_assets.lake.errors import BadInput
from evidence_assets.reasoning.model_calls import PROMPTED_TASKS, REPAIR
from evidence_assets.reasoning.templates import Template
from evidence_assets.text.spelling import did_you_mean


def list_systems() -> list[str]:
    """Names of all systems: packages with a file of variants."""
    return sorted(file.parent.name for file in SYSTEMS_FOLDER.glob(f"*/{VARIANTS_FILE}"))


@cache
def method_classes(system: str) -> dict[str, type[AnyMethod]]:
    """The methods of a system by name: the classes that the module ``system`` of its package defines."""
    module = import_module(f"{__name__}.{system}.system")
    members = [member for member in vars(module).values() if isinstance(member, type)]
    defined = [member for member in members if member.__module__ == module.__name__]
    return {member.name: member for member in defined if issubclass(member, Method) and hasattr(member, "name")}


def open_method(variant: Variant) -> AnyMethod:
    """The method of a variant with its settings."""
    classes = method_classes(variant.system)
    name = variant.method or variant.system
    if name not in classes:
        raise BadInput(
            f"variant {variant.key}: there is no method {name!r}{did_you_mean(name, classes)}",
            file=SYSTEMS_FOLDER / variant.system / VARIANTS_FILE,
            field="method",
        )
    return classes[name](variant)


def find_method(key: str) -> AnyMethod:
    """The method of the variant ``family/name``, with its settings in the current profile."""
    return open_method(next(variant for variant in variants() if variant.key == key))


def load_templates() -> list[Template]:
    """Prompt templates of all systems."""
    for name in list_systems():
        method_classes(name)
    return [REPAIR, *(template for task in PROMPTED_TASKS.values() for template in task.templates)]
