"""UCRET and UCRET-JS: from a claim or question and its table to the cells that are evidence, and to an answer.

Belongs here: the published first stage and its variants, composed from column selection, repairs and row selection; the
cells that remain, each with the rule that kept it. The second and third stage are typed tasks: a solver gets the cells
as evidence, explains each label or option, and compares the explanations. `TableSolver` does so without a model;
`table_tasks` holds what a language model is told.

Cells keep their place in the whole table: ``r0`` is the header as read, the body starts at ``r1``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from evidence_assets.benchmarks.records import Table
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.reasoning.tables.choices import answer_choice
from evidence_assets.reasoning.tables.claims import verify_claim
from evidence_assets.reasoning.tables.shape import TableShape, detect_shape
from evidence_assets.reasoning.tables.text import plain_text, token_set
from evidence_assets.reasoning.tables.view import Place, TableAnswer, TableView
from evidence_assets.systems.ucret.column_repair import TableWords, restore_columns, restore_rows
from evidence_assets.systems.ucret.columns import (  # fmt: skip
    JACCARD_ONLY,
    KEEP_ALL,
    PUBLISHED,
    PUBLISHED_JS,
    ColumnSettings,
    Kept,
    Lines,
    Selection,
    column_pieces,
    column_tokens,
    select_lines,
)
from evidence_assets.systems.ucret.spherical_kmeans import Floats, unit_rows

VERSION = "1"

# Signs of a column read at once; safe for an encoder of 256 tokens even where every sign is a token.
_PIECE = 240


@dataclass(frozen=True)
class Variant:
    """A named way from table to evidence.

    Attributes
    ----------
    columns
        How columns are selected.
    column_text
        What of a column is encoded: its header and cells as published, or its header (its cells if it has none).
    with_options
        Whether options belong to the text that columns are compared with.
    repair
        Whether columns with the numbers, names and options of the text, and those that name rows, are put back.
    rows
        How rows are selected too; rows that hold a name of the text always stay. None keeps all.
    """

    name: str
    columns: ColumnSettings
    column_text: Literal["header_and_cells", "header"] = "header_and_cells"
    with_options: bool = False
    repair: bool = False
    rows: ColumnSettings | None = None

    @property
    def version(self) -> str:
        """Hash of the system's version and of everything in this variant that decides which cells are kept."""
        return content_id(VERSION, asdict(self))


# Set on the first half of the development questions; see bench/measure_tables.py.
EMBEDDED = ColumnSettings("embedded", "cosine", jaccard=0.40, gate=0.70)
EMBEDDED_JS = ColumnSettings("embedded_js", "jsd", jaccard=0.40, gate=0.20, temperature=0.02)
_BOTH_WAYS = ColumnSettings("rows", "cosine", jaccard=0.40, gate=0.70, fallback=5)

VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in (
        Variant("ucret_published", PUBLISHED),
        Variant("ucret_js_published", PUBLISHED_JS),
        Variant("ucret", EMBEDDED, "header", with_options=True, repair=True),
        Variant("ucret_js", EMBEDDED_JS, "header", with_options=True, repair=True),
        Variant("keep_all", KEEP_ALL),
        Variant("jaccard_only", JACCARD_ONLY),
        Variant("bidirectional", EMBEDDED, "header", with_options=True, repair=True, rows=_BOTH_WAYS),
    )
}


# What each parameter of a grid sets, the measures that it belongs to, and its range.
_GRID: dict[str, tuple[str, frozenset[str], float, float]] = {
    "clusters": ("clusters", frozenset({"cosine", "jsd"}), 1, 1000),
    "tau": ("jaccard", frozenset({"cosine", "jsd", "words"}), 0, 1),
    "theta": ("gate", frozenset({"cosine"}), -1, 1),
    "eta": ("gate", frozenset({"jsd"}), 0, 1),
    "temperature": ("temperature", frozenset({"jsd"}), 1e-6, 1e6),
}
GRID_PARAMETERS = tuple(_GRID)


