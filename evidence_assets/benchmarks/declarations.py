"""What YAML below ``defs`` declares, read without Dagster: for questions that come before or without loading the graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

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


def instances(component: str, folder: Path = DEFS) -> list[Declaration]:
    """Declared instances of one component class, such as ``Corpus``."""
    return [declared for declared in declarations(folder) if declared.component == component]
