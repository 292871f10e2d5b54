"""The simple selectors that all are compared with, BM25 and embedding cosine, over chunks or a table's cells."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evidence_assets.benchmarks.records import Table
from evidence_assets.experiment.evidence.selection import Parent, Question, SelectedEvidence, Selector
from evidence_assets.experiment.evidence.sources import Bm25Chunks, chunk_evidence, open_benchmark_corpus, read_tables
from evidence_assets.experiment.scores.published_figures import RECORDED_ANSWERS
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.system import CustomStages, Method, NoSettings, System
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.registry import get_encoder
from evidence_assets.profiles import Profile
from evidence_assets.retrieval.bm25 import lowercase_words, score_texts
from evidence_assets.retrieval.corpus import IndexedCorpus
from evidence_assets.systems.baselines import VERSION
from evidence_assets.systems.baselines.recorded_answers import recorded_stages


@dataclass(frozen=True)
class BaselineSettings:
    """``k`` pieces of evidence are kept for each question and option."""

    k: int = 5


@dataclass(frozen=True)
class Bm25Settings(BaselineSettings):
    """``titles`` says whether the words of its title are words of each chunk."""

    titles: bool = False


class CosineChunks:
    """The ``k`` chunks whose vectors are nearest to that of question and option."""

    def __init__(self, chunks: IndexedCorpus, encoder: Encoder, k: int) -> None:
        self._chunks, self._encoder, self._k = chunks, encoder, k
        self.version = content_id("cosine", VERSION, k, chunks.version, encoder.model_id, encoder.revision)

    def select(self, questions: Sequence[Question]) -> list[list[SelectedEvidence]]:
        queries = [(i, label, q.query(option)) for i, q in enumerate(questions) for label, option in q.hypotheses]
        vectors = self._encoder.encode_sentences([text for _, _, text in queries])
        picks: list[list[SelectedEvidence]] = [[] for _ in questions]
        for (i, label, _), scores, positions in zip(queries, *self._chunks.index.search(vectors, self._k), strict=True):
            found = positions >= 0
            picks[i] += chunk_evidence(self._chunks, label, positions[found].tolist(), scores[found].tolist())
        return picks


def top_positions(scores: npt.NDArray[np.floating], k: int) -> list[int]:
    """Positions of the ``k`` largest positive scores, best first, ties by position."""
    order = np.argsort(-scores, kind="stable")[:k]
    return [int(i) for i in order if scores[i] > 0]


def verbalise_cell(table: Table, row: int, column: int) -> str:
    """A cell as a sentence that stands alone: its row's name, its column's header, its value."""
    value = table.rows[row][column]
    header = table.header[column].strip() if column < len(table.header) else ""
    name = table.rows[row][0].strip() if column else ""
    return ": ".join(part for part in (name, header, value.strip()) if part)


def add_header_cells(
    table: Table, best: Sequence[tuple[tuple[int, int], float]]
) -> list[tuple[str, str, float, str | None]]:
    """Locator, text, score and reason of the best cells, then of the headers and row names that say what they mean.

    Rows are counted as the lake does: ``r0`` is the header, ``r1`` the first row below it.
    """
    chosen = [(r + 1, c, score, None) for (r, c), score in best]
    taken = {(r, c) for r, c, _, _ in chosen}
    names = {(0, c): "header" for _, c, _, _ in chosen} | {(r, 0): "row name" for r, _, _, _ in chosen}
    last = chosen[-1][2] if chosen else 0.0
    context = [(r, c, last, json.dumps({"rule": why})) for (r, c), why in sorted(names.items()) if (r, c) not in taken]
    lines = (table.header, *table.rows)
    return [
        (f"r{r}c{c}", lines[r][c], s, why) for r, c, s, why in (*chosen, *context) if c < len(lines[r]) and lines[r][c]
    ]


CellScorer = Callable[[Sequence[tuple[list[str], list[str]]]], list[npt.NDArray[np.floating]]]
"""For each question its queries and the texts of its table's cells → queries × cells."""


def score_cells_by_bm25(asked_of: Sequence[tuple[list[str], list[str]]]) -> list[npt.NDArray[np.floating]]:
    """BM25 of each query against each cell, the table being the corpus."""
    return [
        score_texts(list(map(lowercase_words, cells)), list(map(lowercase_words, queries)))
        for queries, cells in asked_of
    ]


