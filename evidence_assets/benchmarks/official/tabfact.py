"""TabFact: statements about Wikipedia tables, entailed or refuted.

Layout: a JSON object ``{table file: [[statements], [labels], caption]}`` with 1 for entailed and 0 for refuted, and the
tables as ``#``-separated files in a folder (``all_csv`` in the official release), the first row being the header.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evidence_assets.benchmarks.checks import Located, unique_pairs
from evidence_assets.benchmarks.info import DatasetInfo, dataset
from evidence_assets.benchmarks.reading import Row, delimited
from evidence_assets.benchmarks.reading_json import json_items
from evidence_assets.benchmarks.records import Question, Table
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import file_below

BENCHMARK = "tabfact"
LABELS = ("SUPPORTS", "REFUTES")


def read_split(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    """The statements of a split, as the registry asks for them."""
    rows = info.each(folder, split, lambda file: _rows(file, tables_in(folder), split))
    return ((row, question) for row, question, _ in rows)


def read(files: Sequence[Path], split: str) -> Iterator[tuple[Question, Table]]:
    """Statements in file order, each with its table; a table is read once for all of its statements."""
    if len(files) < 2 and not files[0].is_dir():
        raise BadInput("reader 'tabfact' needs the folder of the tables, too: declare `tables`")
    tables = files[1] if len(files) > 1 else tables_in(files[0])
    return unique_pairs(_rows(dataset(BENCHMARK).file_of(files[0], split), tables, split))


def tables_in(folder: Path) -> Path:
    """The folder of the tables, where the official release has it or directly in ``folder``."""
    found = next((path for path in (folder / "data" / "all_csv", folder / "all_csv") if path.is_dir()), None)
    if found is None:
        raise BadInput("holds no tables: put data/all_csv of the official release here", file=folder)
    return found


def _rows(path: Path, tables: Path, split: str) -> Iterator[tuple[Row, Question, Table]]:
    for line, table_id, entry in json_items(path):
        if not table_id:
            raise BadInput("should be a JSON object from table files to statements", file=path, line=line)
        statements, labels, caption = _entry(entry, path, table_id)
        table = _table(tables, table_id, caption)
        for number, (statement, label) in enumerate(zip(statements, labels, strict=True)):
            if label not in (0, 1):
                raise BadInput(f"statement {number} of {table_id} has label {label!r}, not 0 or 1", file=path)
            gold = "SUPPORTS" if label == 1 else "REFUTES"
            source_id = f"{table_id}#{number}"
            yield (
                Row({}, path, line),
                Question(BENCHMARK, source_id, split, "verification", statement, LABELS, (gold,), table_id),
                table,
            )


def _entry(entry: Any, path: Path, table_id: str) -> tuple[list[str], list[int], str]:
    shape_fits = isinstance(entry, list) and len(entry) >= 2 and all(isinstance(part, list) for part in entry[:2])
    if not shape_fits or len(entry[0]) != len(entry[1]):
        raise BadInput("should be [[statements], [labels], caption], one label a statement", file=path, field=table_id)
    return [str(statement) for statement in entry[0]], entry[1], str(entry[2]) if len(entry) > 2 else ""


def _table(tables: Path, table_id: str, caption: str) -> Table:
    path = file_below(tables, table_id)
    if path is None:
        raise BadInput("is named by the statements but is not there", file=tables / table_id)
    rows = [tuple(row) for _, row in delimited(path, "#", blank=True)]
    return Table(BENCHMARK, table_id, caption, rows[0] if rows else (), tuple(rows[1:]))


READERS = {BENCHMARK: read_split}
PAIRS = {BENCHMARK: read}
