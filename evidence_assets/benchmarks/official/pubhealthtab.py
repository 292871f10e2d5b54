"""PubHealthTab: claims about public health against web tables, one JSON object a line.

Fields: ``claim``, ``label``, and ``table`` with ``rows``, ``caption``, ``header_horizontal`` (names of the columns) and
``header_vertical`` (names of the rows). Tables may lack either header, and may be empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.official.table_fields import cell_row, cell_rows, claim_label, claims_alone, with_tables
from evidence_assets.benchmarks.reading import Row
from evidence_assets.benchmarks.reading_json import jsonl
from evidence_assets.benchmarks.records import CLAIM_LABELS, Question, Table

BENCHMARK = "pubhealthtab"


def _rows(path: Path, split: str) -> Iterator[tuple[Row, Question, Table]]:
    for row in jsonl(path):
        claim, label, source = row.text("claim"), claim_label(row), row.row("table")
        source_id = str(row.values.get("_id", row.values.get("id", row.line)))
        table_id = str(source.values.get("_id", source.values.get("id", f"table-{source_id}")))
        rows = cell_rows(source, "rows") if source.values.get("rows") else ()
        across, down = (
            cell_row(source, name) if source.values.get(name) else ()
            for name in ("header_horizontal", "header_vertical")
        )
        if (
            any(down)
            and len(down) == len(rows)
            and any(not cells or cells[0] != name for name, cells in zip(down, rows, strict=True))
        ):
            # The row names stand beside the rows, not in them: they become the first column.
            rows = tuple((name, *cells) for name, cells in zip(down, rows, strict=True))
            across = ("", *across) if across and len(across) < max(map(len, rows)) else across
        if rows and across == rows[0]:
            rows = rows[1:]
        table = Table(BENCHMARK, table_id, source.text_or_none("caption") or "", across, rows)
        yield row, Question(BENCHMARK, source_id, split, "verification", claim, CLAIM_LABELS, (label,), table_id), table


READERS = {BENCHMARK: claims_alone(_rows)}
PAIRS = {BENCHMARK: with_tables(BENCHMARK, _rows)}