def variant_with(name: str, settings: Mapping[str, float]) -> Variant:
    """A named variant with some of its column settings set otherwise (k is called ``clusters``).

    Examples
    --------
    >>> variant_with("ucret_published", {"clusters": 3, "theta": 0.55}).columns.clusters
    3

    Raises
    ------
    BadInput
        If there is no such variant, or a setting does not belong to its measure or lies outside its range.
    """
    if name not in VARIANTS:
        raise BadInput(f"there is no UCRET variant {name!r}; known: {', '.join(VARIANTS)}", field="variant")
    variant = VARIANTS[name]
    changes: dict[str, Any] = {}
    for parameter, value in settings.items():
        field, measures, low, high = _GRID[parameter]
        if variant.columns.measure not in measures:
            raise BadInput(f"means nothing for {name}, which selects by {variant.columns.measure}", field=parameter)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise BadInput(f"is {value!r}; it should be a number from {low:g} to {high:g}", field=parameter)
        if parameter == "clusters" and value != int(value):
            raise BadInput(f"is {value!r}; it should be a whole number", field=parameter)
        changes[field] = int(value) if parameter == "clusters" else float(value)
    return replace(variant, columns=replace(variant.columns, **changes)) if changes else variant


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
    place: Place
    text: str
    score: float
    column_rule: str
    row_rule: str

    @property
    def locator(self) -> str:
        return f"r{self.place[0]}c{self.place[1]}"


@dataclass(frozen=True)
class TableEvidence:
    """The collapsed table of one question: kept columns and rows, and their cells in reading order."""

    question: TableQuestion
    columns: Selection
    rows: Selection | None
    cells: tuple[EvidenceCell, ...]

    def view(self, caption: str = "") -> TableView:
        """The collapsed table as the reasoner and the prompts read it."""
        return TableView.from_cells(self.question.table_id, {cell.place: cell.text for cell in self.cells}, caption)


@dataclass(frozen=True)
class _Read:
    """A table read once for all of its questions."""

    shape: TableShape
    header: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    words: TableWords

    @classmethod
    def of(cls, table: Table) -> _Read:
        shape = detect_shape(table.header, table.rows)
        inner = range(1, len(shape.grid))
        header = tuple(cell.plain for cell in shape.grid[0])
        read = tuple(tuple(shape.grid[i][j].plain for i in inner) for j in range(shape.width))
        return cls(shape, header, read, TableWords.of(header, read))

    def rows(self) -> list[tuple[str, ...]]:
        return list(zip(*self.columns, strict=True))


def encode_unique(encoder: Encoder, texts: Sequence[str]) -> Floats:
    """Vectors of texts, each distinct text encoded once."""
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return np.zeros((0, encoder.dimensions))
    vectors = np.asarray(encoder.sentences(distinct), dtype=np.float64)
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
    return _pooled(encoder, [column_pieces("", [plain_text(text)], _PIECE) for text in texts])


def select_evidence(
    questions: Sequence[TableQuestion], tables: dict[str, Table], variant: Variant, encoder: Encoder
) -> list[TableEvidence]:
    """First stage for many questions at once; see `collapsed_tables`."""
    return list(collapsed_tables(questions, tables, variant, encoder))


