"""Baseline selectors: BM25 and embedding cosine, over chunks or the cells of a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evidence_assets.benchmarks.records import Table
from evidence_assets.experiment.evidence.selection import QUESTIONS_PER_GROUP, Parent, SelectedEvidence, Selector
from evidence_assets.experiment.evidence.sources import Bm25Chunks, CosineChunks, open_benchmark_corpus, read_tables
from evidence_assets.experiment.methods import NoSettings, SelectionMethod, StagesMethod
from evidence_assets.experiment.stage import Stage, StageContext
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import FloatArray
from evidence_assets.models.registry import CachingEncoder, get_encoder
from evidence_assets.models.vectors import top_positions
from evidence_assets.profiles import Profile
from evidence_assets.reasoning.questions import Question
from evidence_assets.reproduction.published_figures import RECORDED_ANSWERS
from evidence_assets.retrieval.bm25 import lowercase_words, score_texts
from evidence_assets.systems.baselines import VERSION
from evidence_assets.systems.baselines.recorded_answers import recorded_stages


@dataclass(frozen=True)
class BaselineSettings:
    """``k``: Pieces of evidence for each question and option."""

    k: int = 5


def verbalise_cell(table: Table, row: int, column: int) -> str:
    """A cell as a self-contained text: row name, column header, value."""
    value = table.rows[row][column]
    header = table.header[column].strip() if column < len(table.header) else ""
    name = table.rows[row][0].strip() if column else ""
    return ": ".join(part for part in (name, header, value.strip()) if part)


def add_header_cells(
    table: Table, cells: Sequence[tuple[tuple[int, int], float]]
) -> list[tuple[str, str, float, str | None]]:
    """Locator, text, score and reason of the best cells, then of their headers and row names.

    Row numbers are those of the lake: ``r0`` is the header, ``r1`` the first row below it.
    """
    best = [(r + 1, c, score, None) for (r, c), score in cells]
    headers = {(0, c): "header" for _, c, _, _ in best} | {(r, 0): "row name" for r, _, _, _ in best}
    for r, c, _, _ in best:
        headers.pop((r, c), None)
    lowest_score = best[-1][2] if best else 0.0
    lines = (table.header, *table.rows)
    header_cells = [(r, c, lowest_score, json.dumps({"rule": rule})) for (r, c), rule in sorted(headers.items())]
    return [
        (f"r{r}c{c}", lines[r][c], score, reason)
        for r, c, score, reason in (*best, *header_cells)
        if c < len(lines[r]) and lines[r][c]
    ]


CellTexts = tuple[Sequence[str], Sequence[str]]
"""The queries and cell texts of a table."""
CellScorer = Callable[[Sequence[CellTexts]], list[FloatArray]]
"""Scores of each table (queries × cells)."""


def score_cells_by_bm25(requests: Sequence[CellTexts]) -> list[FloatArray]:
    """BM25 of each query against each cell; the table is the corpus."""
    words = ((list(map(lowercase_words, texts)) for texts in request) for request in requests)
    return [score_texts(cells, queries) for queries, cells in words]


def cosine_cell_scorer(encoder: CachingEncoder) -> CellScorer:
    """A scorer by the cosine of embeddings, which encodes the texts of all tables together."""

    def score(requests: Sequence[CellTexts]) -> list[FloatArray]:
        # one call fills the encoder's cache
        encoder.encode_sentences([text for request in requests for texts in request for text in texts])
        return [encoder.encode_sentences(queries) @ encoder.encode_sentences(cells).T for queries, cells in requests]

    return score


class CellSelector:
    """Selects the ``k`` cells of the question's table with the highest scores for question and option.

    A question gets no evidence if its table has no rows or is unknown.
    """

    def __init__(self, tables: Mapping[str, tuple[Table, str]], scores: CellScorer, k: int, version: str) -> None:
        self._tables = tables
        self._scores = scores
        self._k = k
        self.version = content_id("cells", VERSION, k, version, sorted(v for _, v in tables.values()))

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        for start in range(0, len(questions), QUESTIONS_PER_GROUP):
            group = [(question, self._cells(question)) for question in questions[start : start + QUESTIONS_PER_GROUP]]
            requests = [([q.query(o) for _, o in _hypotheses(q)], list(cells.values())) for q, cells in group if cells]
            scores = iter(self._scores(requests))
            for question, cells in group:
                yield list(self._rows(question, list(cells), next(scores))) if cells else []

    def _cells(self, question: Question) -> dict[tuple[int, int], str]:
        """The texts of the cells of the question's table that are not empty."""
        if question.table_id not in self._tables:
            return {}
        table, _ = self._tables[question.table_id]
        cells = [(r, c) for r, row in enumerate(table.rows) for c, text in enumerate(row) if text.strip()]
        return {cell: verbalise_cell(table, *cell) for cell in cells}

    def _rows(
        self, question: Question, cells: Sequence[tuple[int, int]], scores: FloatArray
    ) -> Iterator[SelectedEvidence]:
        table, version = self._tables[question.table_id]
        parent = (Parent("table", table.table_id, version),)
        for (label, _), cell_scores in zip(_hypotheses(question), scores, strict=True):
            positions = top_positions(np.where(cell_scores > 0, cell_scores, -np.inf), self._k)
            best = [(cells[i], float(cell_scores[i])) for i in positions]
            yield from (SelectedEvidence(label, "cell", parent, *each) for each in add_header_cells(table, best))


