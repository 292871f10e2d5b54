"""The chunks of a benchmark's corpus, and BM25 over them: a baseline, and what systems read beside their own evidence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from evidence_assets.experiment.selection import Asked, Parent, Pick, Progress
from evidence_assets.experiment.step import Step
from evidence_assets.lake.ids import content_id
from evidence_assets.retrieval.bm25 import BM25Index
from evidence_assets.retrieval.corpus import OpenCorpus, open_corpus

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def words(text: str) -> list[str]:
    """Lower-case words, as BM25 counts them."""
    return _WORD.findall(text.casefold())


def top(scores: npt.NDArray[np.floating], k: int) -> list[int]:
    """Positions of the ``k`` largest positive scores, best first, ties by position."""
    order = np.argsort(-scores, kind="stable")[:k]
    return [int(i) for i in order if scores[i] > 0]


class Chunks(Protocol):
    """The chunks that are searched, by their positions."""

    @property
    def version(self) -> str: ...
    def __len__(self) -> int: ...
    def ids(self, positions: Sequence[int]) -> list[str]: ...
    def texts(self, positions: Sequence[int]) -> list[str]: ...
    def titles(self, positions: Sequence[int]) -> list[str]: ...


def picks_of(chunks: Chunks, label: str, positions: Sequence[int], scores: Sequence[float]) -> list[Pick]:
    """Chunks as evidence, in this order."""
    return [
        Pick(label, "chunk", (Parent("chunk", chunk_id, chunk_id),), "", text, score)
        for chunk_id, text, score in zip(chunks.ids(positions), chunks.texts(positions), scores, strict=True)
    ]


def chunks_in(step: Step) -> OpenCorpus:
    """The chunks of the corpus that the partition's benchmark is answered from."""
    return open_corpus(step.lake, step.benchmark.corpus)


class Bm25Chunks:
    """The ``k`` chunks with the highest BM25 score against question and option; ``titles`` also counts their titles' words."""

    def __init__(self, name: str, chunks: Chunks, k: int, version: str, *, titles: bool = False) -> None:
        self.name, self._chunks, self._k = name, chunks, k
        every = range(len(chunks))
        read = chunks.texts(every)
        if titles:
            read = [f"{title} {text}" for title, text in zip(chunks.titles(every), read, strict=True)]
        self._index = BM25Index([words(text) for text in read], form="plus_one")
        self.version = content_id("bm25", version, k, chunks.version, *(["titles"] if titles else []))

    def select(self, questions: Sequence[Asked], progress: Progress | None = None) -> list[list[Pick]]:
        made = []
        for done, question in enumerate(questions, 1):
            picks = []
            for label, option in question.hypotheses:
                scores = self._index.scores(words(question.query(option)))
                found = top(scores, self._k)
                picks += picks_of(self._chunks, label, found, scores[found].tolist())
            made.append(picks)
            if progress:
                progress(done, len(questions))
        return made