def cosine_cell_scorer(encoder: Encoder) -> CellScorer:
    """Cosine of each query and each cell by their embeddings, every text encoded once."""

    def score(asked_of: Sequence[tuple[list[str], list[str]]]) -> list[npt.NDArray[np.floating]]:
        texts = list(dict.fromkeys(text for queries, cells in asked_of for text in (*queries, *cells)))
        place = {text: i for i, text in enumerate(texts)}
        vectors = encoder.encode_sentences(texts)
        return [
            vectors[[place[text] for text in queries]] @ vectors[[place[text] for text in cells]].T
            for queries, cells in asked_of
        ]

    return score


class CellSelector:
    """The ``k`` cells of the question's own table that score highest against question and option.

    A table without rows gives no evidence; a question whose table is unknown gives none either.
    """

    def __init__(self, tables: Mapping[str, tuple[Table, str]], scores: CellScorer, k: int, version: str) -> None:
        self._tables, self._scores, self._k = tables, scores, k
        self.version = content_id("cells", VERSION, k, version, sorted(v for _, v in tables.values()))

    def _cells(self, question: Question) -> list[tuple[int, int]]:
        """Places of the cells of its table that are not empty."""
        table, _ = self._tables.get(question.table_id, (None, ""))
        if table is None:
            return []
        return [(r, c) for r, row in enumerate(table.rows) for c, text in enumerate(row) if text.strip()]

    def select(self, questions: Sequence[Question]) -> list[list[SelectedEvidence]]:
        made: list[list[SelectedEvidence]] = [[] for _ in questions]
        places = [self._cells(question) for question in questions]
        some = [i for i, found in enumerate(places) if found]
        hypotheses = [[("", "")] if q.task == "verification" else q.hypotheses for q in questions]
        scores = self._scores(
            [
                (
                    [questions[i].query(option) for _, option in hypotheses[i]],
                    [verbalise_cell(self._tables[questions[i].table_id][0], r, c) for r, c in places[i]],
                )
                for i in some
            ]
        )
        for i, of_question in zip(some, scores, strict=True):
            table, version = self._tables[questions[i].table_id]
            parent = (Parent("table", table.table_id, version),)
            for (label, _), row in zip(hypotheses[i], of_question, strict=True):
                best = [(places[i][j], float(row[j])) for j in top_positions(row, self._k)]
                made[i] += [SelectedEvidence(label, "cell", parent, *cell) for cell in add_header_cells(table, best)]
        return made


# Opened for a stage -------------------------------------------------------------------------------------------------


def _k(profile: Profile) -> Mapping[str, Any]:
    return {"k": profile.retrieval.k}


def _bm25(context: StageContext, settings: Bm25Settings) -> Selector:
    return Bm25Chunks(open_benchmark_corpus(context), settings.k, VERSION, titles=settings.titles)


def _cosine(context: StageContext, settings: BaselineSettings) -> Selector:
    return CosineChunks(open_benchmark_corpus(context), get_encoder(context.profile.encoder), settings.k)


def _bm25_cells(context: StageContext, settings: BaselineSettings) -> Selector:
    return CellSelector(read_tables(context), score_cells_by_bm25, settings.k, "bm25")


def _cosine_cells(context: StageContext, settings: BaselineSettings) -> Selector:
    model = get_encoder(context.profile.encoder)
    version = f"cosine:{model.model_id}:{model.revision}"
    return CellSelector(read_tables(context), cosine_cell_scorer(model), settings.k, version)


SYSTEM = System(
    "baselines",
    VERSION,
    {
        "bm25": Method(settings=Bm25Settings, open_selector=_bm25, sources=("corpus",), defaults=_k),
        "cosine": Method(
            settings=BaselineSettings, open_selector=_cosine, sources=("corpus",), defaults=_k, model_kinds=("encoder",)
        ),
        "bm25_cells": Method(settings=BaselineSettings, open_selector=_bm25_cells, sources=("tables",), defaults=_k),
        "cosine_cells": Method(
            settings=BaselineSettings,
            open_selector=_cosine_cells,
            sources=("tables",),
            defaults=_k,
            model_kinds=("encoder",),
        ),
        RECORDED_ANSWERS: CustomStages(settings=NoSettings, stages=recorded_stages),
    },
)