def collapsed_tables(
    questions: Sequence[TableQuestion], tables: dict[str, Table], variant: Variant, encoder: Encoder
) -> Iterator[TableEvidence]:
    """First stage for many questions: which columns (and rows) remain, and their cells.

    Selected for all at once, but the cells of one question at a time are made: together they are by far the most.

    Raises
    ------
    KeyError
        If a question names a table that is not there.
    """
    names = list(dict.fromkeys(question.table_id for question in questions))
    place = {name: i for i, name in enumerate(names)}
    read = [_Read.of(tables[name]) for name in names]
    table_of = [place[question.table_id] for question in questions]
    texts = [" ".join([question.text, *(question.options if variant.with_options else ())]) for question in questions]
    tokens = [token_set([text]) for text in texts]
    vectors = _texts(encoder, texts) if variant.columns.measure in {"cosine", "jsd"} else np.zeros((len(texts), 1))
    chosen = select_lines(tokens, vectors, table_of, _column_lines(read, variant, encoder), variant.columns)
    if variant.repair:
        chosen = [
            restore_columns(selection, read[t].words, question.text, question.options, _row_headers(read[t], question))
            for selection, t, question in zip(chosen, table_of, questions, strict=True)
        ]
    rows: list[Selection | None] = [None] * len(questions)
    if variant.rows is not None:
        # Rows are told apart by what is asked; options stand in most of them.
        alone = [question.text for question in questions]
        found = select_lines(
            [token_set([text]) for text in alone],
            _texts(encoder, alone),
            table_of,
            _row_lines(read, encoder),
            variant.rows,
        )
        rows = [
            restore_rows(selection, read[t].words, " ".join([question.text, *question.options]))
            for selection, t, question in zip(found, table_of, questions, strict=True)
        ]
    for question, t, columns_, rows_ in zip(questions, table_of, chosen, rows, strict=True):
        yield TableEvidence(question, columns_, rows_, _cells(question.table_id, read[t], columns_, rows_))


def _row_headers(read: _Read, question: TableQuestion) -> tuple[int, ...]:
    """Columns that name rows: needed for claims; for a question with options the names it says are put back anyway."""
    return () if question.options else read.shape.row_header_columns


def _column_lines(read: Sequence[_Read], variant: Variant, encoder: Encoder) -> list[Lines]:
    tokens = [column_tokens(table.header, table.columns) for table in read]
    if variant.columns.measure not in {"cosine", "jsd"}:
        return [Lines(words, np.zeros((len(words), 1))) for words in tokens]
    pieces = [
        column_pieces(name, () if variant.column_text == "header" and name else cells_, _PIECE)
        for table in read
        for name, cells_ in zip(table.header, table.columns, strict=True)
    ]
    return _split(tokens, _pooled(encoder, pieces))


def _row_lines(read: Sequence[_Read], encoder: Encoder) -> list[Lines]:
    tokens = [tuple(token_set(row) for row in table.rows()) for table in read]
    pieces = [column_pieces("", row, _PIECE) for table in read for row in table.rows()]
    return _split(tokens, _pooled(encoder, pieces))


def _split(tokens: Sequence[tuple[frozenset[str], ...]], vectors: Floats) -> list[Lines]:
    ends = np.cumsum([len(words) for words in tokens])
    parts = np.split(vectors, ends[:-1]) if tokens else []
    return [Lines(words, part) for words, part in zip(tokens, parts, strict=True)]


def _cells(table_id: str, read: _Read, columns_: Selection, rows: Selection | None) -> tuple[EvidenceCell, ...]:
    """Cells where kept columns and rows cross, with their header cells; empty cells are no evidence."""
    kept_rows = {kept.line + 1: kept for kept in rows.kept} if rows else None
    heads = {*read.shape.header_rows, *read.shape.sections, 0}
    found = []
    for i, row in enumerate(read.shape.grid):
        if kept_rows is not None and i not in heads and i not in kept_rows:
            continue
        by_row = kept_rows.get(i, Kept(i, "all", 1.0)) if kept_rows is not None else Kept(i, "all", 1.0)
        found += [
            EvidenceCell(table_id, (i, kept.line), row[kept.line].plain, kept.score, kept.rule, by_row.rule)
            for kept in columns_.kept
            if row[kept.line].plain
        ]
    return tuple(found)


def answer(evidence: TableEvidence, labels: Sequence[str], *, negated: bool = False) -> TableAnswer:
    """Second and third stage without a language model, from the evidence cells alone."""
    question, view = evidence.question, evidence.view()
    if not question.options:
        return verify_claim(view, question.text)
    return answer_choice(view, question.text, labels, question.options, negated=negated)
