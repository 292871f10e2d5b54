"""YAML declarations of components, read without Dagster.

Declarations are in the package's ``defs``, in the lake's ``declarations``, where the command line writes them, and in
the project's ``declarations``. So one installation serves many lakes, and a shared lake includes its declarations.
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
from evidence_assets.lake.catalogue import DECLARATIONS_FOLDER, find_lake, project_folder
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import parse_yaml_file
from evidence_assets.lake.mirror import fetch_folder

Model = TypeVar("Model", bound=BaseModel)
PACKAGE_DEFS = Path(__file__).resolve().parent.parent / "defs"


@dataclass(frozen=True)
class Declaration:
    """One YAML document: a component and its attributes."""

    file: Path
    type: str
    attributes: dict[str, Any]

    @property
    def component(self) -> str:
        """Name of the component's class."""
        return self.type.rpartition(".")[2]


def user_folders(lake: Path | None = None) -> tuple[Path, ...]:
    """The folders of users' declarations: the lake's and the project's."""
    return (lake or find_lake()) / DECLARATIONS_FOLDER, project_folder() / DECLARATIONS_FOLDER


@lru_cache
def declarations(folder: Path | None = None) -> tuple[Declaration, ...]:
    """Read every document below ``folder``, in file order; by default those of package, lake and project."""
    folders = (PACKAGE_DEFS, *user_folders()) if folder is None else (folder,)
    return tuple(document for directory in folders for document in _read_folder(directory))


def _read_folder(folder: Path) -> Iterator[Declaration]:
    for path in sorted(fetch_folder(folder).rglob("*.yaml")):
        for document in parse_yaml_file(path, lambda text: [d for d in yaml.safe_load_all(text) if d]):
            if not isinstance(document, dict):
                raise BadInput("every document must be a mapping with a type and attributes", file=path)
            attributes = document.get("attributes") or {}
            if not isinstance(attributes, dict):
                raise BadInput("is not a mapping", file=path, field="attributes")
            yield Declaration(path, str(document.get("type", "")), attributes)


def validate_attributes(model: type[Model], document: Declaration) -> Model:
    """Validate the attributes of a document; the error names file and field."""
    try:
        return model.model_validate(document.attributes)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadInput(first["msg"], file=document.file, field=".".join(str(key) for key in first["loc"])) from error


def declarations_of(component: str, folder: Path | None = None) -> list[Declaration]:
    """Find the declarations of one component class, such as ``Corpus``."""
    return [document for document in declarations(folder) if document.component == component]


def write_declarations(folder: Path, *entries: tuple[str, dict[str, Any]]) -> None:
    """Write a folder of declarations atomically: components such as ``corpus.Corpus`` with their attributes."""
    documents = [{"type": f"evidence_assets.assets.{name}", "attributes": attributes} for name, attributes in entries]
    with replacing_folder(folder) as temporary:
        text = yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)
        (temporary / "defs.yaml").write_text(text, encoding="utf-8")
    (folder.parent / f".{folder.name}.lock").unlink(missing_ok=True)
    declarations.cache_clear()
