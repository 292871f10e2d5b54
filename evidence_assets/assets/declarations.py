"""What YAML below ``defs`` declares, read without Dagster: for questions that come before or without loading the graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from evidence_assets.assets.presets import is_loaded
from evidence_assets.lake.errors import BadInput

DEFS = Path(__file__).resolve().parent.parent / "defs"


@dataclass(frozen=True)
class Declaration:
    """One YAML document: a component with its attributes."""

    file: Path
    type: str
    attributes: dict[str, Any]

    @property
    def component(self) -> str:
        """Name of the component's class."""
        return self.type.rpartition(".")[2]

    @property
    def place(self) -> str:
        """Family and name, as they stand in asset keys."""
        return "/".join(str(self.attributes[field]) for field in ("family", "name") if self.attributes.get(field))

    @property
    def presets(self) -> tuple[str, ...]:
        return tuple(self.attributes.get("presets") or ())

    @property
    def loaded(self) -> bool:
        """Whether it is part of the graph with the presets that are opted in."""
        return is_loaded(self.presets, bool(self.attributes.get("always")))


@lru_cache
def declarations(folder: Path = DEFS) -> tuple[Declaration, ...]:
    """Every document below ``folder``, in the order of the files."""
    return tuple(_read(folder))


def _read(folder: Path) -> Iterator[Declaration]:
    for path in sorted(folder.rglob("*.yaml")):
        try:
            documents = [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]
        except yaml.YAMLError as error:
            raise BadInput(f"not readable as YAML: {error}", file=path) from error
        for document in documents:
            attributes = document.get("attributes") or {}
            if not isinstance(attributes, dict):
                raise BadInput("is no mapping", file=path, field="attributes")
            yield Declaration(path, str(document.get("type", "")), attributes)


def variants(component: str, folder: Path = DEFS) -> list[Declaration]:
    """Declared variants of one component class, such as ``Reasoner``, loaded or not."""
    return [declared for declared in declarations(folder) if declared.component == component]


def selector_left_out(family: str, name: str) -> bool:
    """Whether a selector is declared but not loaded, so that its reasoners would wait for rows that nobody makes."""
    found = [s for s in variants("Selector") if s.place == f"{family}/{name}"]
    return bool(found) and not any(s.loaded for s in found)
