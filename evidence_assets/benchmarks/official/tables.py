"""Readers of claims and questions with their tables: SCITAB, PubHealthTab, TabFact, TabMCQ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from evidence_assets.benchmarks.dataset_info import DatasetInfo
from evidence_assets.benchmarks.json_streams import json_items, json_rows, jsonl_rows
from evidence_assets.benchmarks.line_streams import Row, delimited_rows, headed_rows
from evidence_assets.benchmarks.official.choices import find_option_letter
from evidence_assets.benchmarks.records import CLAIM_LABELS, GoldEvidence, LocatedQuestion, QuestionRecord, Table
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import find_file_below
from evidence_assets.reasoning.tasks import NOT_ENOUGH_INFORMATION

QuestionsWithTables: TypeAlias = Iterator[tuple[Row, QuestionRecord, Table]]
TABMCQ_COLUMNS = ("QUESTION", "QUESTION-ALIGNMENT", "CORRECT CHOICE", "RELEVANT TABLE", "RELEVANT ROW", "RELEVANT COL")
LABEL_SPELLINGS = {
    "SUPPORTS": ("supports", "supported", "support", "true", "entailed"),
    "REFUTES": ("refutes", "refuted", "refute", "false"),
    NOT_ENOUGH_INFORMATION: ("not enough info", "not enough information", "nei"),
}


def find_claim_label(value: object) -> str | None:
    """The label of a claim in any spelling; None if it is not a label."""
    spelling = " ".join(str(value).replace("_", " ").lower().split())
    return next((label for label, spellings in LABEL_SPELLINGS.items() if spelling in spellings), None)


def read_cell_row(row: Row, field: str, *, optional: bool = False) -> tuple[str, ...]:
    return _cell_texts(row, row.list(field, optional=optional), field)


def read_cell_rows(row: Row, field: str) -> tuple[tuple[str, ...], ...]:
    """Read rows of cells as text; rows may be ragged."""
    rows = []
    for position, cells in enumerate(row.list(field)):
        if not isinstance(cells, list):
            raise row.error("is not a list of cells", f"{field}[{position}]")
        rows.append(_cell_texts(row, cells, f"{field}[{position}]"))
    return tuple(rows)


def _cell_texts(row: Row, cells: Sequence[Any], field: str) -> tuple[str, ...]:
    """Convert cells to text; null becomes an empty cell."""
    for position, value in enumerate(cells):
        if value is not None and (isinstance(value, bool) or not isinstance(value, str | int | float)):
            raise row.error(f"{value!r} is not a cell; expected a string, a number or null", f"{field}[{position}]")
    return tuple("" if value is None else str(value) for value in cells)


def read_scitab(info: DatasetInfo, folder: Path, split: str) -> QuestionsWithTables:
    """Read claims about tables of papers; cells keep marks such as ``[BOLD]``."""
    for row in info.read_each(folder, split, json_rows):
        table_id = row.text("table_id")
        source_id = str(row.values.get("id") or row.line)
        header = read_cell_row(row, "table_column_names")
        rows = read_cell_rows(row, "table_content_values")
        table = Table(info.name, table_id, row.text_or_none("table_caption") or "", header, rows)
        yield *_read_claim(info, row, split, source_id, table_id), table


def _read_claim(info: DatasetInfo, row: Row, split: str, source_id: str, table_id: str) -> LocatedQuestion:
    label = find_claim_label(row.values.get("label"))
    if label is None:
        raise row.error("unknown label; use SUPPORTS, REFUTES or NOT ENOUGH INFORMATION", "label")
    fields = {"options": CLAIM_LABELS, "gold": (label,), "table_id": table_id}
    return info.question(row, split, source_id, row.text("claim"), **fields)


def read_pubhealthtab(info: DatasetInfo, folder: Path, split: str) -> QuestionsWithTables:
    """Read claims about public health with web tables, which may be empty or lack a header."""
    for row in info.read_each(folder, split, jsonl_rows):
        source = row.row("table")
        source_id = str(row.values.get("_id", row.values.get("id", row.line)))
        table_id = str(source.values.get("_id", source.values.get("id", f"table-{source_id}")))
        header, rows = _read_headed_table(source)
        table = Table(info.name, table_id, source.text_or_none("caption") or "", header, rows)
        yield *_read_claim(info, row, split, source_id, table_id), table


def _read_headed_table(table: Row) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Read header and rows; a separate list of row names becomes the first column."""
    rows = read_cell_rows(table, "rows") if table.values.get("rows") else ()
    header, row_names = (
        read_cell_row(table, name) if table.values.get(name) else ()
        for name in ("header_horizontal", "header_vertical")
    )
    has_names = any(row_names) and len(row_names) == len(rows)
    if has_names and any(not cells or cells[0] != name for name, cells in zip(row_names, rows, strict=True)):
        rows = tuple((name, *cells) for name, cells in zip(row_names, rows, strict=True))
        header = ("", *header) if header and len(header) < max(map(len, rows)) else header
    return header, rows[1:] if rows and header == rows[0] else rows


