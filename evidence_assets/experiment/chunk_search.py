"""The chunks of a benchmark's corpus, and BM25 over them: a baseline, and what systems read beside their own evidence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evidence_assets.experiment.selection import Asked, Parent, Pick, Progress
from evidence_assets.experiment.step import Step
from evidence_assets.lake.ids import content_id
from evidence_assets.retrieval.bm25 import BM25Index
from evidence_assets.retrieval.corpus import open_corpus

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def words(text: str) -> list[str]:
    """Lower-case words, as BM25 counts them."""
    return _WORD.findall(text.casefold())


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
    titles: Sequence[str] = ()

    def pick(self, label: str, position: int, score: float) -> Pick:
        """The chunk at ``position`` as evidence."""
        chunk_id = self.ids[position]
        return Pick(label, "chunk", (Parent("chunk", chunk_id, chunk_id),), "", self.texts[position], score)


def chunks_in(step: Step) -> Chunks:
    """The chunks of the corpus that the partition's benchmark is answered from."""
    corpus = open_corpus(step.lake, step.benchmark.corpus)
    ids, texts, titles = (corpus.chunks[column].to_list() for column in ("chunk_id", "text", "title"))
    return Chunks(corpus.version, ids, texts, titles)


class Bm25Chunks:
    """The ``k`` chunks with the highest BM25 score against question and option; ``titles`` also counts their titles' words."""

    def __init__(self, name: str, chunks: Chunks, k: int, version: str, *, titles: bool = False) -> None:
        self.name, self._chunks, self._k = name, chunks, k
        read = (
            [f"{title} {text}" for title, text in zip(chunks.titles, chunks.texts, strict=True)]
            if titles
            else chunks.texts
        )
        self._index = BM25Index([words(text) for text in read], form="plus_one")
        self.version = content_id("bm25", version, k, chunks.version, *(["titles"] if titles else []))

    def select(self, questions: Sequence[Asked], progress: Progress | None = None) -> list[list[Pick]]:
        made = []
        for done, question in enumerate(questions, 1):
            picks = []
            for label, option in question.hypotheses:
                scores = self._index.scores(words(question.query(option)))
                picks += [self._chunks.pick(label, i, float(scores[i])) for i in top(scores, self._k)]
            made.append(picks)
            if progress:
                progress(done, len(questions))
        return made
