"""UCRET and UCRET-JS: from a claim or question and its table to the cells that are evidence, and to an answer.

Cells keep their place in the whole table: ``r0`` is the header as read, the body starts at ``r1``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from evidence_assets.benchmarks.records import Table
from evidence_assets.experiment.evidence.selection import Parent, Question, SelectedEvidence, Selector
from evidence_assets.experiment.evidence.sources import Bm25Chunks, open_benchmark_corpus, read_tables
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.system import Method, System
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.registry import get_encoder as encoder_in_use
from evidence_assets.models.vectors import unit_rows
from evidence_assets.reasoning.tables.cell_text import collect_tokens, strip_markup
from evidence_assets.reasoning.tables.table import CellLocation, TableView
from evidence_assets.reasoning.tasks import CAPTION
from evidence_assets.systems.ucret import VERSION
from evidence_assets.systems.ucret.column_repair import TableWords, find_relevant_rows, restore_columns, restore_rows
from evidence_assets.systems.ucret.columns import (
    BridgeSettings,
    KeptLine,
    Lines,
    Measure,
    Rule,
    Selection,
    UcretSettings,
    keep_all_lines,
    select_lines,
    split_column_text,
    tokenize_columns,
)
from evidence_assets.systems.ucret.spherical_kmeans import Floats

# Tokens kept free in what an encoder reads, for the marks that it puts around a text.
_SPARE = 14


@dataclass(frozen=True)
class TableQuestion:
    """What is asked of a table; a claim has no options that are matched with cells."""

    question_id: str
    text: str
    table_id: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class EvidenceCell:
    """One cell as evidence: where it stands, what it says, and which rule kept its column (and its row)."""

    table_id: str
    place: CellLocation
    text: str
    score: float
    column_rule: str
    row_rule: str

    @property
    def locator(self) -> str:
        return f"r{self.place[0]}c{self.place[1]}"


@dataclass(frozen=True)
class TableEvidence:
    """The collapsed table of one question: kept columns and rows, and their cells in analysis order."""

    question: TableQuestion
    columns: Selection
    rows: Selection | None
    cells: tuple[EvidenceCell, ...]
    relevant_rows: Mapping[int, Rule] | None = None  # rows whose cells are evidence one by one; None for all

    def is_separate(self, cell: EvidenceCell) -> bool:
        """Whether a cell is a piece of evidence of its own, and not a line of its column."""
        row = cell.place[0]
        return row > 0 and (self.relevant_rows is None or row in self.relevant_rows)

    def column_text(self, column: int) -> str:
        """A kept column as one piece of evidence: a line for each row of the table from its header on, empty where the
        cell is empty, left out, or evidence of its own."""
        lines = {
            cell.place[0]: cell.text for cell in self.cells if cell.place[1] == column and not self.is_separate(cell)
        }
        return "\n".join(lines.get(row, "") for row in range(max(lines, default=-1) + 1))


@dataclass(frozen=True)
class _ParsedTable:
    """A table read once for all of its questions."""

    view: TableView
    header: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    words: TableWords

    @classmethod
    def of(cls, table: Table) -> _ParsedTable:
        view = TableView.of(table.table_id, table.caption, table.header, table.rows)
        inner = range(1, len(view.grid))
        header = tuple(cell.plain for cell in view.grid[0])
        read = tuple(tuple(view.grid[i][j].plain for i in inner) for j in range(view.width))
        return cls(view, header, read, TableWords.of(header, read))


def encode_unique(encoder: Encoder, texts: Sequence[str]) -> Floats:
    """Vectors of texts, each distinct text encoded once."""
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return np.zeros((0, encoder.dimensions))
    vectors = np.asarray(encoder.encode_sentences(distinct), dtype=np.float64)
    position = {text: i for i, text in enumerate(distinct)}
    rows: Floats = vectors[[position[text] for text in texts]]
    return rows


def _pooled(encoder: Encoder, lines: Sequence[list[str]]) -> Floats:
    """One vector a line: the mean of its pieces' vectors, of unit length. Equal pieces are encoded once."""
    vectors = encode_unique(encoder, [piece for pieces in lines for piece in pieces])
    ends = np.cumsum([len(pieces) for pieces in lines])
    groups = np.split(vectors, ends[:-1]) if len(lines) else []
    means = np.array([group.mean(axis=0) for group in groups]).reshape(len(lines), encoder.dimensions)
    return unit_rows(means)


def _texts(encoder: Encoder, texts: Sequence[str]) -> Floats:
    return _pooled(encoder, _pieces(encoder, [("", [strip_markup(text)]) for text in texts]))


