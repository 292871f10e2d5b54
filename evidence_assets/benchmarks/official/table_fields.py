"""What benchmarks of claims about tables share: labels of claims, rows of cells, and the claims without their tables.

What belongs here: reading these out of a :class:`Row`, with the place named when they are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from evidence_assets.benchmarks.checks import Located, unique_pairs
from evidence_assets.benchmarks.info import DatasetInfo, PairReader, Reader, dataset
from evidence_assets.benchmarks.reading import Row
from evidence_assets.benchmarks.records import Question, Table

_LABELS = {
    "supports": "SUPPORTS",
    "supported": "SUPPORTS",
    "support": "SUPPORTS",
    "true": "SUPPORTS",
    "entailed": "SUPPORTS",
    "refutes": "REFUTES",
    "refuted": "REFUTES",
    "refute": "REFUTES",
    "false": "REFUTES",
    "not enough info": "NOT ENOUGH INFORMATION",
    "not enough information": "NOT ENOUGH INFORMATION",
    "nei": "NOT ENOUGH INFORMATION",
}


Rows = Callable[[Path, str], Iterator[tuple[Row, Question, Table]]]


def with_tables(name: str, rows: Rows) -> PairReader:
    """Reads each claim with its table: of the file that is named, or of a split's in a folder."""
    return lambda files, split: unique_pairs(rows(dataset(name).file_of(files[0], split), split))


def claims_alone(rows: Rows) -> Reader:
    """The reader that the registry asks for the claims of a split, of one that reads a file's claims with their tables."""

    def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
        found = info.each(folder, split, lambda file: rows(file, split))
        return ((row, question) for row, question, _ in found)

    return read


def claim_label(row: Row, field: str = "label") -> str:
    """One of the three labels from a benchmark's own spelling."""
    value = row.values.get(field)
    label = _LABELS.get(" ".join(str(value).replace("_", " ").lower().split()))
    if label is None:
        raise row.bad(f"unknown label {value!r}; use SUPPORTS, REFUTES or NOT ENOUGH INFORMATION", field)
    return label


def cell_row(row: Row, field: str) -> tuple[str, ...]:
    return _cells(row, row.list(field), field)


def cell_rows(row: Row, field: str) -> tuple[tuple[str, ...], ...]:
    """Rows of cells as text; they may be ragged."""
    found = []
    for place, cells in enumerate(row.list(field)):
        if not isinstance(cells, list):
            raise row.bad("is not a list of cells", f"{field}[{place}]")
        found.append(_cells(row, cells, f"{field}[{place}]"))
    return tuple(found)


def _cells(row: Row, cells: Any, field: str) -> tuple[str, ...]:
    return tuple(_cell(row, value, f"{field}[{place}]") for place, value in enumerate(cells))


def _cell(row: Row, value: Any, field: str) -> str:
    """Numbers are written out, null is an empty cell."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise row.bad(f"{value!r} is not a cell: expected a text, a number or null", field)
    return value if isinstance(value, str) else str(value)
