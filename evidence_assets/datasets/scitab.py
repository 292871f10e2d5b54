"""SCITAB: claims about tables of scientific papers, in one JSON array (``sci_tab.json``).

Fields: ``claim``, ``label`` (supports, refutes, not enough info), ``table_id``, ``table_caption``,
``table_column_names`` and ``table_content_values``. Cells keep their marks such as ``[BOLD]``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence_assets.datasets.records import CLAIM_LABELS, Question, Table
from evidence_assets.datasets.table_files import cells_of, claim_label, required_text
from evidence_assets.lake.errors import BadInput

BENCHMARK = "scitab"


def read(path: Path, split: str = "all") -> Iterator[tuple[Question, Table]]:
    """Claims in file order, each with its table; claims about one table share its ``table_id``."""
    for line, record in _array(path):
        claim = required_text(record, "claim", file=path, line=line)
        table_id = required_text(record, "table_id", file=path, line=line)
        label = claim_label(record.get("label"), file=path, line=line)
        header = cells_of([record.get("table_column_names")], file=path, line=line, field="table_column_names")[0]
        rows = cells_of(record.get("table_content_values"), file=path, line=line, field="table_content_values")
        table = Table(BENCHMARK, table_id, str(record.get("table_caption") or ""), header, rows)
        source_id = str(record.get("id") or line)
        yield Question(BENCHMARK, source_id, split, "verification", claim, CLAIM_LABELS, (label,), table_id), table


def _array(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects of a JSON array one at a time, each with the line that it starts on."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot be read as UTF-8 text ({error})", file=path) from error
    decoder = json.JSONDecoder()
    position, line, counted = _skip(text, 0), 1, 0
    if text[position : position + 1] != "[":
        raise BadInput("should be a JSON array of claims", file=path, line=1)
    position = _skip(text, position + 1)
    while text[position : position + 1] != "]":
        line, counted = line + text.count("\n", counted, position), position
        try:
            record, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise BadInput(f"is not JSON ({error.msg})", file=path, line=error.lineno) from error
        if not isinstance(record, dict):
            raise BadInput(f"should be a JSON object, is {type(record).__name__}", file=path, line=line)
        yield line, record
        position = _skip(text, position)
        if text[position : position + 1] == ",":
            position = _skip(text, position + 1)
        elif text[position : position + 1] != "]":
            raise BadInput(
                "the array breaks off here; is the file complete?", file=path, line=text.count("\n", 0, position) + 1
            )


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position