def _pieces(encoder: Encoder, lines: Sequence[tuple[str, Sequence[str]]]) -> list[list[str]]:
    """Texts of columns, each with its name: whole where the encoder reads that much, else in as few pieces as it surely
    reads."""
    whole = [split_column_text(name, cells, sys.maxsize)[0] for name, cells in lines]
    # The encoder reads so many characters even where each is a token.
    longest = max(encoder.max_tokens - _SPARE, encoder.max_tokens // 2, 1)
    return [
        [text] if count <= encoder.max_tokens else split_column_text(name, cells, longest)
        for text, count, (name, cells) in zip(whole, encoder.count_tokens(whole), lines, strict=True)
    ]


def collapse_tables(
    questions: Sequence[TableQuestion], tables: dict[str, Table], settings: UcretSettings, encoder: Encoder
) -> Iterator[TableEvidence]:
    """First stage for many questions: which columns (and rows) remain, and their cells, one question at a time."""
    names = list(dict.fromkeys(question.table_id for question in questions))
    place = {name: i for i, name in enumerate(names)}
    read = [_ParsedTable.of(tables[name]) for name in names]
    table_of = [place[question.table_id] for question in questions]
    texts = [" ".join([question.text, *(question.options if settings.with_options else ())]) for question in questions]
    tokens = [collect_tokens([text]) for text in texts]
    whole = [settings.whole_claims and not question.options for question in questions]
    by = replace(settings.columns, measure="all") if all(whole) else settings.columns
    vectors = _texts(encoder, texts) if by.measure in {"cosine", "jsd"} else np.zeros((len(texts), 1))
    chosen = select_lines(tokens, vectors, table_of, _column_lines(read, by.measure, settings, encoder), by)
    chosen = [keep_all_lines(found.width) if all_ else found for found, all_ in zip(chosen, whole, strict=True)]
    if settings.repair:
        chosen = [
            restore_columns(
                selection,
                read[t].words,
                question.text,
                question.options,
                # Needed for claims; for a question with options the names it says are put back anyway.
                () if question.options else read[t].view.row_headers,
            )
            for selection, t, question in zip(chosen, table_of, questions, strict=True)
        ]
    rows: list[Selection | None] = [None] * len(questions)
    if settings.lines is not None:
        # Rows are told apart by what is asked; options stand in most of them.
        alone = [question.text for question in questions]
        row_tokens, row_vectors = [collect_tokens([text]) for text in alone], _texts(encoder, alone)
        found = select_lines(row_tokens, row_vectors, table_of, _row_lines(read, encoder), settings.lines)
        rows = [
            restore_rows(selection, read[t].words, " ".join([question.text, *question.options]))
            for selection, t, question in zip(found, table_of, questions, strict=True)
        ]
    for question, t, columns_, rows_ in zip(questions, table_of, chosen, rows, strict=True):
        cells = _cells(question.table_id, read[t], columns_, rows_)
        yield TableEvidence(question, columns_, rows_, cells, _bearing(read[t], question, columns_))


def _bearing(read: _ParsedTable, question: TableQuestion, columns_: Selection) -> dict[int, Rule] | None:
    """The rows of the table that bear on an option; a claim has none, and any row may speak against it."""
    if not question.options:
        return None
    rows = find_relevant_rows(read.words, read.columns, columns_.indices, question.text, question.options)
    return {i + 1: rule for i, rule in rows.items()}


def _column_lines(
    read: Sequence[_ParsedTable], measure: Measure, settings: UcretSettings, encoder: Encoder
) -> list[Lines]:
    tokens = [tokenize_columns(table.header, table.columns) for table in read]
    if measure not in {"cosine", "jsd"}:
        return [Lines(words, np.zeros((len(words), 1))) for words in tokens]
    lines = [
        (name, () if settings.column_text == "header" and name else cells_)
        for table in read
        for name, cells_ in zip(table.header, table.columns, strict=True)
    ]
    return _split(tokens, _pooled(encoder, _pieces(encoder, lines)))


def _row_lines(read: Sequence[_ParsedTable], encoder: Encoder) -> list[Lines]:
    rows = [list(zip(*table.columns, strict=True)) for table in read]
    tokens = [tuple(map(collect_tokens, table)) for table in rows]
    return _split(tokens, _pooled(encoder, _pieces(encoder, [("", row) for table in rows for row in table])))


def _split(tokens: Sequence[tuple[frozenset[str], ...]], vectors: Floats) -> list[Lines]:
    ends = np.cumsum([len(words) for words in tokens])
    parts = np.split(vectors, ends[:-1]) if tokens else []
    return [Lines(words, part) for words, part in zip(tokens, parts, strict=True)]


def _cells(table_id: str, read: _ParsedTable, columns_: Selection, rows: Selection | None) -> tuple[EvidenceCell, ...]:
    """Cells where kept columns and rows cross, with their header cells; empty cells are no evidence."""
    kept_rows = {kept.line + 1: kept for kept in rows.kept} if rows else None
    heads = {*read.view.header_rows, *read.view.sections, 0}
    found = []
    for i, row in enumerate(read.view.grid):
        if kept_rows is not None and i not in heads and i not in kept_rows:
            continue
        by_row = kept_rows.get(i, KeptLine(i, "all", 1.0)) if kept_rows is not None else KeptLine(i, "all", 1.0)
        found += [
            EvidenceCell(table_id, (i, kept.line), row[kept.line].plain, kept.score, kept.rule, by_row.rule)
            for kept in columns_.kept
            if row[kept.line].plain
        ]
    return tuple(found)


class CollapsedTable:
    """The columns and cells that a UCRET variant keeps, each with the rules that kept it."""

    def __init__(self, tables: Mapping[str, tuple[Table, str]], settings: UcretSettings, encoder: Encoder) -> None:
        self._tables, self._settings, self._encoder = tables, settings, encoder
        hashes = sorted(version for _, version in tables.values())
        self.version = content_id(VERSION, asdict(settings), hashes, encoder.model_id, encoder.revision)

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        known = [q for q in questions if q.table_id in self._tables]
        asked = [
            TableQuestion(q.question_id, q.text, q.table_id, () if q.task == "verification" else q.options)
            for q in known
        ]
        tables = {name: table for name, (table, _) in self._tables.items()}
        found = collapse_tables(asked, tables, self._settings, self._encoder)
        for question in questions:
            if question.table_id in self._tables:
                table, version = self._tables[question.table_id]
                parents = (Parent("table", question.table_id, version),)
                picks = list(_picks(next(found), parents))
                if caption := table.caption.strip():
                    picks.append(
                        SelectedEvidence("", CAPTION, parents, CAPTION, caption, 1.0, json.dumps({"rule": CAPTION}))
                    )
                yield picks
            else:
                yield []


def _picks(evidence: TableEvidence, parents: tuple[Parent, ...]) -> Iterator[SelectedEvidence]:
    for kept in evidence.columns.kept:
        if text := evidence.column_text(kept.line):
            yield SelectedEvidence(
                "", "column", parents, f"c{kept.line}", text, kept.score, json.dumps({"column": kept.rule})
            )
    for cell in filter(evidence.is_separate, evidence.cells):
        row_rule = cell.row_rule if evidence.relevant_rows is None else evidence.relevant_rows[cell.place[0]]
        why = json.dumps({"column": cell.column_rule, "row": row_rule})
        yield SelectedEvidence("", "cell", parents, cell.locator, cell.text, cell.score, why)


class BridgedTable:
    """The cells that a UCRET variant keeps, and behind them what another selector finds outside the table.

    Outside evidence keeps its own kind (chunk, triple …), so that it is never taken for a cell, and its ``why`` says
    ``outside``.
    """

    def __init__(self, cells: CollapsedTable, outside: Selector | None) -> None:
        self._cells, self._outside = cells, outside
        self.version = content_id("bridge", cells.version, outside.version if outside else "")

    @property
    def notes(self) -> dict[str, str]:
        """What the asset's metadata says of it."""
        return {} if self._outside else {"no_bridge": "the benchmark names no corpus: there are cells only"}

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        cells = self._cells.select(questions)
        texts = [q.text if q.task == "verification" else " ".join([q.text, *q.options]) for q in questions]
        whole = [replace(q, text=text, options=()) for q, text in zip(questions, texts, strict=True)]
        beside = self._outside.select(whole) if self._outside is not None else ([] for _ in whole)
        for picks, found in zip(cells, beside, strict=True):
            yield picks + [replace(pick, why=json.dumps({"rule": "outside"})) for pick in found]


def _collapsed(context: StageContext, settings: UcretSettings) -> CollapsedTable:
    return CollapsedTable(read_tables(context), settings, encoder_in_use(context.profile.encoder))


def _bridged(context: StageContext, settings: BridgeSettings) -> Selector:
    outside = (
        Bm25Chunks(open_benchmark_corpus(context), settings.passages, VERSION) if context.benchmark.corpus else None
    )
    return BridgedTable(_collapsed(context, settings), outside)


SYSTEM = System(
    "ucret",
    VERSION,
    {
        "ucret": Method(
            settings=UcretSettings,
            open_selector=_collapsed,
            sources=("tables",),
            model_kinds=("encoder",),
            published_style="cases",
        ),
        "ucret_bridge": Method(
            settings=BridgeSettings,
            open_selector=_bridged,
            sources=("tables", "corpus"),
            has_own_encoder=True,
            model_kinds=("encoder",),
            published_style="cases",
        ),
    },
)
