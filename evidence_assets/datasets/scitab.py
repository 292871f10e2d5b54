"""SCITAB: claims about tables of scientific papers, in one JSON array (``sci_tab.json``).

Fields: ``claim``, ``label`` (supports, refutes, not enough info), ``table_id``, ``table_caption``,
``table_column_names`` and ``table_content_values``. Cells keep their marks such as ``[BOLD]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.datasets.reading_json import json_rows
from evidence_assets.datasets.records import CLAIM_LABELS, Question, Table
from evidence_assets.datasets.table_fields import cell_row, cell_rows, claim_label
from evidence_assets.lake.errors import BadInput

BENCHMARK = "scitab"


def read(path: Path, split: str = "all") -> Iterator[tuple[Question, Table]]:
    """Claims in file order, each with its table; claims about one table share its ``table_id``."""
    some = False
    for row in json_rows(path):
        some = True
        claim, table_id, label = row.text("claim"), row.text("table_id"), claim_label(row)
        header, rows = cell_row(row, "table_column_names"), cell_rows(row, "table_content_values")
        table = Table(BENCHMARK, table_id, row.text_or_none("table_caption") or "", header, rows)
        source_id = str(row.values.get("id") or row.line)
        yield Question(BENCHMARK, source_id, split, "verification", claim, CLAIM_LABELS, (label,), table_id), table
    if not some:
        raise BadInput("holds no claim; it should be a JSON array of claims", file=path, line=1)
