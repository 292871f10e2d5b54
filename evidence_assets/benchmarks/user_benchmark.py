"""Reader of a user's benchmark: JSON lines of questions and, if needed, JSON lines of tables.

``docs/own-data.md`` describes their fields. Earlier names are read with a warning (:mod:`.earlier_fields`); any other
unknown field is an error.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evidence_assets.benchmarks.earlier_fields import RENAMED_FIELDS, EarlierFields
from evidence_assets.benchmarks.json_streams import parse_jsonl
from evidence_assets.benchmarks.line_streams import Row, delimited_rows, open_bytes
from evidence_assets.benchmarks.official.tables import find_claim_label, read_cell_row, read_cell_rows
from evidence_assets.benchmarks.records import (
    CLAIM_LABELS,
    TASKS,
    GoldEvidence,
    LocatedQuestion,
    QuestionRecord,
    Table,
    UniqueIds,
    require_items,
)
from evidence_assets.benchmarks.records import build_question as checked_question
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import require_file
from evidence_assets.reasoning.questions import option_labels

QUESTION_FIELDS = (
    "source_id split task text options gold table_id topic_entities gold_evidence negated aliases answerable"
)
EVIDENCE_KINDS = ("chunk", "sentence", "cell", "column", "row", "triple", "path")
TABLE_FIELDS = ("table_id", "caption", "header", "rows")
SAMPLE_BYTES = 8192
"""Beginning of a file that its separator is detected in."""
MIN_TITLED_ROWS = 3
"""Rows of a table with a title: title, header and one row."""
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?[ \r]*(?:\n|$)', re.IGNORECASE)
"""First line of a file for spreadsheets, which names its separator."""


def ignore_warning(message: str) -> None:
    """Warnings are for who adds or materializes the questions, not for every later reader."""


def read_questions(
    file: Path, benchmark: str, warn: Callable[[str], None] = ignore_warning
) -> Iterator[QuestionRecord]:
    """Read the questions of ``file`` in order; ``warn`` receives a message about each earlier name of a field."""
    return (question for _, question in read_located_questions(file, benchmark, warn))


def read_located_questions(
    file: Path, benchmark: str, warn: Callable[[str], None] = ignore_warning
) -> Iterator[LocatedQuestion]:
    """Read the questions of ``file``, each with its row."""
    ids = UniqueIds("source_id")
    earlier_fields = EarlierFields(warn)
    questions = parse_jsonl(file, lambda row: _read_question(earlier_fields.update(row), benchmark, ids))
    return require_items(questions, lambda: BadInput("contains no questions; add at least one", file=file))


def _read_question(row: Row, benchmark: str, ids: UniqueIds) -> LocatedQuestion:
    row.check_field_names(QUESTION_FIELDS.split(), RENAMED_FIELDS)
    task, options = _read_task(row)
    gold = _read_gold(row, task, options)
    is_unanswerable = row.values.get("answerable") is False
    if gold and is_unanswerable and task != "verification":
        raise row.error("is false, but there is a gold answer; remove one of them", "answerable")
    located = checked_question(
        row,
        benchmark=benchmark,
        source_id=row.label("source_id"),
        split=row.text_or_none("split") or "test",
        task=task,
        text=row.text("text"),
        options=options,
        gold=gold,
        table_id=row.text_or_none("table_id"),
        topic_entities=row.texts("topic_entities", optional=True),
        gold_evidence=_read_evidence(row),
        negated=row.values.get("negated"),
        aliases=_read_aliases(row),
        unanswerable=is_unanswerable,
    )
    ids.add(located[1].source_id, row)
    return located


def _read_task(row: Row) -> tuple[str, tuple[str, ...]]:
    """Read the task and the options; without options, those of a claim are the labels."""
    options = row.texts("options", optional=True)
    if "task" not in row.values and not options:
        raise row.error(f"missing; a question without options needs one of {', '.join(TASKS)}", "task")
    task = row.text("task") if "task" in row.values else "mcqa"
    for field in ("negated", "answerable"):
        if not isinstance(row.values.get(field), bool | None):
            raise row.error(f"{row.values[field]!r} is neither true nor false", field)
    for position, option in enumerate(options):
        if option in options[:position]:
            raise row.error(f"{option!r} occurs twice; remove one", "options")
    return task, CLAIM_LABELS if task == "verification" and not options else options


def _read_gold(row: Row, task: str, options: tuple[str, ...]) -> tuple[str, ...]:
    value = row.values.get("gold")
    values = value if isinstance(value, list) else [value] if value is not None else []
    if options:
        return tuple(_find_label(row, item, task, options) for item in values)
    for item in values:
        if isinstance(item, bool) or not isinstance(item, str | int) or not str(item).strip():
            raise row.error(f"{item!r} is not an answer; expected a string or a node id", "gold")
    return tuple(str(item) for item in values)


def _find_label(row: Row, value: Any, task: str, options: tuple[str, ...]) -> str:
    """Find the label of an option by its number from 0, its letter or its text."""
    labels = option_labels(task, options)
    if isinstance(value, int) and not isinstance(value, bool):
        if 0 <= value < len(options):
            return labels[value]
        raise row.error(f"{value} is not an option; use a number from 0 to {len(options) - 1}", "gold")
    matches = {label for label, option in zip(labels, options, strict=True) if value in (label, option)}
    if len(matches) == 1:
        return matches.pop()
    claim_label = find_claim_label(value) if task == "verification" and not matches else None
    if claim_label and claim_label in labels:
        return claim_label
    if matches:
        raise row.error(f"{value!r} matches options {' and '.join(sorted(matches))}; use the number from 0", "gold")
    raise row.error(f"{value!r} is neither a label ({', '.join(labels)}) nor the text of an option", "gold")


def _read_evidence(row: Row) -> tuple[GoldEvidence, ...]:
    evidence = []
    for item in row.rows("gold_evidence", optional=True):
        item.check_field_names(("kind", "source", "locator", "text", "fact"))
        kind = item.text("kind")
        if kind not in EVIDENCE_KINDS:
            raise item.error(f"{kind!r} is not one of {', '.join(EVIDENCE_KINDS)}", "kind")
        fact = item.values.get("fact")
        group = "" if fact is None else json.dumps(fact, ensure_ascii=False)
        locator = item.values.get("locator")
        locator = json.dumps(locator, ensure_ascii=False) if isinstance(locator, list) else item.text_or_none("locator")
        evidence.append(GoldEvidence(kind, item.text("source"), locator or "", item.text("text"), group))
    return tuple(evidence)


def _read_aliases(row: Row) -> tuple[tuple[str, ...], ...]:
    fields = {f"aliases[{position}]": forms for position, forms in enumerate(row.list("aliases", optional=True))}
    lists = Row(fields, row.file, row.line)
    return tuple(lists.texts(name) for name in fields)


def read_tables(file: Path, name: str) -> Iterator[Table]:
    """Read the tables of ``file`` in order; rows may be ragged, the header may be empty."""
    ids = UniqueIds("table_id")
    return parse_jsonl(file, lambda row: _read_table(row, name, ids))


def _read_table(row: Row, name: str, ids: UniqueIds) -> Table:
    row.check_field_names(TABLE_FIELDS)
    table_id = row.label("table_id")
    ids.add(table_id, row)
    header = read_cell_row(row, "header", optional=True)
    rows = read_cell_rows(row, "rows")
    return Table(name, table_id, row.text_or_none("caption") or "", header, rows)


def read_table_file(path: Path, benchmark: str = "own") -> Table:
    """Read one table file (CSV, TSV or Parquet); values become text, missing values empty cells."""
    require_file(path)
    if path.suffix.lower() == ".parquet":
        return _read_parquet_table(path, benchmark)
    with open_bytes(path) as stream:
        sample = stream.read(SAMPLE_BYTES).decode("utf-8-sig", errors="replace")
    separator = _SEPARATOR_LINE.match(sample)
    delimiter = separator[1] if separator else _detect_delimiter(path, sample)
    numbered = [(number, tuple(fields)) for number, fields in delimited_rows(path, delimiter, quoted=True)]
    if separator:
        numbered = numbered[1:]
    title = _find_title([row for _, row in numbered])
    (_, header), *body = (numbered[1:] if title else numbered) or [(1, ())]
    for number, row in body:
        if len(header) > 1 and any(map(str.strip, row[len(header) :])):  # in one column, commas belong to sentences
            message = (
                f"the row has {len(row)} cells, the header {len(header)}; write a cell with {delimiter!r} in quotes"
            )
            raise BadInput(message, file=path, line=number)
    return Table(benchmark, path.name, title, header, tuple(row for _, row in body))


def _read_parquet_table(path: Path, benchmark: str) -> Table:
    try:
        data = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise BadInput(f"cannot be read as Parquet ({error})", file=path) from error
    columns = [["" if value is None else str(value) for value in column.to_pylist()] for column in data.columns]
    return Table(benchmark, path.name, "", tuple(data.column_names), tuple(zip(*columns, strict=True)))


def _find_title(rows: Sequence[tuple[str, ...]]) -> str:
    """The text of a first line that is a title: it has one cell, and the header and the row below have several.

    Spreadsheets fill it up with empty cells. One of them alone may be a header without a text.
    """
    if len(rows) < MIN_TITLED_ROWS:
        return ""
    first, header, row = rows[:MIN_TITLED_ROWS]
    is_sentence = any(cell.startswith(" ") for cell in header)  # with commas, in a file of one column
    has_columns = len(header) > 1 and len(row) > 1 and not is_sentence
    n_empty = sum(not cell.strip() for cell in first[1:])
    is_filled_up = 1 < n_empty == len(first) - 1 and all(map(str.strip, header))
    return first[0].strip() if has_columns and (len(first) == 1 or is_filled_up) else ""


def _detect_delimiter(path: Path, sample: str) -> str:
    if path.suffix.lower() == ".tsv" and "\t" in sample:
        return "\t"
    for text in (sample, sample.partition("\n")[2].lstrip()):  # a title line has no delimiter
        try:
            return csv.Sniffer().sniff(text, delimiters=",;\t|").delimiter
        except csv.Error:
            continue
    return ","  # one column or an empty file: a comma is harmless
