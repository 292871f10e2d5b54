"""What the readers of table benchmarks share: JSON lines, delimited files, and the labels of claims.

What belongs here: opening a file so that whatever is wrong with it is named with file and line. One format a file
stands beside this one.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence_assets.lake.errors import BadInput

_LABELS = {
    "supports": "SUPPORTS", "supported": "SUPPORTS", "support": "SUPPORTS", "true": "SUPPORTS", "entailed": "SUPPORTS",
    "refutes": "REFUTES", "refuted": "REFUTES", "refute": "REFUTES", "false": "REFUTES",
    "not enough info": "NOT ENOUGH INFORMATION", "not enough information": "NOT ENOUGH INFORMATION",
    "nei": "NOT ENOUGH INFORMATION",
}  # fmt: skip

# A cell may be a whole document; the csv module's own limit would refuse it at 128 kB.
_LARGEST_FIELD = 1 << 30


def claim_label(value: object, *, file: Path, line: int | None, field: str = "label") -> str:
    """One of the three labels from a benchmark's own spelling."""
    label = _LABELS.get(" ".join(str(value).replace("_", " ").lower().split()))
    if label is None:
        raise BadInput(
            f"unknown label {value!r}; use SUPPORTS, REFUTES or NOT ENOUGH INFORMATION",
            file=file,
            line=line,
            field=field,
        )
    return label


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of each line of a JSON lines file; blank lines are passed over."""
    with _open(path) as stream:
        number = 0
        while True:
            number += 1
            try:
                line = stream.readline()
            except UnicodeDecodeError as error:
                raise BadInput("is not UTF-8 text; save it as UTF-8", file=path, line=number) from error
            if not line:
                return
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except json.JSONDecodeError as error:
                raise BadInput(f"is not JSON ({error.msg})", file=path, line=number) from error
            if not isinstance(value, dict):
                raise BadInput(f"should be a JSON object, is {type(value).__name__}", file=path, line=number)
            yield number, value


def delimited_rows(path: Path, delimiter: str, *, quoted: bool = True) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line number (of the row's end) and fields of each row of a delimited text file; rows may be ragged."""
    csv.field_size_limit(_LARGEST_FIELD)
    with _open(path, newline="") as stream:
        reader = csv.reader(stream, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE)
        while True:
            try:
                row = next(reader, None)
            except UnicodeDecodeError as error:
                raise BadInput("is not UTF-8 text; save it as UTF-8", file=path, line=reader.line_num + 1) from error
            except csv.Error as error:
                raise BadInput(
                    f"cannot be read as delimited text ({error})", file=path, line=reader.line_num
                ) from error
            if row is None:
                return
            yield reader.line_num, tuple(row)


def required_text(record: dict[str, Any], field: str, *, file: Path, line: int | None) -> str:
    """A field that must be there and hold text."""
    value = record.get(field)
    if not isinstance(value, str) or not value.strip():
        raise BadInput("is missing or is no text", file=file, line=line, field=field)
    return value


def cells_of(rows: object, *, file: Path, line: int | None, field: str) -> tuple[tuple[str, ...], ...]:
    """Rows of cells as text; numbers are written out, null is an empty cell."""
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise BadInput("should be a list of rows, each a list of cells", file=file, line=line, field=field)
    return tuple(tuple("" if cell is None else str(cell) for cell in row) for row in rows)


def _open(path: Path, newline: str | None = None) -> Any:
    try:
        return path.open(encoding="utf-8-sig", newline=newline)
    except OSError as error:
        raise BadInput(f"cannot be opened ({error.strerror})", file=path) from error
