"""The two simple selectors that every system is compared with: BM25 and embedding cosine.

Over a corpus they pick chunks, over a table its cells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evidence_assets.datasets.records import Table
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.vector_index import VectorIndex
from evidence_assets.methods.bm25 import BM25Index
from evidence_assets.models.protocols import Encoder
from evidence_assets.systems.selection import Asked, Parent, Pick, Progress

VERSION = "1"
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def words(text: str) -> list[str]:
    """Lower-case words, as BM25 counts them."""
    return _WORD.findall(text.casefold())


def query_of(question: Asked, option: str) -> str:
    """The published query: question and option as one text."""
    return f"{question.text} {option}".strip()


def top(scores: npt.NDArray[np.floating], k: int) -> list[int]:
    """Positions of the ``k`` largest positive scores, best first, ties by position."""
    order = np.argsort(-scores, kind="stable")[:k]
    return [int(i) for i in order if scores[i] > 0]


@dataclass(frozen=True)
class Chunks:
    """The chunks that are searched, in the index's order."""

    version: str
    ids: Sequence[str]
    texts: Sequence[str]

    def pick(self, label: str, position: int, score: float) -> Pick:
        """The chunk at ``position`` as evidence."""
        chunk_id = self.ids[position]
        return Pick(label, "chunk", (Parent("chunk", chunk_id, chunk_id),), "", self.texts[position], score)


class Bm25Chunks:
    """The ``k`` chunks with the highest BM25 score against question and option."""

    def __init__(self, name: str, chunks: Chunks, k: int) -> None:
        self.name, self._chunks, self._k = name, chunks, k
        self._index = BM25Index([words(text) for text in chunks.texts], form="plus_one")
        self.version = content_id("bm25", VERSION, k, chunks.version)

    def select(self, questions: Sequence[Asked], progress: Progress | None = None) -> list[list[Pick]]:
        made = []
        for done, question in enumerate(questions, 1):
            picks = []
            for label, option in question.hypotheses:
                scores = self._index.scores(words(query_of(question, option)))
                picks += [self._chunks.pick(label, i, float(scores[i])) for i in top(scores, self._k)]
            made.append(picks)
            if progress:
                progress(done, len(questions))
        return made


class CosineChunks:
    """The ``k`` chunks whose vectors are nearest to that of question and option."""

    def __init__(self, name: str, chunks: Chunks, index: VectorIndex, encoder: Encoder, k: int) -> None:
        self.name, self._chunks, self._index, self._encoder, self._k = name, chunks, index, encoder, k
        self.version = content_id("cosine", VERSION, k, chunks.version, encoder.model_id, encoder.revision)

    def select(self, questions: Sequence[Asked], progress: Progress | None = None) -> list[list[Pick]]:
        asked = [(i, label, query_of(q, option)) for i, q in enumerate(questions) for label, option in q.hypotheses]
        scores, positions = self._index.search(self._encoder.sentences([text for _, _, text in asked]), self._k)
        made: list[list[Pick]] = [[] for _ in questions]
        for (i, label, _), row_scores, row in zip(asked, scores, positions, strict=True):
            found = [(int(p), float(s)) for p, s in zip(row, row_scores, strict=True) if p >= 0]
            made[i] += [self._chunks.pick(label, p, s) for p, s in found]
        return made


def cell_text(table: Table, row: int, column: int) -> str:
    """A cell as a sentence that stands alone: its row's name, its column's header, its value."""
    value = table.rows[row][column]
    header = table.header[column].strip() if column < len(table.header) else ""
    name = table.rows[row][0].strip() if column else ""
    return ": ".join(part for part in (name, header, value.strip()) if part)


CellScores = Callable[[Sequence[str], Sequence[str]], npt.NDArray[np.floating]]
"""Queries × cell texts → scores."""


def bm25_cells(queries: Sequence[str], cells: Sequence[str]) -> npt.NDArray[np.floating]:
    """BM25 of each query against each cell, the table being the corpus."""
    index = BM25Index([words(text) for text in cells], form="plus_one")
    return np.stack([index.scores(words(query)) for query in queries])


def cosine_cells(encoder: Encoder) -> CellScores:
    """Cosine of each query and each cell by their embeddings."""

    def score(queries: Sequence[str], cells: Sequence[str]) -> npt.NDArray[np.floating]:
        return encoder.sentences(queries) @ encoder.sentences(cells).T

    return score


class CellSelector:
    """The ``k`` cells of the question's own table that score highest against question and option.

    A table without rows gives no evidence; a question whose table is unknown gives none either.
    """

    def __init__(
        self, name: str, tables: Mapping[str, tuple[Table, str]], scores: CellScores, k: int, version: str
    ) -> None:
        self.name, self._tables, self._scores, self._k = name, tables, scores, k
        self.version = content_id("cells", VERSION, k, version, sorted(v for _, v in tables.values()))

    def select(self, questions: Sequence[Asked], progress: Progress | None = None) -> list[list[Pick]]:
        made = []
        for done, question in enumerate(questions, 1):
            picks: list[Pick] = []
            table, version = self._tables.get(question.table_id, (None, ""))
            places = [] if table is None else [(r, c) for r, row in enumerate(table.rows) for c in range(len(row))]
            places = [(r, c) for r, c in places if table is not None and table.rows[r][c].strip()]
            if table is not None and places:
                hypotheses = [("", "")] if question.task == "verification" else question.hypotheses
                queries = [query_of(question, option) for _, option in hypotheses]
                scores = self._scores(queries, [cell_text(table, r, c) for r, c in places])
                parent = (Parent("table", table.table_id, version),)
                for (label, _), row in zip(hypotheses, scores, strict=True):
                    for i in top(row, self._k):
                        r, c = places[i]
                        why = json.dumps({"value": table.rows[r][c]}, ensure_ascii=False)
                        picks.append(
                            Pick(label, "cell", parent, f"r{r}c{c}", cell_text(table, r, c), float(row[i]), why)
                        )
            made.append(picks)
            if progress:
                progress(done, len(questions))
        return made
