"""PrimeKG: kg.csv, one row per edge with the names and kinds of both ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.graphs.triples import TripleRecord
from evidence_assets.benchmarks.reading import headed_rows
from evidence_assets.lake.errors import BadInput

COLUMNS = ("relation", "x_type", "x_name", "y_type", "y_name")


def read(file: Path) -> Iterator[TripleRecord]:
    """Triples of kg.csv, each undirected fact as often as the file has it (once per direction)."""
    for row in headed_rows(file, COLUMNS):
        if row.line is None:
            raise BadInput("a row without a line", file=file)
        yield TripleRecord(
            head=row.text("x_name").strip(),
            relation=row.text("relation").strip(),
            tail=row.text("y_name").strip(),
            line=row.line,
            head_type=row.text_or_none("x_type"),
            tail_type=row.text_or_none("y_type"),
        )
