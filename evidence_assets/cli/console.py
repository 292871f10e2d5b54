"""Shared parts of the commands: consoles, common options, tables and error messages."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from typing import Annotated, Any

import duckdb
import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from evidence_assets.lake.errors import BadInput, DiskFull, LakeVersionError, ModelUnavailable, StaleInput
from evidence_assets.lake.lineage import UnknownId
from evidence_assets.lake.mirror import local_root

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Terminal control characters, except tabs and line feeds."""
_FILE_ERRORS = (FileExistsError, NotADirectoryError, PermissionError)
"""Errors of paths that a user named; their text has the path."""
_REPORTED_ERRORS = (BadInput, ChildProcessError, DiskFull, LakeVersionError, ModelUnavailable, StaleInput, UnknownId)
_OPTIONS: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False, "soft_wrap": True}
out = Console(width=None if sys.stdout.isatty() else 200, **_OPTIONS)
err = Console(stderr=True, **_OPTIONS)
"""For progress, so that standard output has only results."""


def _lake(address: str) -> Path:
    with report_errors():
        return local_root(address)


LakeOption = Annotated[
    Path | None,
    typer.Option(
        "--lake", parser=_lake, metavar="LAKE", help="Folder or address; by default EVIDENCE_LAKE or data_lake."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print all results as JSON.")]


@contextmanager
def report_errors() -> Iterator[None]:
    """Print errors that a user can fix as one message, without a traceback, and exit with status 1."""
    try:
        yield
    except (*_REPORTED_ERRORS, *_FILE_ERRORS, duckdb.Error) as error:
        message = str(error.strerror if isinstance(error, DiskFull) else error)
        err.print(f"evidence: {strip_controls(message)}", style="red")
        raise typer.Exit(1) from error


def print_if_json(as_json: bool, rows: Any, indent: int | None = 1) -> bool:
    """Print the rows as JSON if requested; returns whether it did."""
    if as_json:
        print(json.dumps(rows, indent=indent, default=str, ensure_ascii=False))
    return as_json


def print_table(headers: Sequence[str], rows: Iterable[Sequence[Any]], **options: Any) -> None:
    lines = Table(*(Column(name, overflow="fold") for name in headers), **options)
    for row in rows:
        lines.add_row(*map(format_cell, row))
    out.print(lines, soft_wrap=False)


def leave_out_empty(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[list[str], list[list[Any]]]:
    """Headers and rows without the columns that have no value in any row.

    >>> leave_out_empty(["a", "b"], [[1, ""], [2, None]])
    (['a'], [[1], [2]])
    """
    is_kept = [any(value not in ("", None) for value in column) for column in zip(*rows, strict=True)]
    kept_rows = [list(compress(row, is_kept)) for row in rows]
    return list(compress(headers, is_kept)), kept_rows


def strip_controls(text: str) -> str:
    """The text with control characters replaced."""
    return _CONTROL.sub("\ufffd", text)


def format_cell(value: Any) -> Any:
    """A value for a table cell; markup and control characters have no effect."""
    if isinstance(value, float):
        value = f"{value:.4g}"
    return Text("" if value is None else strip_controls(str(value)))
