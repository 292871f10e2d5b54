"""Write ``docs/tables.md``, the data dictionary, from the declared schemas.

    python tools/data_dictionary.py

A test compares the file with what this makes.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from evidence_assets.lake.schemas import TABLES, TableSchema

PLACE = Path(__file__).parents[1] / "docs" / "tables.md"
HEAD = """\
# Tables of the lake

This page is made from the schemas in `evidence_assets/lake/schemas/` by `python tools/data_dictionary.py`; a test says
when it is old. Change a schema there, and this page after it.

Every table is a folder of Parquet files, one folder in it an asset, and a view of the same name in `evidence query` and
`evidence_assets.lake.table(...)`; the views have one more column, `asset`: which asset a row belongs to. Rows are
unique and sorted by the table's key within an asset and partition. A lineage edge names a row by its kind, id and
version; the version is the column that changes whenever what the row says does. Only columns marked *may be empty*
hold nulls.

Lists are written `[text]`, records `{name: text}`. Whole numbers have 32 bits; numbers have 64, those of vectors 32 or
16.

| table | rows | kind in lineage |
|---|---|---|
"""
_NAMES = {
    pa.string(): "text",
    pa.int32(): "whole number",
    pa.float16(): "number",
    pa.float32(): "number",
    pa.float64(): "number",
    pa.bool_(): "yes or no",
}


def type_name(type_: pa.DataType) -> str:
    """An Arrow type in words."""
    if pa.types.is_list(type_):
        return f"[{type_name(type_.value_type)}]"
    if pa.types.is_struct(type_):
        return "{" + ", ".join(f"{part.name}: {type_name(part.type)}" for part in type_) + "}"
    return _NAMES[type_]


def section(schema: TableSchema) -> str:
    """What the dictionary says of one table."""
    lines = [
        f"## {schema.name}",
        "",
        schema.description,
        "",
        f"Key: {', '.join(f'`{name}`' for name in schema.key)}. A row is named by `{schema.row_id}`, its version is "
        f"`{schema.version_column}`.",
        "",
        "| column | type | what it holds |",
        "|---|---|---|",
    ]
    for column in schema.columns:
        empty = "; may be empty" if column.nullable else ""
        description = column.description.replace("|", "\\|").replace("<", "\\<")
        lines.append(f"| `{column.name}` | {type_name(column.type)}{empty} | {description} |")
    return "\n".join(lines)


def dictionary() -> str:
    """The whole page."""
    contents = [f"| [{t.name}](#{t.name}) | {t.description} | {t.kind} |" for t in TABLES.values()]
    return "\n\n".join([HEAD + "\n".join(contents), *map(section, TABLES.values())]) + "\n"


if __name__ == "__main__":
    PLACE.write_text(dictionary(), encoding="utf-8")
