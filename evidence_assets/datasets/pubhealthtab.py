"""PubHealthTab: claims about public health against web tables, one JSON object a line.

Fields: ``claim``, ``label``, and ``table`` with ``rows``, ``caption``, ``header_horizontal`` (names of the columns) and
``header_vertical`` (names of the rows). Tables may lack either header, and may be empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.datasets.records import CLAIM_LABELS, Question, Table
from evidence_assets.datasets.table_files import cells_of, claim_label, json_lines, required_text
from evidence_assets.lake.errors import BadInput

BENCHMARK = "pubhealthtab"


def read(path: Path, split: str = "all") -> Iterator[tuple[Question, Table]]:
    """Claims in file order, each with its table; without a table id of its own a table is named after its claim."""
    for line, record in json_lines(path):
        claim = required_text(record, "claim", file=path, line=line)
        label = claim_label(record.get("label"), file=path, line=line)
        source = record.get("table")
        if not isinstance(source, dict):
            raise BadInput("is missing or is no object", file=path, line=line, field="table")
        source_id = str(record.get("_id", record.get("id", line)))
        table_id = str(source.get("_id", source.get("id", f"table-{source_id}")))
        rows = cells_of(source.get("rows") or [], file=path, line=line, field="table.rows")
        across, down = (
            cells_of([source.get(name) or []], file=path, line=line, field=f"table.{name}")[0]
            for name in ("header_horizontal", "header_vertical")
        )
        if (
            any(down)
            and len(down) == len(rows)
            and any(not row or row[0] != name for name, row in zip(down, rows, strict=True))
        ):
            # The row names stand beside the rows, not in them: they become the first column.
            rows = tuple((name, *row) for name, row in zip(down, rows, strict=True))
            across = ("", *across) if across and len(across) < max(map(len, rows)) else across
        if rows and across == rows[0]:
            rows = rows[1:]
        table = Table(BENCHMARK, table_id, str(source.get("caption") or ""), across, rows)
        yield Question(BENCHMARK, source_id, split, "verification", claim, CLAIM_LABELS, (label,), table_id), table
