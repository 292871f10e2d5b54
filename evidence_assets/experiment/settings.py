"""Settings of methods: dataclasses that are the only list of parameters, filled from what YAML states.

A key that no field bears is refused with its nearest neighbour, a value that does not fit with the field's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from evidence_assets.lake.errors import BadInput
from evidence_assets.text.nearest import nearest

S = TypeVar("S")


def parameter_names(settings: type[Any]) -> list[str]:
    return [f.name for f in fields(settings) if f.init] if is_dataclass(settings) else []


def read_settings(
    settings: type[S], stated: Mapping[str, Any], *, where: str, file: Path | None = None, defaults: Mapping[str, Any]
) -> S:
    """Settings of this type with ``stated`` values over the ``defaults`` of a profile.

    Raises BadInput if a name is none of its fields, or a value does not fit; ``where`` says whose settings they are.
    """
    known = parameter_names(settings)
    for name in stated:
        if name not in known:
            meant = f"did you mean {nearest(name, known)!r}? It has {', '.join(known)}" if known else "it has none"
            raise BadInput(f"{where} has no parameter {name!r}; {meant}", file=file, field=name)
    try:
        return TypeAdapter(settings).validate_python({**defaults, **stated})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"{where}: {first['msg']}", file=file, field=field or None) from error
