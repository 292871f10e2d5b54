"""What a column and a table are, and the types that several tables share.

What stands in a table is declared beside: one module a group of tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

TEXT = pa.string()
INT = pa.int32()
REAL = pa.float64()
FLAG = pa.bool_()
TEXTS = pa.list_(TEXT)
REALS = pa.list_(REAL)
NULL = True
"""Fourth in a column's line: it may be empty."""


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
    people and lineage name a row; ``version`` the column that changes whenever the row's content does (the id itself
    where ids are content hashes).
    """

    name: str
    description: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    row_id: str
    version: str = ""
    kind: str = ""
    """What lineage calls a row of it."""

    @property
    def arrow(self) -> pa.Schema:
        return pa.schema(
            [
                pa.field(c.name, c.type, nullable=c.nullable, metadata={"description": c.description})
                for c in self.columns
            ]
        )

    @property
    def version_column(self) -> str:
        return self.version or self.row_id

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)


def declared(
    name: str,
    description: str,
    columns: list[tuple[object, ...]],
    *,
    key: str,
    row_id: str,
    version: str = "",
    kind: str,
) -> TableSchema:
    """A table from lines of name, type, sentence and, where the column may be empty, ``NULL``."""
    typed = tuple(
        Column(str(c[0]), c[1], str(c[2]), nullable=len(c) > 3 and bool(c[3]))  # type: ignore[arg-type]
        for c in columns
    )
    return TableSchema(name, description, typed, tuple(key.split()), row_id, version, kind)
