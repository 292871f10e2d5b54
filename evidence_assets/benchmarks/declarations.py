"""What YAML below ``defs`` declares, read without Dagster: for questions that come before or without loading the graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import yaml_of

Model = TypeVar("Model", bound=BaseModel)
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
        for document in yaml_of(path, lambda text: [d for d in yaml.safe_load_all(text) if d]):
            if not isinstance(document, dict):
                raise BadInput("must hold mappings, each with a type and attributes", file=path)
            attributes = document.get("attributes") or {}
            if not isinstance(attributes, dict):
                raise BadInput("is no mapping", file=path, field="attributes")
            yield Declaration(path, str(document.get("type", "")), attributes)


def validated(model: type[Model], document: Declaration) -> Model:
    """The attributes of a document as what they declare; what is wrong with one is named by file and field."""
    try:
        return model.model_validate(document.attributes)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadInput(first["msg"], file=document.file, field=".".join(str(p) for p in first["loc"])) from error


def instances(component: str, folder: Path = DEFS) -> list[Declaration]:
    """Declared instances of one component class, such as ``Corpus``."""
    return [declared for declared in declarations(folder) if declared.component == component]
