"""UCRET and UCRET-JS: the columns and cells of a table that are evidence for a claim or question.

Cells keep their locations in the whole table: ``r0`` is the header, the body starts at ``r1``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import cast

import numpy as np

from evidence_assets.benchmarks.records import Table
from evidence_assets.experiment.evidence.selection import Parent, SelectedEvidence, Selector
from evidence_assets.experiment.evidence.sources import read_tables
from evidence_assets.experiment.methods import SelectionMethod
from evidence_assets.experiment.stage import StageContext
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, LocalEncoder
from evidence_assets.models.registry import get_encoder
from evidence_assets.models.vectors import Array, unit_rows
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.tables.cell_text import collect_tokens, strip_markup
from evidence_assets.reasoning.tables.table import CellLocation, TableView
from evidence_assets.reasoning.tasks import CAPTION
from evidence_assets.systems.ucret import VERSION
from evidence_assets.systems.ucret.column_repair import (
    TableWords,
    find_needed_columns,
    find_relevant_rows,
    restore_columns,
)
from evidence_assets.systems.ucret.columns import (
    Lines,
    Rule,
    Selection,
    UcretSettings,
    keep_all_lines,
    select_lines,
    split_column_text,
)

_RESERVED_TOKENS = 14  # of an encoder's limit, for its special tokens


def cell_options(question: Question) -> tuple[str, ...]:
    """The options of a question, which cells may have; none for a claim, as its labels are not in cells."""
    return () if question.task == "verification" else question.options


@dataclass(frozen=True)
class TableEvidence:
    """The kept columns of a question's table, and the texts of their non-empty cells in table order."""

    question: Question
    columns: Selection
    cells: Mapping[CellLocation, str]
    relevant_rows: Mapping[int, Rule] | None = None  # rows whose cells are separate evidence; None for all rows

    def is_separate(self, row: int) -> bool:
        """Whether the cells of a row are evidence by themselves rather than lines of their columns."""
        return row > 0 and (self.relevant_rows is None or row in self.relevant_rows)

    def column_text(self, column: int) -> str:
        """Evidence text of a column: a line for each row from the header on, empty for cells that are not in it."""
        lines = {i: text for (i, j), text in self.cells.items() if j == column and not self.is_separate(i)}
        return "\n".join(lines.get(row, "") for row in range(max(lines, default=-1) + 1))


_Column = tuple[str, Sequence[str]]
"""Header and cells of a column."""


@dataclass(frozen=True)
class _ParsedTable:
    """A parsed table, shared by its questions."""

    view: TableView
    columns: tuple[_Column, ...]
    words: TableWords

    @classmethod
    def of(cls, table: Table) -> _ParsedTable:
        view = TableView.of(table.caption, table.header, table.rows)
        header = [cell.plain for cell in view.grid[0]]
        cells = [tuple(row[j].plain for row in view.grid[1:]) for j in range(view.width)]
        return cls(view, tuple(zip(header, cells, strict=True)), TableWords.of(header, cells))


