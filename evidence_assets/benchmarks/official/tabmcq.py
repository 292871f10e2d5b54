"""TabMCQ: multiple-choice questions over tables of general knowledge, each with its gold cell.

Layout: ``MCQs.tsv`` (tab, double quotes, one header row) and ``Tables/<folder>/<file>.tsv``, named ``<folder>-<file>``.
A row of a table is a sentence cut at its columns, so that headers of linking words are empty. Row 0 is the header.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.official.choices import letter_of
from evidence_assets.benchmarks.reading import Row, delimited, headed_rows
from evidence_assets.benchmarks.records import GoldEvidence, Question, Table
from evidence_assets.lake.errors import BadInput

BENCHMARK = "tabmcq"
_QUESTION, _ALIGNMENT, _TABLE, _ROW, _COLUMN = (
    "QUESTION",
    "QUESTION-ALIGNMENT",
    "RELEVANT TABLE",
    "RELEVANT ROW",
    "RELEVANT COL",
)
_CORRECT = "CORRECT CHOICE"


def read_tables(folder: Path) -> Iterator[Table]:
    """All tables under ``Tables``, in order of their ids."""
    root = folder / "Tables"
    files = sorted(root.glob("*/*.tsv"), key=_table_id)
    if not files:
        raise BadInput("holds no table; expected Tables/<folder>/<number>.tsv", file=root)
    for path in files:
        yield read_table(path)


def read_table(path: Path) -> Table:
    """One table; the first row is its header, stray spaces around cells are dropped."""
    rows = [tuple(cell.strip() for cell in row) for _, row in delimited(path, "\t", blank=True)]
    return Table(BENCHMARK, _table_id(path), "", rows[0] if rows else (), tuple(rows[1:]))


def read_questions(folder: Path, split: str = "all") -> Iterator[Question]:
    """Questions in file order, with the gold cell, its row and the aligned columns as gold evidence."""
    return (question for _, question in _rows(folder / "MCQs.tsv", split))


def read_split(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    """The questions, as the registry asks for them."""
    return info.each(folder, split, lambda file: _rows(file, split))


def _rows(path: Path, split: str) -> Iterator[Located]:
    known: dict[str, Table] = {}
    for read in headed_rows(path, (_QUESTION, _ALIGNMENT, _CORRECT, _TABLE, _ROW, _COLUMN), "\t"):
        if any(read.values.values()):
            row = Row({name: value.strip() for name, value in read.values.items()}, path, read.line)
            yield row, _question(row, known, split)


def _question(row: Row, known: dict[str, Table], split: str) -> Question:
    options = tuple(value for name, value in row.values.items() if name.startswith("CHOICE "))
    gold = letter_of(row, _CORRECT, row.number(_CORRECT), options, first=1)
    table_id = row.text(_TABLE)
    if table_id not in known:
        folder, _, number = table_id.partition("-")
        place = row.file.parent / "Tables" / folder / f"{number}.tsv"
        if not number or not place.is_file():
            raise row.bad(f"names {table_id!r}, but there is no such table", _TABLE)
        known[table_id] = read_table(place)
    table, at_row, at_column = known[table_id], row.number(_ROW), row.number(_COLUMN)
    try:
        aligned = tuple(int(part) for part in row.text(_ALIGNMENT, blank=True).split(",") if part.strip())
    except ValueError as error:
        raise row.bad(f"{row.values[_ALIGNMENT]!r} is no list of columns", _ALIGNMENT) from error
    evidence = (
        GoldEvidence("cell", table_id, f"r{at_row}c{at_column}", _cell(table, at_row, at_column)),
        GoldEvidence("row", table_id, f"r{at_row}", ""),
        *(GoldEvidence("column", table_id, f"c{column}", _cell(table, 0, column)) for column in aligned),
    )
    text, source_id = row.text(_QUESTION), str(row.line)
    return Question(BENCHMARK, source_id, split, "table_qa", text, options, (gold,), table_id, gold_evidence=evidence)


def _cell(table: Table, row: int, column: int) -> str:
    """Text of a cell, empty where an annotation points outside the table."""
    line = table.header if row == 0 else table.rows[row - 1] if 0 < row <= len(table.rows) else ()
    return line[column] if 0 <= column < len(line) else ""


def _table_id(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


READERS = {BENCHMARK: read_split}
