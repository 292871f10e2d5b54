"""Shared parts of the commands: consoles, common options, tables and error messages."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from typing import Annotated, Any

import duckdb
import typer
from rich import box
from rich.cells import cell_len
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


def print_word_table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table whose lines break only between words; rich breaks inside words to fit the console's width."""
    lines = [list(map(format_cell, row)) for row in rows]
    widths, gap = _fit_widths([[name, *(line[n].plain for line in lines)] for n, name in enumerate(headers)])
    table = Table(
        *(Column(name, width=width, overflow="fold") for name, width in zip(headers, widths, strict=True)),
        box=box.SIMPLE_HEAD,
        padding=(0, gap - 1, 0, 0),
        show_edge=False,
        width=sum(widths) + gap * len(widths) - 1,
    )
    for line in lines:
        table.add_row(*line)
    out.print(table, soft_wrap=False, crop=False)


def _fit_widths(columns: Sequence[Sequence[str]]) -> tuple[list[int], int]:
    """Widths of columns, at least those of their longest words, and the space after each."""
    longest_words = [max(cell_len(word) for text in column for word in text.split() or [""]) for column in columns]
    has_space = sum(longest_words) + 2 * len(columns) <= out.width
    gap = 2 if has_space else 1
    widths = [max(map(cell_len, column)) for column in columns]
    while sum(widths) + gap * len(columns) > out.width and widths != longest_words:
        most_space = max(range(len(widths)), key=lambda n: widths[n] - longest_words[n])
        widths[most_space] -= 1
    return widths, gap


def leave_out_empty(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[list[str], list[list[Any]]]:
    """Headers and rows without the columns that have no value in any row.

    >>> leave_out_empty(["a", "b"], [[1, ""], [2, None]])
    (['a'], [[1], [2]])
    """
    is_kept = [any(value not in ("", None) for value in column) for column in zip(*rows, strict=True)]
    kept_rows = [list(compress(row, is_kept)) for row in rows]
    return list(compress(headers, is_kept)), kept_rows


def split_constant(
    headers: Sequence[str], rows: Sequence[Sequence[Any]], names: Collection[str]
) -> tuple[dict[str, Any], list[str], list[list[Any]]]:
    """Values of the named columns that are equal in all rows, and headers and rows without these columns.

    >>> split_constant(["a", "b"], [[1, 2], [1, 3]], {"a", "b"})
    ({'a': 1}, ['b'], [[2], [3]])
    """
    columns = dict(zip(headers, zip(*rows, strict=True), strict=True))
    constants = {name: values[0] for name, values in columns.items() if name in names and len(set(values)) == 1}
    is_kept = [name not in constants for name in headers]
    return constants, list(compress(headers, is_kept)), [list(compress(row, is_kept)) for row in rows]


def strip_controls(text: str) -> str:
    """The text with control characters replaced."""
    return _CONTROL.sub("\ufffd", text)


def format_cell(value: Any) -> Text:
    """A value for a table cell; markup and control characters have no effect."""
    if isinstance(value, float):
        value = f"{value:.4g}"
    return Text("" if value is None else strip_controls(str(value)))
