"""Table schemas, declared in one YAML file per group of tables.

A column is ``name: [type, description]``, with ``nullable`` as a third item if it may be null. A type is a key of
``TYPES``, ``[type]`` for a list or ``{name: type}`` for a struct."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from evidence_assets.lake.input_files import read_yaml_mapping

GROUPS = ("corpus", "knowledge", "questions", "answers", "ledger")
TYPES = {
    "string": pa.string(),
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}


@dataclass(frozen=True)
class TableSchema:
    """One table of the lake.

    ``key`` is unique within an asset and partition, and rows are sorted by it. ``row_id`` is the column that identifies
    a row in lineage; the column ``version_column`` changes whenever the row's content does.
    """

    name: str
    description: str
    arrow: pa.Schema
    """Its columns, each with its ``description`` as metadata."""
    key: tuple[str, ...]
    row_id: str
    version_column: str
    kind: str = ""
    """Kind of its rows in lineage."""
    display: tuple[str, ...] = ()
    """Columns that a trace shows; rows of tables without them are not found by their id."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.arrow.names)


def _type(spec: Any) -> pa.DataType:
    if isinstance(spec, list):
        return pa.list_(_type(spec[0]))
    if isinstance(spec, dict):
        return pa.struct([pa.field(name, _type(field_spec)) for name, field_spec in spec.items()])
    return TYPES[spec]


def _load_schemas() -> Iterator[TableSchema]:
    for group in GROUPS:
        for name, table in read_yaml_mapping(Path(__file__).with_name(f"{group}.yaml")).items():
            columns = [
                pa.field(column, _type(type_), bool(nullable), {"description": description})
                for column, (type_, description, *nullable) in table["columns"].items()
            ]
            row_id = table["row_id"]
            yield TableSchema(
                name,
                description=table["about"],
                arrow=pa.schema(columns),
                key=tuple(table["key"].split()),
                row_id=row_id,
                version_column=table.get("version", row_id),
                kind=table["kind"],
                display=tuple(table.get("display", "").split()),
            )


TABLES: dict[str, TableSchema] = {table.name: table for table in _load_schemas()}
KINDS: dict[str, TableSchema] = {table.kind: table for table in TABLES.values()}
