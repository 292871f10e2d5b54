"""Claims and questions about tables, each read with its table: SCITAB, PubHealthTab, TabFact, TabMCQ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from evidence_assets.benchmarks.dataset_info import find_dataset
from evidence_assets.benchmarks.json_streams import json_items, json_rows, jsonl_rows
from evidence_assets.benchmarks.line_streams import Row, delimited_rows, headed_rows
from evidence_assets.benchmarks.official.choices import find_option_letter
from evidence_assets.benchmarks.records import CLAIM_LABELS, GoldEvidence, QuestionRecord, Table
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import find_file_below

QuestionsWithTables: TypeAlias = Iterator[tuple[Row, QuestionRecord, Table]]
LABEL_SPELLINGS = {
    "SUPPORTS": ("supports", "supported", "support", "true", "entailed"),
    "REFUTES": ("refutes", "refuted", "refute", "false"),
    "NOT ENOUGH INFORMATION": ("not enough info", "not enough information", "nei"),
}


def read_claim_label(row: Row, field: str = "label") -> str:
    """One of the three labels from a benchmark's own spelling."""
    value = row.values.get(field)
    spelling = " ".join(str(value).replace("_", " ").lower().split())
    for label, spellings in LABEL_SPELLINGS.items():
        if spelling in spellings:
            return label
    raise row.error(f"unknown label {value!r}; use SUPPORTS, REFUTES or NOT ENOUGH INFORMATION", field)


def read_cell_row(row: Row, field: str) -> tuple[str, ...]:
    return _cell_texts(row, row.list(field), field)


def read_cell_rows(row: Row, field: str) -> tuple[tuple[str, ...], ...]:
    """Rows of cells as text; they may be ragged."""
    rows = []
    for place, cells in enumerate(row.list(field)):
        if not isinstance(cells, list):
            raise row.error("is not a list of cells", f"{field}[{place}]")
        rows.append(_cell_texts(row, cells, f"{field}[{place}]"))
    return tuple(rows)


def _cell_texts(row: Row, cells: Sequence[Any], field: str) -> tuple[str, ...]:
    """Numbers are written out, null is an empty cell."""
    for place, value in enumerate(cells):
        if value is not None and (isinstance(value, bool) or not isinstance(value, str | int | float)):
            raise row.error(f"{value!r} is not a cell: expected a text, a number or null", f"{field}[{place}]")
    return tuple("" if value is None else str(value) for value in cells)


def read_scitab(files: Sequence[Path], split: str) -> QuestionsWithTables:
    """Claims about tables of papers; cells keep their marks such as ``[BOLD]``."""
    for row in json_rows(find_dataset("scitab").resolve_file(files[0], split)):
        claim, table_id, label = row.text("claim"), row.text("table_id"), read_claim_label(row)
        header, rows = read_cell_row(row, "table_column_names"), read_cell_rows(row, "table_content_values")
        table = Table("scitab", table_id, row.text_or_none("table_caption") or "", header, rows)
        source_id = str(row.values.get("id") or row.line)
        yield row, _claim_record("scitab", source_id, split, claim, label, table_id), table


def _claim_record(benchmark: str, source_id: str, split: str, claim: str, label: str, table_id: str) -> QuestionRecord:
    return QuestionRecord(benchmark, source_id, split, "verification", claim, CLAIM_LABELS, (label,), table_id)


def read_pubhealthtab(files: Sequence[Path], split: str) -> QuestionsWithTables:
    """Claims about public health against web tables, which may lack either header, and may be empty."""
    for row in jsonl_rows(find_dataset("pubhealthtab").resolve_file(files[0], split)):
        claim, label, source = row.text("claim"), read_claim_label(row), row.row("table")
        source_id = str(row.values.get("_id", row.values.get("id", row.line)))
        table_id = str(source.values.get("_id", source.values.get("id", f"table-{source_id}")))
        header, rows = _read_headed_table(source)
        table = Table("pubhealthtab", table_id, source.text_or_none("caption") or "", header, rows)
        yield row, _claim_record("pubhealthtab", source_id, split, claim, label, table_id), table