def _encode_lines(encoder: Encoder, lines: Sequence[_Column], settings: UcretSettings) -> Array:
    """One vector per line, given by its name and cells: the mean of its pieces if it exceeds the encoder's limit."""
    texts = [split_column_text(name, cells, sys.maxsize)[0] for name, cells in lines]
    # This many characters are within the limit even if each is a token.
    max_length = max(encoder.max_tokens - _RESERVED_TOKENS, encoder.max_tokens // 2, 1)
    pieces_of_lines = [
        [text] if count <= encoder.max_tokens else split_column_text(name, cells, max_length)
        for text, count, (name, cells) in zip(texts, encoder.count_tokens(texts), lines, strict=True)
    ]
    normalize = settings.normalize or settings.measure != "jsd"
    encode = encoder.encode_sentences if normalize else cast(LocalEncoder, encoder).pool_sentences
    vectors = np.asarray(encode([piece for pieces in pieces_of_lines for piece in pieces]), dtype=np.float64)
    groups = np.split(vectors, np.cumsum([len(pieces) for pieces in pieces_of_lines])[:-1]) if lines else []
    means = np.array([group.mean(axis=0) for group in groups]).reshape(len(lines), encoder.dimensions)
    return unit_rows(means) if normalize else means


def collapse_tables(
    questions: Sequence[Question], tables: Mapping[str, Table], settings: UcretSettings, encoder: Encoder
) -> Iterator[TableEvidence]:
    """Select columns and cells for many questions, and yield the evidence of each."""
    table_ids = dict.fromkeys(question.table_id for question in questions)
    parsed = {table_id: _ParsedTable.of(tables[table_id]) for table_id in table_ids}
    selections = _select_columns(questions, parsed, settings, encoder)
    for question, columns in zip(questions, selections, strict=True):
        yield _select_cells(question, parsed[question.table_id], columns, settings)


def _select_columns(
    questions: Sequence[Question], tables: Mapping[str, _ParsedTable], settings: UcretSettings, encoder: Encoder
) -> list[Selection]:
    """Columns by words and vectors, before the repair; all if no question or claim has them compared."""
    compares_columns = any(cell_options(question) or not settings.whole_claims for question in questions)
    if settings.measure == "all" or not compares_columns:
        return [keep_all_lines(tables[question.table_id].view.width) for question in questions]
    texts = [" ".join([q.text, *(cell_options(q) if settings.with_options else ())]) for q in questions]
    text_vectors = _encode_lines(encoder, [("", [strip_markup(text)]) for text in texts], settings)
    lines = _encode_columns([table.columns for table in tables.values()], settings, encoder)
    indices = {table_id: i for i, table_id in enumerate(tables)}
    table_of = [indices[question.table_id] for question in questions]
    return select_lines([collect_tokens([text]) for text in texts], text_vectors, table_of, lines, settings)


def _encode_columns(tables: Sequence[Sequence[_Column]], settings: UcretSettings, encoder: Encoder) -> list[Lines]:
    """Tokens and vectors of the columns of each table."""
    columns = [column for table in tables for column in table]
    lines = [(name, () if settings.column_text == "header" and name else cells) for name, cells in columns]
    vectors = iter(_encode_lines(encoder, lines, settings))
    return [
        Lines(
            tuple(collect_tokens([name, *cells]) for name, cells in table),
            np.array([next(vectors) for _ in table]).reshape(len(table), encoder.dimensions),
        )
        for table in tables
    ]


def _select_cells(
    question: Question, table: _ParsedTable, columns: Selection, settings: UcretSettings
) -> TableEvidence:
    """Repair the columns if the settings say so, and select the cells; any row may contradict a claim."""
    options = cell_options(question)
    if settings.whole_claims and not options:
        columns = keep_all_lines(columns.width)
    if settings.repair:
        needed = find_needed_columns(table.view, table.words, question.text, has_options=bool(options))
        columns = restore_columns(columns, table.words, question.text, options, needed)
    cells = {(i, j): row[j].plain for i, row in enumerate(table.view.grid) for j in columns.indices if row[j].plain}
    if not options:
        return TableEvidence(question, columns, cells)
    relevant_rows = find_relevant_rows(table.words, columns.indices, question.text, options)
    return TableEvidence(question, columns, cells, {i + 1: rule for i, rule in relevant_rows.items()})


class CollapsedTableSelector:
    """Selects the columns and cells that a UCRET variant keeps, with the rules that kept them."""

    def __init__(self, tables: Mapping[str, tuple[Table, str]], settings: UcretSettings, encoder: Encoder) -> None:
        self._tables = tables
        self._settings = settings
        self._encoder = encoder
        hashes = sorted(version for _, version in tables.values())
        self.version = content_id(VERSION, asdict(settings), hashes, encoder.model_id, encoder.revision)

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        tables = {table_id: table for table_id, (table, _) in self._tables.items()}
        with_tables = [question for question in questions if question.table_id in tables]
        collapsed = collapse_tables(with_tables, tables, self._settings, self._encoder)
        for question in questions:
            if question.table_id in self._tables:
                table, version = self._tables[question.table_id]
                parents = (Parent("table", question.table_id, version),)
                evidence = list(_build_evidence(next(collapsed), parents))
                if caption := table.caption.strip():
                    evidence.append(
                        SelectedEvidence("", CAPTION, parents, CAPTION, caption, 1.0, json.dumps({"rule": CAPTION}))
                    )
                yield evidence
            else:
                yield []


def _build_evidence(evidence: TableEvidence, parents: tuple[Parent, ...]) -> Iterator[SelectedEvidence]:
    for j, rule, score in evidence.columns.kept_lines:
        if text := evidence.column_text(j):
            yield SelectedEvidence("", "column", parents, f"c{j}", text, score, json.dumps({"column": rule}))
    kept_lines = {item.line: item for item in evidence.columns.kept_lines}
    for (row, column), text in evidence.cells.items():
        if evidence.is_separate(row):
            row_rule = "all" if evidence.relevant_rows is None else evidence.relevant_rows[row]
            reason = json.dumps({"column": kept_lines[column].rule, "row": row_rule})
            yield SelectedEvidence("", "cell", parents, f"r{row}c{column}", text, kept_lines[column].score, reason)


class Ucret(SelectionMethod[UcretSettings]):
    """UCRET and UCRET-JS: columns and cells of a table, by their distance to the question."""

    name = "ucret"
    version = VERSION
    settings_class = UcretSettings
    sources = ("tables",)
    model_kinds = ("encoder",)
    published_style = "cases"

    def open_selector(self, context: StageContext) -> Selector:
        return CollapsedTableSelector(read_tables(context), self.settings, get_encoder(context.profile.encoder))


class UcretSeveral(Ucret):
    """UCRET with a published prompt for several options."""

    name = "ucret_several"
    published_style = "cases_several"
