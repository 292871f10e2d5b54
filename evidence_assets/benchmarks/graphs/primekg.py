"""PrimeKG: kg.csv, one row per edge with the names and kinds of both ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.graphs.triples import TripleRecord
from evidence_assets.benchmarks.reading import headed_rows

COLUMNS = ("relation", "x_type", "x_name", "y_type", "y_name")


def read(file: Path) -> Iterator[TripleRecord]:
    """Triples of kg.csv, each undirected fact as often as the file has it (once per direction)."""
    for row in headed_rows(file, COLUMNS):
        head, relation, tail = (row.text(field).strip() for field in ("x_name", "relation", "y_name"))
        kinds = row.text_or_none("x_type"), row.text_or_none("y_type")
        yield TripleRecord(head, relation, tail, row.line or 0, *kinds)
