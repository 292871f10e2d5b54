"""The chunks of a benchmark's corpus, and BM25 over them: a baseline, and what systems read beside their own evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evidence_assets.experiment.selection import Asked, Parent, Pick, Progress
from evidence_assets.experiment.step import Step
from evidence_assets.lake.ids import content_id
from evidence_assets.retrieval.bm25 import words
from evidence_assets.retrieval.corpus import OpenCorpus, open_corpus


def picks_of(chunks: OpenCorpus, label: str, positions: Sequence[int], scores: Sequence[float]) -> list[Pick]:
    """Chunks as evidence, in this order."""
    return [
        Pick(label, "chunk", (Parent("chunk", chunk_id, chunk_id),), "", text, score)
        for chunk_id, text, score in zip(chunks.ids(positions), chunks.texts(positions), scores, strict=True)
    ]


def chunks_in(step: Step) -> OpenCorpus:
    """The chunks of the corpus that the partition's benchmark is answered from."""
    return open_corpus(step.lake, step.benchmark.corpus, step.encoder)


class Bm25Chunks:
    """The ``k`` chunks with the highest BM25 score against question and option; ``titles`` also counts their titles' words."""

    def __init__(self, name: str, chunks: OpenCorpus, k: int, version: str, *, titles: bool = False) -> None:
        self.name, self._chunks, self._k = name, chunks, k
        self._index = chunks.word_index(titles=titles)
        self.version = content_id("bm25", version, k, chunks.version, *(["titles"] if titles else []))

    def select(self, questions: Sequence[Asked], progress: Progress | None = None) -> Iterator[list[Pick]]:
        for done, question in enumerate(questions, 1):
            picks = []
            for label, option in question.hypotheses:
                found, scores = self._index.top_k(words(question.query(option)), self._k, "plus_one")
                picks += picks_of(self._chunks, label, found.tolist(), scores.tolist())
            yield picks
            if progress:
                progress(done, len(questions))
