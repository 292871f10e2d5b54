"""What all commands share: where they print, options that several have, and errors as sentences."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
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
"""Characters that a terminal obeys, but for tabs and ends of lines."""
out = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
err = Console(stderr=True, highlight=False)
"""Where progress is told, so that what is asked for stands alone on standard output."""


def _lake(place: str) -> Path:
    with report_errors():
        return local_root(place)


LakeOption = Annotated[
    Path | None,
    typer.Option(
        "--lake",
        parser=_lake,
        metavar="PLACE",
        help="Folder or address of the lake; EVIDENCE_LAKE or the nearest data_lake otherwise.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Everything, as JSON.")]


@contextmanager
def report_errors() -> Iterator[None]:
    """Ends with the error's sentence and exit status 1, not with a stack of calls, where the user can mend it."""
    try:
        yield
    except (
        BadInput,
        ChildProcessError,
        LakeVersionError,
        ModelUnavailable,
        DiskFull,
        StaleInput,
        UnknownId,
        duckdb.Error,
    ) as error:
        said = str(error.strerror if isinstance(error, DiskFull) else error)
        err.print(f"evidence: {strip_controls(said)}", markup=False, style="red", soft_wrap=True)
        raise typer.Exit(1) from error


def print_if_json(as_json: bool, rows: Any) -> bool:
    """Whether JSON is asked for: then it is printed, and nothing else should be."""
    if as_json:
        print(json.dumps(rows, indent=1, default=str, ensure_ascii=False))
    return as_json


def print_table(headers: Sequence[str], rows: Iterable[Sequence[Any]], **options: Any) -> None:
    """Print rows below their headers."""
    shown = Table(*(Column(name, overflow="fold") for name in headers), **options)
    for row in rows:
        shown.add_row(*map(format_cell, row))
    out.print(shown)


def strip_controls(text: str) -> str:
    """Text that a terminal shows and does not obey."""
    return _CONTROL.sub("\ufffd", text)


def format_cell(value: Any) -> Any:
    """A value as it stands in a table: text is never read as markup, nor by the terminal as a command."""
    if isinstance(value, float):
        value = f"{value:.4g}"
    return Text("" if value is None else strip_controls(str(value)))
