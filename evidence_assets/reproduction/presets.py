"""Presets: variants and benchmarks that reproduce published tables, loaded on request."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from evidence_assets import profiles
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.profiles import ModelKind, StrictModel
from evidence_assets.text.spelling import did_you_mean

PRESETS_VARIABLE = "EVIDENCE_PRESETS"
ALL_PRESETS = "all"
EARLIER_NAMES = {"reader": "confidence"}
"""Names of presets in profiles and settings of earlier releases."""
ModelSelection = dict[ModelKind, Literal["all"] | tuple[str, ...]]
"""Models by kind: all of the profile, or some names."""
PRESETS_FILE = Path(__file__).with_name("presets.yaml")


class Preset(StrictModel):
    """Variants and benchmarks that reproduce one or several published tables; ``confidence`` is that of a command."""

    name: str
    about: str
    tables: tuple[str, ...] = ()
    """Tables with cells that its variants fill, by document and number, such as ``thesis 7.5``."""
    compared_tables: tuple[str, ...] = ()
    """Tables for comparison, without cells for its results."""
    benchmarks: tuple[str, ...] = ()
    """Benchmarks of the table; empty for tables without questions."""
    models: ModelSelection = Field(default_factory=dict)
    """Models to combine with its variants, by kind; by default the profile's first."""

    @property
    def all_tables(self) -> tuple[str, ...]:
        return (*self.tables, *self.compared_tables)


@lru_cache
def presets(file: Path = PRESETS_FILE) -> dict[str, Preset]:
    declarations = read_yaml_mapping(file)
    try:
        return {name: Preset(name=name, **fields) for name, fields in declarations.items()}
    except (TypeError, ValidationError) as error:
        raise BadInput(f"invalid preset: {error}", file=file) from error


def check_preset_names(names: Iterable[str], field: str) -> frozenset[str]:
    """Return the present names as a set; raise BadInput for an unknown name, with the closest preset."""
    preset_names = frozenset(EARLIER_NAMES.get(name, name) for name in names)
    for name in sorted(preset_names - presets().keys()):
        suggestion = did_you_mean(name, presets())
        raise BadInput(f"there is no preset {name!r}{suggestion} `evidence presets` lists them", field=field)
    return preset_names


def enabled_presets() -> frozenset[str]:
    """The presets that the environment variable and the active profile enable."""
    variable_names = {name.strip() for name in os.environ.get(PRESETS_VARIABLE, "").split(",")} - {""}
    names_by_field = {PRESETS_VARIABLE: variable_names, "presets": set(profiles.load().presets)}
    enabled: frozenset[str] = frozenset()
    for field, names in names_by_field.items():
        enabled |= frozenset(presets()) if ALL_PRESETS in names else check_preset_names(names, field)
    return enabled


def is_enabled(preset_names: Iterable[str]) -> bool:
    """Whether one of these presets is enabled, or none is named."""
    names = check_preset_names(preset_names, "presets")
    return not names or bool(names & enabled_presets())
