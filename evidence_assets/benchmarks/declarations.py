"""What YAML declares, read without Dagster.

Declarations are below the package's ``defs``, and below the lake's ``declarations``, where the command line writes
them: one installation serves many lakes, and whoever shares a lake shares what it is made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import parse_yaml_file
from evidence_assets.lake.mirror import fetch_folder

Model = TypeVar("Model", bound=BaseModel)
PACKAGE_DEFS = Path(__file__).resolve().parent.parent / "defs"
DECLARATIONS_FOLDER = "declarations"
"""Folder of the lake's own declarations."""


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
def declarations(folder: Path | None = None) -> tuple[Declaration, ...]:
    """Every document below ``folder``, in the order of the files; by default the package's and the lake's own."""
    places = (PACKAGE_DEFS, find_lake() / DECLARATIONS_FOLDER) if folder is None else (folder,)
    return tuple(document for place in places for document in _read_folder(place))


def _read_folder(folder: Path) -> Iterator[Declaration]:
    for path in sorted(fetch_folder(folder).rglob("*.yaml")):
        for document in parse_yaml_file(path, lambda text: [d for d in yaml.safe_load_all(text) if d]):
            if not isinstance(document, dict):
                raise BadInput("must hold mappings, each with a type and attributes", file=path)
            attributes = document.get("attributes") or {}
            if not isinstance(attributes, dict):
                raise BadInput("is no mapping", file=path, field="attributes")
            yield Declaration(path, str(document.get("type", "")), attributes)


def validate_attributes(model: type[Model], document: Declaration) -> Model:
    """The attributes of a document as what they declare; what is wrong with one is named by file and field."""
    try:
        return model.model_validate(document.attributes)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadInput(first["msg"], file=document.file, field=".".join(str(p) for p in first["loc"])) from error


def declarations_of(component: str, folder: Path | None = None) -> list[Declaration]:
    """Declared instances of one component class, such as ``Corpus``."""
    return [declared for declared in declarations(folder) if declared.component == component]


def write_declarations(place: Path, *components: tuple[str, dict[str, Any]]) -> None:
    """Write a folder of declarations, whole: each a component such as ``corpus.Corpus`` with its attributes."""
    documents = [{"type": f"evidence_assets.assets.{name}", "attributes": stated} for name, stated in components]
    with replacing_folder(place) as temporary:
        text = yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)
        (temporary / "defs.yaml").write_text(text, encoding="utf-8")
    (place.parent / f".{place.name}.lock").unlink(missing_ok=True)
    declarations.cache_clear()