def read_tabfact(info: DatasetInfo, folder: Path, split: str) -> QuestionsWithTables:
    """Read claims about Wikipedia tables: ``{table file: [[claims], [labels], caption]}``, 1 entailed, 0 refuted.

    Tables are ``#``-separated files, each read once, in ``data/all_csv`` as officially released or in ``all_csv``.
    """
    (path,) = info.find_files(folder, split)
    tables = next((f for f in (folder / "data" / "all_csv", folder / "all_csv") if f.is_dir()), None)
    if tables is None:
        raise BadInput("contains no tables; add data/all_csv of the official release", file=folder)
    for line, table_id, entry in json_items(path):
        row = Row({}, path, line)
        statements, caption = _parse_tabfact_entry(row, table_id, entry)
        file = find_file_below(tables, table_id)
        if file is None:
            raise BadInput("this table of the statements is missing; add the file", file=tables / table_id)
        table = _read_table(file, "#", info.name, table_id, caption)
        for number, (statement, label) in enumerate(statements):
            if label not in (0, 1):
                raise row.error(f"statement {number} has label {label!r}, not 0 or 1", table_id)
            gold = "SUPPORTS" if label == 1 else "REFUTES"
            fields = {"options": CLAIM_LABELS[:2], "gold": (gold,), "table_id": table_id}
            yield *info.question(row, split, f"{table_id}#{number}", str(statement), **fields), table


def _parse_tabfact_entry(row: Row, table_id: str, entry: Any) -> tuple[list[tuple[Any, Any]], str]:
    """The statements of a table with their labels, and its caption."""
    match entry:
        case [list() as statements, list() as labels, *rest] if len(statements) == len(labels):
            return list(zip(statements, labels, strict=True)), str(rest[0]) if rest else ""
    raise row.error("is not [[statements], [labels], caption] with one label per statement", table_id)


def _read_table(path: Path, delimiter: str, benchmark: str, table_id: str, caption: str = "") -> Table:
    header, *rows = [tuple(cells) for _, cells in delimited_rows(path, delimiter, blank=True)] or [()]
    return Table(benchmark, table_id, caption, header, tuple(rows))


def read_tabmcq(info: DatasetInfo, folder: Path, split: str) -> QuestionsWithTables:
    """Read questions in file order; gold evidence is the gold cell, its row and the aligned columns.

    ``MCQs.tsv`` references the table ``Tables/<folder>/<file>.tsv`` as ``<folder>-<file>``. A row of a table is a
    sentence split into cells, so columns of linking words have empty headers. Row 0 is the header.
    """
    (path,) = info.find_files(folder, split)
    tables: dict[str, Table] = {}
    for raw_row in headed_rows(path, TABMCQ_COLUMNS, "\t"):
        if not any(raw_row.values.values()):
            continue
        row = Row({name: value.strip() for name, value in raw_row.values.items()}, path, raw_row.line)
        options = tuple(value for name, value in row.values.items() if name.startswith("CHOICE "))
        gold = find_option_letter(row, "CORRECT CHOICE", options, tuple(str(n + 1) for n in range(len(options))))
        table_id = row.text("RELEVANT TABLE")
        if table_id not in tables:
            tables[table_id] = _read_tabmcq_table(info.name, path.parent / "Tables", row)
        located_question = info.question(
            row,
            split,
            str(row.line),
            row.text("QUESTION"),
            options=options,
            gold=(gold,),
            table_id=table_id,
            gold_evidence=_tabmcq_evidence(row, tables[table_id]),
        )
        yield *located_question, tables[table_id]


def _read_tabmcq_table(benchmark: str, folder: Path, row: Row) -> Table:
    table_id = row.text("RELEVANT TABLE")
    table_folder, _, number = table_id.partition("-")
    file = folder / table_folder / f"{number}.tsv"
    if not number or not file.is_file():
        raise row.error(f"there is no table {table_id!r}; add its file", "RELEVANT TABLE")
    table = _read_table(file, "\t", benchmark, table_id)
    rows = tuple(tuple(map(str.strip, cells)) for cells in table.rows)
    return replace(table, header=tuple(map(str.strip, table.header)), rows=rows)


def _tabmcq_evidence(row: Row, table: Table) -> tuple[GoldEvidence, ...]:
    at_row = row.number("RELEVANT ROW")
    at_column = row.number("RELEVANT COL")
    alignment = row.text("QUESTION-ALIGNMENT", blank=True)
    try:
        aligned = [int(part) for part in alignment.split(",") if part.strip()]
    except ValueError as error:
        raise row.error(f"{alignment!r} is not a list of column numbers", "QUESTION-ALIGNMENT") from error

    def cell(line: int, column: int) -> str:
        """Text of a cell; empty if an annotation is outside the table."""
        cells = (table.header, *table.rows)[line] if 0 <= line <= len(table.rows) else ()
        return cells[column] if 0 <= column < len(cells) else ""

    return (
        GoldEvidence("cell", table.table_id, f"r{at_row}c{at_column}", cell(at_row, at_column)),
        GoldEvidence("row", table.table_id, f"r{at_row}", ""),
        *(GoldEvidence("column", table.table_id, f"c{column}", cell(0, column)) for column in aligned),
    )


PAIRS = {"scitab": read_scitab, "pubhealthtab": read_pubhealthtab, "tabfact": read_tabfact, "tabmcq": read_tabmcq}
