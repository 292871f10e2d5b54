"""TabFact: statements about Wikipedia tables, entailed or refuted.

Layout: a JSON object ``{table file: [[statements], [labels], caption]}`` with 1 for entailed and 0 for refuted, and the
tables as ``#``-separated files in a folder (``all_csv`` in the official release), the first row being the header.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence_assets.datasets.reading import delimited
from evidence_assets.datasets.reading_json import json_items
from evidence_assets.datasets.records import CLAIM_LABELS, Question, Table
from evidence_assets.lake.errors import BadInput

BENCHMARK = "tabfact"


def read(path: Path, tables: Path, split: str = "all") -> Iterator[tuple[Question, Table]]:
    """Statements in file order, each with its table; a table is read once for all of its statements."""
    some = False
    for line, table_id, entry in json_items(path):
        some = True
        if not table_id:
            raise BadInput("should be a JSON object from table files to statements", file=path, line=line)
        statements, labels, caption = _entry(entry, path, table_id)
        table = _table(tables / table_id, table_id, caption)
        for number, (statement, label) in enumerate(zip(statements, labels, strict=True)):
            if label not in (0, 1):
                raise BadInput(f"statement {number} of {table_id} has label {label!r}, not 0 or 1", file=path)
            gold = "SUPPORTS" if label == 1 else "REFUTES"
            source_id = f"{table_id}#{number}"
            yield (
                Question(BENCHMARK, source_id, split, "verification", statement, CLAIM_LABELS, (gold,), table_id),
                table,
            )
    if not some:
        raise BadInput("holds no statement; it should be a JSON object from table files to statements", file=path)


def _entry(entry: Any, path: Path, table_id: str) -> tuple[list[str], list[int], str]:
    shape_fits = isinstance(entry, list) and len(entry) >= 2 and all(isinstance(part, list) for part in entry[:2])
    if not shape_fits or len(entry[0]) != len(entry[1]):
        raise BadInput("should be [[statements], [labels], caption], one label a statement", file=path, field=table_id)
    return [str(statement) for statement in entry[0]], entry[1], str(entry[2]) if len(entry) > 2 else ""


def _table(path: Path, table_id: str, caption: str) -> Table:
    if not path.is_file():
        raise BadInput("is named by the statements but is not there", file=path)
    rows = [tuple(row) for _, row in delimited(path, "#", blank=True)]
    return Table(BENCHMARK, table_id, caption, rows[0] if rows else (), tuple(rows[1:]))