def _read_headed_table(table: Row) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Header and rows; names of rows that stand beside the rows, not in them, become the first column."""
    rows = read_cell_rows(table, "rows") if table.values.get("rows") else ()
    across, down = (
        read_cell_row(table, name) if table.values.get(name) else ()
        for name in ("header_horizontal", "header_vertical")
    )
    named = list(zip(down, rows, strict=False))
    if any(down) and len(down) == len(rows) and any(not cells or cells[0] != name for name, cells in named):
        rows = tuple((name, *cells) for name, cells in named)
        across = ("", *across) if across and len(across) < max(map(len, rows)) else across
    return across, rows[1:] if rows and across == rows[0] else rows


def read_tabfact(files: Sequence[Path], split: str) -> QuestionsWithTables:
    """Claims about Wikipedia tables: ``{table file: [[claims], [labels], caption]}``, 1 for entailed, 0 for refuted.

    Tables are ``#``-separated files in a folder, ``all_csv`` in the official release. Each is read once for all of its
    statements.
    """
    if len(files) < 2 and not files[0].is_dir():
        raise BadInput("reader 'tabfact' needs the folder of the tables, too: declare `tables`")
    tables = files[1] if len(files) > 1 else find_tabfact_tables(files[0])
    path = find_dataset("tabfact").resolve_file(files[0], split)
    for line, table_id, entry in json_items(path):
        if not table_id:
            raise BadInput("should be a JSON object from table files to statements", file=path, line=line)
        shape_fits = isinstance(entry, list) and len(entry) >= 2 and all(isinstance(part, list) for part in entry[:2])
        if not shape_fits or len(entry[0]) != len(entry[1]):
            raise BadInput(
                "should be [[statements], [labels], caption], one label a statement",
                file=path,
                line=line,
                field=table_id,
            )
        file = find_file_below(tables, table_id)
        if file is None:
            raise BadInput("is named by the statements but is not there", file=tables / table_id)
        table = _read_table_file(file, "#", "tabfact", table_id, str(entry[2]) if len(entry) > 2 else "")
        for number, (statement, label) in enumerate(zip(entry[0], entry[1], strict=True)):
            if label not in (0, 1):
                raise BadInput(
                    f"statement {number} has label {label!r}, not 0 or 1", file=path, line=line, field=table_id
                )
            question = QuestionRecord(
                "tabfact",
                f"{table_id}#{number}",
                split,
                "verification",
                str(statement),
                CLAIM_LABELS[:2],
                (CLAIM_LABELS[0 if label == 1 else 1],),
                table_id,
            )
            yield Row({}, path, line), question, table


def find_tabfact_tables(folder: Path) -> Path:
    """The folder of the tables, where the official release has it or directly in ``folder``."""
    for path in (folder / "data" / "all_csv", folder / "all_csv"):
        if path.is_dir():
            return path
    raise BadInput("holds no tables: put data/all_csv of the official release here", file=folder)


def _read_table_file(path: Path, delimiter: str, benchmark: str, table_id: str, caption: str = "") -> Table:
    rows = [tuple(row) for _, row in delimited_rows(path, delimiter, blank=True)]
    return Table(benchmark, table_id, caption, rows[0] if rows else (), tuple(rows[1:]))


def read_tabmcq(files: Sequence[Path], split: str) -> QuestionsWithTables:
    """Questions in file order, with the gold cell, its row and the aligned columns as gold evidence.

    ``MCQs.tsv`` names tables as ``<folder>-<file>`` of ``Tables/<folder>/<file>.tsv`` beside it. A row of a table is a
    sentence cut at its columns, so that headers of linking words are empty. Row 0 is the header.
    """
    path = find_dataset("tabmcq").resolve_file(files[0], split)
    tables: dict[str, Table] = {}
    needed = ("QUESTION", "QUESTION-ALIGNMENT", "CORRECT CHOICE", "RELEVANT TABLE", "RELEVANT ROW", "RELEVANT COL")
    for raw in headed_rows(path, needed, "\t"):
        if not any(raw.values.values()):
            continue
        row = Row({name: value.strip() for name, value in raw.values.items()}, path, raw.line)
        options = tuple(value for name, value in row.values.items() if name.startswith("CHOICE "))
        gold = find_option_letter(row, "CORRECT CHOICE", options, tuple(str(n + 1) for n in range(len(options))))
        table_id = row.text("RELEVANT TABLE")
        if table_id not in tables:
            folder, _, number = table_id.partition("-")
            place = path.parent / "Tables" / folder / f"{number}.tsv"
            if not number or not place.is_file():
                raise row.error(f"names {table_id!r}, but there is no such table", "RELEVANT TABLE")
            tables[table_id] = _read_tabmcq_table(place)
        question = QuestionRecord(
            "tabmcq",
            str(row.line),
            split,
            "table_qa",
            row.text("QUESTION"),
            options,
            (gold,),
            table_id,
            gold_evidence=_tabmcq_evidence(row, tables[table_id]),
        )
        yield row, question, tables[table_id]


def _tabmcq_evidence(row: Row, table: Table) -> tuple[GoldEvidence, ...]:
    at_row, at_column = row.number("RELEVANT ROW"), row.number("RELEVANT COL")
    alignment = row.text("QUESTION-ALIGNMENT", blank=True)
    try:
        aligned = [int(part) for part in alignment.split(",") if part.strip()]
    except ValueError as error:
        raise row.error(f"{alignment!r} is no list of columns", "QUESTION-ALIGNMENT") from error

    def cell(line: int, column: int) -> str:
        """Text of a cell, empty where an annotation points outside the table."""
        cells = (table.header, *table.rows)[line] if 0 <= line <= len(table.rows) else ()
        return cells[column] if 0 <= column < len(cells) else ""

    return (
        GoldEvidence("cell", table.table_id, f"r{at_row}c{at_column}", cell(at_row, at_column)),
        GoldEvidence("row", table.table_id, f"r{at_row}", ""),
        *(GoldEvidence("column", table.table_id, f"c{column}", cell(0, column)) for column in aligned),
    )


def read_tabmcq_tables(folder: Path) -> Iterator[Table]:
    """All tables under ``Tables``, in order of their ids."""
    root = folder / "Tables"
    tables = {f"{path.parent.name}-{path.stem}": path for path in root.glob("*/*.tsv")}
    if not tables:
        raise BadInput("holds no table; expected Tables/<folder>/<number>.tsv", file=root)
    return (_read_tabmcq_table(tables[table_id]) for table_id in sorted(tables))


def _read_tabmcq_table(path: Path) -> Table:
    """One table; stray spaces around its cells are dropped."""
    table = _read_table_file(path, "\t", "tabmcq", f"{path.parent.name}-{path.stem}")
    rows = [tuple(cell.strip() for cell in cells) for cells in (table.header, *table.rows)]
    return Table(table.benchmark, table.table_id, "", rows[0], tuple(rows[1:]))


TABLES = {"tabmcq": read_tabmcq_tables}
"""Benchmarks with tables that no question of a split is about."""
PAIRS = {"scitab": read_scitab, "pubhealthtab": read_pubhealthtab, "tabfact": read_tabfact, "tabmcq": read_tabmcq}
