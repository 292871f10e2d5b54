"""Result files of benches: what ``docs/measured.md`` shows and ``make bench-compare`` compares with."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

TOKENS = "tokens read, written"
"""The column of a language model's tokens."""
RESULTS = Path(__file__).with_name("results")
WRITTEN = (":(top,exclude)bench/results", ":(top,exclude)docs")
"""Files that benches write: without them a series of measurements would be of a changed revision after the first."""


@dataclass(frozen=True)
class Results:
    """A table of figures, and where they are from."""

    command: str
    revision: str
    date: str
    machine: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def read(cls, name: str) -> Results:
        """The stored results of this name."""
        content = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        content["columns"] = tuple(content["columns"])
        content["rows"] = tuple(tuple(row) for row in content["rows"])
        return cls(**content)

    def write(self, path: Path) -> None:
        """Write a file with one line for each row, so that a changed figure is a changed line."""
        *fields, (_, rows) = asdict(self).items()
        lines = [f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)},\n" for name, value in fields]
        cells = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in rows)
        path.write_text("{\n" + "".join(lines) + f'  "rows": [\n{cells}\n  ]\n}}\n', encoding="utf-8")


def find_revision() -> str:
    """The commit, marked if files have changed since that benches do not write themselves."""
    changes = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", *WRITTEN)
    return _git("rev-parse", "--short=8", "HEAD") + ("-dirty" if changes else "")


def _git(*arguments: str) -> str:
    git = ["git", *arguments]
    return subprocess.run(git, cwd=RESULTS.parent, capture_output=True, text=True, check=True).stdout.strip()


def write_results(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]], command: str = "") -> None:
    """Write a table of this revision, day and machine; ``command`` is that of this process by default."""
    main = sys.modules["__main__"].__spec__
    arguments = " ".join(sys.argv[1:])
    results = Results(
        command=command or f"python -m {main.name if main else '?'} {arguments}".strip(),
        revision=find_revision(),
        date=datetime.now(UTC).date().isoformat(),
        machine=f"{platform.machine()}, {os.cpu_count()} processors",
        columns=tuple(columns),
        rows=tuple(tuple(row) for row in rows),
    )
    results.write(path)


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """Print a table that is not cut at the width of the terminal."""
    table = Table(*heads, title=title)
    for row in rows:
        table.add_row(*row)
    Console(width=220, highlight=False).print(table)
