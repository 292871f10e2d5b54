"""TabMCQ: multiple-choice questions over tables of general knowledge, each with its gold cell.

Layout: ``MCQs.tsv`` (tab, double quotes, one header row) and ``Tables/<folder>/<file>.tsv``, named ``<folder>-<file>``.
A row of a table is a sentence cut at its columns, so that headers of linking words are empty. Row 0 is the header.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.reading import Row, delimited
from evidence_assets.benchmarks.records import GoldEvidence, Question, Table
from evidence_assets.lake.errors import BadInput

BENCHMARK = "tabmcq"
INFO = DatasetInfo(
    name=BENCHMARK,
    title="TabMCQ",
    task="table_qa",
    files={"all": ("MCQs.tsv",)},
    counts={"all": 9092},
    licence="CC BY-SA 4.0",
    source="https://allenai.org/data/tabmcq",
    note="It has no splits. The folder Tables lies beside MCQs.tsv.",
)
_QUESTION, _ALIGNMENT, _TABLE, _ROW, _COLUMN = (
    "QUESTION", "QUESTION-ALIGNMENT", "RELEVANT TABLE", "RELEVANT ROW", "RELEVANT COL",
)  # fmt: skip
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
    for _, question in _rows(folder / "MCQs.tsv", split):
        yield question


def read_split(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    """The questions, as the registry asks for them."""
    for file in info.find(folder, split):
        yield from _rows(file, split)


def _rows(path: Path, split: str) -> Iterator[Located]:
    folder = path.parent
    known: dict[str, Table] = {}
    fields: tuple[str, ...] = ()
    for line, row in delimited(path, "\t", quoted=True):
        if not fields:
            fields = tuple(name.strip() for name in row)
            missing = [name for name in (_QUESTION, _ALIGNMENT, _CORRECT, _TABLE, _ROW, _COLUMN) if name not in fields]
            if missing:
                raise BadInput(f"lacks the column {missing[0]!r}", file=path, line=line)
            continue
        if not any(row):
            continue
        if len(row) != len(fields):
            raise BadInput(f"has {len(row)} fields instead of {len(fields)}", file=path, line=line)
        record = dict(zip(fields, (value.strip() for value in row), strict=True))
        yield Row({**record}, path, line), _question(record, folder, known, path, line, split)


def _question(
    record: dict[str, str], folder: Path, known: dict[str, Table], path: Path, line: int, split: str
) -> Question:
    options = tuple(value for name, value in record.items() if name.startswith("CHOICE "))
    correct = _integer(record, _CORRECT, path, line)
    if not 1 <= correct <= len(options):
        raise BadInput(f"is {correct}, but there are {len(options)} choices", file=path, line=line, field=_CORRECT)
    if not record[_QUESTION]:
        raise BadInput("is empty", file=path, line=line, field=_QUESTION)
    table_id = record[_TABLE]
    if table_id not in known:
        folder_name, _, number = table_id.partition("-")
        table_path = folder / "Tables" / folder_name / f"{number}.tsv"
        if not number or not table_path.is_file():
            raise BadInput(f"names {table_id!r}, but there is no such table", file=path, line=line, field=_TABLE)
        known[table_id] = read_table(table_path)
    table, at_row, at_column = (
        known[table_id],
        _integer(record, _ROW, path, line),
        _integer(record, _COLUMN, path, line),
    )
    try:
        aligned = tuple(int(part) for part in record[_ALIGNMENT].split(",") if part.strip())
    except ValueError as error:
        raise BadInput(
            f"{record[_ALIGNMENT]!r} is no list of columns", file=path, line=line, field=_ALIGNMENT
        ) from error
    evidence = (
        GoldEvidence("cell", table_id, f"r{at_row}c{at_column}", _cell(table, at_row, at_column)),
        GoldEvidence("row", table_id, f"r{at_row}", ""),
        *(GoldEvidence("column", table_id, f"c{column}", _cell(table, 0, column)) for column in aligned),
    )
    return Question(
        BENCHMARK, f"{line}", split, "table_qa", record[_QUESTION], options, (chr(ord("A") + correct - 1),), table_id,
        gold_evidence=evidence,
    )  # fmt: skip


def _integer(record: dict[str, str], field: str, path: Path, line: int) -> int:
    try:
        return int(record[field])
    except ValueError as error:
        raise BadInput(f"{record[field]!r} is no whole number", file=path, line=line, field=field) from error


def _cell(table: Table, row: int, column: int) -> str:
    """Text of a cell, empty where an annotation points outside the table."""
    line = table.header if row == 0 else table.rows[row - 1] if 0 < row <= len(table.rows) else ()
    return line[column] if 0 <= column < len(line) else ""


def _table_id(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


READERS = ((INFO, read_split),)