def _hypotheses(question: Question) -> list[tuple[str, str]]:
    """Labels and texts; the labels of a claim's verification are no texts."""
    return [("", "")] if question.task == "verification" else question.hypotheses


# Methods ------------------------------------------------------------------------------------------------------------


class _Baseline(SelectionMethod[BaselineSettings]):
    """A baseline with ``k`` pieces of evidence, by default the profile's."""

    version = VERSION
    settings_class = BaselineSettings

    @classmethod
    def read_defaults(cls, profile: Profile) -> Mapping[str, object]:
        return {"k": profile.retrieval.k}

    @property
    def chunks_per_option(self) -> int:
        return self.settings.k if "corpus" in self.sources else 0


class Bm25(_Baseline):
    """The chunks with the best BM25 scores."""

    name = "bm25"
    sources = ("corpus",)

    def open_selector(self, context: StageContext) -> Selector:
        return Bm25Chunks(open_benchmark_corpus(context), self.settings.k, VERSION)


class Cosine(_Baseline):
    """The chunks with the nearest embeddings."""

    name = "cosine"
    sources = ("corpus",)
    model_kinds = ("encoder",)

    def open_selector(self, context: StageContext) -> Selector:
        encoder = get_encoder(context.profile.encoder)
        return CosineChunks(open_benchmark_corpus(context), encoder, self.settings.k, VERSION)


class Bm25Cells(_Baseline):
    """The cells with the best BM25 scores."""

    name = "bm25_cells"
    sources = ("tables",)

    def open_selector(self, context: StageContext) -> Selector:
        return CellSelector(read_tables(context), score_cells_by_bm25, self.settings.k, "bm25")


class CosineCells(_Baseline):
    """The cells with the nearest embeddings."""

    name = "cosine_cells"
    sources = ("tables",)
    model_kinds = ("encoder",)

    def open_selector(self, context: StageContext) -> Selector:
        encoder = get_encoder(context.profile.encoder)
        version = f"cosine:{encoder.model_id}:{encoder.revision}"
        return CellSelector(read_tables(context), cosine_cell_scorer(encoder), self.settings.k, version)


class RecordedAnswers(StagesMethod[NoSettings]):
    """Answers of other systems, read from files."""

    name = RECORDED_ANSWERS
    version = VERSION
    settings_class = NoSettings

    def build_stages(self) -> list[Stage]:
        return recorded_stages(self.variant)
