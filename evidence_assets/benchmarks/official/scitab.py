"""SCITAB: claims about tables of scientific papers, in one JSON array (``sci_tab.json``).

Fields: ``claim``, ``label`` (supports, refutes, not enough info), ``table_id``, ``table_caption``,
``table_column_names`` and ``table_content_values``. Cells keep their marks such as ``[BOLD]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.official.table_fields import cell_row, cell_rows, claim_label, claims_alone, with_tables
from evidence_assets.benchmarks.reading import Row
from evidence_assets.benchmarks.reading_json import json_rows
from evidence_assets.benchmarks.records import CLAIM_LABELS, Question, Table

BENCHMARK = "scitab"


def _rows(path: Path, split: str) -> Iterator[tuple[Row, Question, Table]]:
    for row in json_rows(path):
        claim, table_id, label = row.text("claim"), row.text("table_id"), claim_label(row)
        header, rows = cell_row(row, "table_column_names"), cell_rows(row, "table_content_values")
        table = Table(BENCHMARK, table_id, row.text_or_none("table_caption") or "", header, rows)
        source_id = str(row.values.get("id") or row.line)
        yield row, Question(BENCHMARK, source_id, split, "verification", claim, CLAIM_LABELS, (label,), table_id), table


READERS = {BENCHMARK: claims_alone(_rows)}
PAIRS = {BENCHMARK: with_tables(BENCHMARK, _rows)}
