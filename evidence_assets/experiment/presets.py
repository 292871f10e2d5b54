"""The experiment matrix: presets named after the published tables, and which of them are opted in.

A variant that names no preset is always there. One that names some is loaded where one of them is opted in: by the
environment variable EVIDENCE_PRESETS (names with commas between, or ``all``) or by the profile's ``presets``. So the
default graph stays small, and a published table is one setting and one backfill. Knows nothing of Dagster.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from evidence_assets import profiles
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import yaml_mapping
from evidence_assets.profiles import Kind
from evidence_assets.text.nearest import nearest

VARIABLE = "EVIDENCE_PRESETS"
ALL = "all"
Models = dict[Kind, Literal["all"] | tuple[str, ...]]
"""Which models of each kind: all that the profile names, or some of them."""
FILE = Path(__file__).with_name("presets.yaml")


class Preset(BaseModel):
    """A published table, or several read together, as variants and benchmarks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    about: str
    tables: tuple[str, ...] = ()
    """Tables of which its variants fill cells, by document and number, as ``thesis 7.5``."""
    beside: tuple[str, ...] = ()
    """Tables that its results are read beside, without a printed cell of their own."""
    benchmarks: tuple[str, ...] = ()
    """Benchmarks of the table; none where it is not about questions."""
    relations: int = 0
    """Relations of the table, where it is about harvests."""
    models: Models = {}
    """Models that its variants are crossed with, each that works with one of the kind; the profile's first where none."""


@lru_cache
def presets(file: Path = FILE) -> dict[str, Preset]:
    stated = yaml_mapping(file)
    try:
        return {name: Preset(name=name, **fields) for name, fields in stated.items()}
    except (TypeError, ValidationError) as error:
        raise BadInput(f"a preset is not as it should be: {error}", file=file) from error


def known(names: Iterable[str], stated_in: str) -> frozenset[str]:
    """The names as a set; one that is no preset is refused with its nearest neighbour."""
    found = frozenset(names)
    for name in sorted(found - presets().keys()):
        near = nearest(name, presets())
        raise BadInput(
            f"there is no preset {name!r}; did you mean {near!r}? `evidence presets` lists them", field=stated_in
        )
    return found


def opted_in() -> frozenset[str]:
    """The presets that the environment and the profile in use ask for."""
    stated = {name.strip() for name in os.environ.get(VARIABLE, "").split(",")} - {""}
    asked = {VARIABLE: stated, "presets": set(profiles.load().presets)}
    found: frozenset[str] = frozenset()
    for place, names in asked.items():
        found |= frozenset(presets()) if ALL in names else known(names, place)
    return found


def crossed_with(own: Models, named: Sequence[str], opted: frozenset[str]) -> dict[Kind, list[str]]:
    """The models by kind that a variant of these presets is crossed with: its own, else those of its opted-in presets.

    One that another packaged profile names and this one does not is left out: the paper's encoder on a laptop.
    """
    stated = {k: v for name in reversed(named) if name in opted for k, v in presets()[name].models.items()} | own
    profile = profiles.load()
    return {
        kind: profile.names(kind) if names == "all" else _there(profile, kind, names) or profile.names(kind)[:1]
        for kind, names in stated.items()
    }


def _there(profile: profiles.Profile, kind: Kind, names: Sequence[str]) -> list[str]:
    elsewhere = {name for other in profiles.available() for name in profiles.load(other).names(kind)}
    return [profile.known(kind, n) for n in names if n in profile.names(kind) or n not in elsewhere]


def is_loaded(named: Iterable[str], always: bool = False) -> bool:
    """Whether a variant that names these presets is part of the graph."""
    own = known(named, "presets")
    return always or not own or bool(own & opted_in())
