"""Write ``docs/tables.md``, the data dictionary, from the declared schemas.

    python tools/data_dictionary.py

A test compares the file with the output of this script.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from evidence_assets.lake.schemas import TABLES, TableSchema

PLACE = Path(__file__).parents[1] / "docs" / "tables.md"
HEAD = """\
# Tables of the lake

`python tools/data_dictionary.py` generates this page from the schemas in `evidence_assets/lake/schemas/`. Change a
schema there, then regenerate the page; a test fails if it is out of date.

Every table is a folder of Parquet files with one subfolder per asset. It is also a view of the same name in
`evidence query` and `evidence_assets.lake.table(...)`; views add a column `asset`, the asset that a row belongs to.
Rows are unique and sorted by the table's key within an asset and partition. A lineage edge identifies a row by its
kind, id and version; the version column changes whenever the row's content changes. Only columns marked
*may be empty* can hold nulls.

Lists are written `[text]`, records `{name: text}`. Whole numbers have 32 bits and numbers 64; numbers in vectors have
32 or 16.

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
    """Return an Arrow type in words."""
    if pa.types.is_list(type_):
        return f"[{type_name(type_.value_type)}]"
    if pa.types.is_struct(type_):
        return "{" + ", ".join(f"{field.name}: {type_name(field.type)}" for field in type_) + "}"
    return _NAMES[type_]


def section(schema: TableSchema) -> str:
    """Return the section on one table."""
    lines = [
        f"## {schema.name}",
        "",
        schema.description,
        "",
        f"Key: {', '.join(f'`{name}`' for name in schema.key)}. Row id: `{schema.row_id}`. Version: "
        f"`{schema.version_column}`.",
        "",
        "| column | type | content |",
        "|---|---|---|",
    ]
    for column in schema.arrow:
        empty = "; may be empty" if column.nullable else ""
        description = column.metadata[b"description"].decode().replace("|", "\\|").replace("<", "\\<")
        lines.append(f"| `{column.name}` | {type_name(column.type)}{empty} | {description} |")
    return "\n".join(lines)


def dictionary() -> str:
    """Return the whole page."""
    contents = [f"| [{t.name}](#{t.name}) | {t.description} | {t.kind} |" for t in TABLES.values()]
    return "\n\n".join([HEAD + "\n".join(contents), *map(section, TABLES.values())]) + "\n"


if __name__ == "__main__":
    PLACE.write_text(dictionary(), encoding="utf-8")
