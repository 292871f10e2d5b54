"""Each table's columns with a sentence on each, in a YAML file a group of tables.

A column is ``name: [type, sentence]``, with ``may be empty`` as a third where it may. Types are the words of
``TYPES``, ``[type]`` for a list and ``{name: type}`` for a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

GROUPS = ("corpus", "knowledge", "questions", "answers", "ledger")
TYPES = {
    "text": pa.string(),
    "flag": pa.bool_(),
    "whole": pa.int32(),
    "half": pa.float16(),
    "single": pa.float32(),
    "real": pa.float64(),
}


@dataclass(frozen=True)
class Column:
    """One column: its Arrow type, whether it may be null, and what it means."""

    name: str
    type: pa.DataType
    description: str
    nullable: bool = False


@dataclass(frozen=True)
class TableSchema:
    """One table of the lake.

    ``key`` is unique within an asset and partition, and rows are sorted by it. ``row_id`` is the column by which
    people and lineage name a row; ``version`` changes whenever the row's content does.
    """

    name: str
    description: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    row_id: str
    version: str = ""
    kind: str = ""
    """What lineage calls a row of it."""

    @cached_property
    def arrow(self) -> pa.Schema:
        fields = [pa.field(c.name, c.type, c.nullable, {"description": c.description}) for c in self.columns]
        return pa.schema(fields)

    @property
    def version_column(self) -> str:
        return self.version or self.row_id

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)


def _type(stated: Any) -> pa.DataType:
    if isinstance(stated, list):
        return pa.list_(_type(stated[0]))
    if isinstance(stated, dict):
        return pa.struct([pa.field(name, _type(part)) for name, part in stated.items()])
    return TYPES[stated]


def _declared() -> Iterator[TableSchema]:
    for group in GROUPS:
        text = Path(__file__).with_name(f"{group}.yaml").read_text(encoding="utf-8")
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        tables = yaml.load(text, loader)  # nosec B506
        for name, table in tables.items():
            columns = tuple(
                Column(column, _type(type_), sentence, bool(empty))
                for column, (type_, sentence, *empty) in table["columns"].items()
            )
            key, version = tuple(table["key"].split()), table.get("version", "")
            yield TableSchema(name, table["about"], columns, key, table["row_id"], version, table["kind"])


TABLES: dict[str, TableSchema] = {table.name: table for table in _declared()}
KINDS: dict[str, TableSchema] = {table.kind: table for table in TABLES.values()}
