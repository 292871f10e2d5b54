"""Tables of the user's own (CSV, TSV or Parquet) with claims or questions in JSON lines.

A claim line: ``{"table": "prices.csv", "claim": "…", "label": "SUPPORTS"}``. A question line: ``{"table": "prices.csv",
"question": "…", "options": ["…", "…"], "answer": "B"}``. ``label`` and ``answer`` may be left out; ``id`` and
``caption`` may be given. Tables are named relative to the folder of the claims file.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evidence_assets.datasets.records import CLAIM_LABELS, Question, Table
from evidence_assets.datasets.table_files import claim_label, delimited_rows, json_lines, required_text
from evidence_assets.lake.errors import BadInput


def read(path: Path, benchmark: str = "own_tables", split: str = "all") -> Iterator[tuple[Question, Table]]:
    """Claims and questions in file order, each with its table."""
    known: dict[str, Table] = {}
    for line, record in json_lines(path):
        name = required_text(record, "table", file=path, line=line)
        if name not in known:
            if not (path.parent / name).is_file():
                raise BadInput(f"{name!r} is not a file beside the claims", file=path, line=line, field="table")
            known[name] = read_table(path.parent / name, benchmark, str(record.get("caption") or ""))
        source_id = str(record.get("id", line))
        if "claim" in record:
            text = required_text(record, "claim", file=path, line=line)
            gold = () if record.get("label") is None else (claim_label(record["label"], file=path, line=line),)
            question = Question(benchmark, source_id, split, "verification", text, CLAIM_LABELS, gold, name)
        else:
            question = _choice_question(record, benchmark, source_id, split, name, path, line)
        yield question, known[name]


def read_table(path: Path, benchmark: str = "own_tables", caption: str = "") -> Table:
    """One table file; every value becomes text, missing ones an empty cell."""
    if path.suffix.lower() == ".parquet":
        try:
            data = pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            raise BadInput(f"cannot be read as Parquet ({error})", file=path) from error
        columns = [["" if value is None else str(value) for value in column.to_pylist()] for column in data.columns]
        return Table(benchmark, path.name, caption, tuple(data.column_names), tuple(zip(*columns, strict=True)))
    rows = [row for _, row in delimited_rows(path, _delimiter(path))]
    return Table(benchmark, path.name, caption, rows[0] if rows else (), tuple(row for row in rows[1:] if row))


def _choice_question(
    record: dict[str, Any], benchmark: str, source_id: str, split: str, table: str, path: Path, line: int
) -> Question:
    text = required_text(record, "question", file=path, line=line)
    options = record.get("options")
    if not isinstance(options, list) or len(options) < 2:
        raise BadInput("should list at least two answers", file=path, line=line, field="options")
    labels = tuple(chr(ord("A") + i) for i in range(len(options)))
    answer = record.get("answer")
    if answer is not None and answer not in labels:
        raise BadInput(
            f"{answer!r} is none of {', '.join(labels)}; give the letter of the right option",
            file=path, line=line, field="answer",
        )  # fmt: skip
    gold = () if answer is None else (str(answer),)
    return Question(benchmark, source_id, split, "table_qa", text, tuple(map(str, options)), gold, table)


def _delimiter(path: Path) -> str:
    if path.suffix.lower() == ".tsv":
        return "\t"
    with path.open("rb") as stream:
        sample = stream.read(8192).decode("utf-8-sig", errors="replace")
    try:
        return csv.Sniffer().sniff(sample, delimiters=",;\t|").delimiter
    except csv.Error:
        # One column, or nothing at all: a comma splits neither.
        return ","
