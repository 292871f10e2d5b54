"""Text evidence of USCRaKE: the chunks of a pool that fit a hypothesis best, or their best sentences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evidence_assets.experiment.evidence.selection import Parent, SelectedEvidence
from evidence_assets.lake.array_files import release_memory
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.vectors import Array
from evidence_assets.reasoning.spans.passages import find_referent
from evidence_assets.retrieval.token_cache import CachedText
from evidence_assets.systems.uscrake.chunk_ranking import ChunkRanker, Sentence, top_positions
from evidence_assets.systems.uscrake.evidence_judges import JudgedText
from evidence_assets.systems.uscrake.passages import Hypothesis, Passages, Pool, find_pools, union_of_chunks
from evidence_assets.systems.uscrake.settings import UscrakeSettings
from evidence_assets.text.sentences import starts_with_pronoun
from evidence_assets.transport import TokenPool


@dataclass(frozen=True, eq=False)
class TextCandidate:
    """A row of text evidence before the joint ranking, with what the judge reads of it."""

    evidence: SelectedEvidence
    judged: JudgedText


@dataclass(frozen=True, eq=False)
class KeptChunks:
    """The kept chunks of a hypothesis, best first, with their tokens."""

    ids: Sequence[str]
    titles: Sequence[str]
    texts: Sequence[str]
    sentence_spans: Sequence[Sequence[tuple[int, int]]]
    scores: Array
    pool: TokenPool
    tokens: Sequence[CachedText]

    def sentences_with_tokens(self) -> list[Sentence]:
        """Sentences of the chunks that have tokens."""
        sentences = []
        for n, spans in enumerate(self.sentence_spans):
            first_row, starts = int(self.pool.offsets[n]), self.tokens[n].spans[:, 0]
            for start, end in spans:
                rows = first_row + np.flatnonzero((starts >= start) & (starts < end))
                if len(rows):
                    sentences.append(Sentence(n, start, end, rows))
        return sentences


class TextEvidence:
    """Selects the text evidence of hypotheses.

    ``encoder``: Encoder of the corpus's index.
    ``view``: Encoder of the tokens that rank chunks.
    ``judged_by_text``: Whether the judge reads texts; otherwise it gets the token vectors of the ranking.
    """

    def __init__(
        self, settings: UscrakeSettings, passages: Passages, encoder: Encoder, view: Encoder, *, judged_by_text: bool
    ) -> None:
        self._settings, self._corpus, self._encoder = settings, passages.corpus, encoder
        self._judged_by_text = judged_by_text
        self._encoded = passages.with_encoder(view, weighting=settings.weighting, titles=settings.titles)
        self._ranker = ChunkRanker(settings, self._encoded)

    def candidates(self, hypotheses: Sequence[Hypothesis]) -> list[list[TextCandidate]]:
        """Text evidence of each hypothesis, best first; a query without tokens has none."""
        pools = find_pools(hypotheses, self._corpus, self._encoder, self._settings.R)
        if self._settings.cost != "embedding":
            self._encoded.texts(union_of_chunks(pools))  # one call encodes all texts that are not cached
        candidates = [self._select(h, pool) for h, pool in zip(hypotheses, pools, strict=True)]
        release_memory()  # large pools otherwise stay allocated
        return candidates

    def _select(self, hypothesis: Hypothesis, pool: Pool) -> list[TextCandidate]:
        if not len(hypothesis.query) or not len(pool.chunks):
            return []
        scores = self._ranker.score_chunks(hypothesis.query, pool)
        best = top_positions(scores, self._settings.k)
        chunks = self._read_chunks(pool, best, scores[best])
        return (self._sentences if self._settings.grain == "sentence" else self._chunks)(hypothesis, chunks)

    def _read_chunks(self, pool: Pool, best: Sequence[int], scores: Array) -> KeptChunks:
        chunks, corpus = pool.chunks[best], self._corpus
        return KeptChunks(
            corpus.ids(chunks),
            corpus.titles(chunks),
            corpus.texts(chunks),
            corpus.sentences(chunks),
            scores,
            *self._encoded.chunks(chunks),
        )

    def _chunks(self, hypothesis: Hypothesis, chunks: KeptChunks) -> list[TextCandidate]:
        """The whole chunks."""
        return [
            self._candidate(hypothesis, chunks, n, "", text, float(chunks.scores[n]), chunks.pool.select([n]).vectors)
            for n, text in enumerate(chunks.texts)
        ]

    def _sentences(self, hypothesis: Hypothesis, chunks: KeptChunks) -> list[TextCandidate]:
        """The best sentences of the chunks, at most 2k."""
        sentences = chunks.sentences_with_tokens()
        scores = self._ranker.score_sentences(hypothesis.query, sentences, chunks.pool, chunks.scores)
        candidates = []
        for i in top_positions(scores, 2 * self._settings.k):
            sentence, score = sentences[i], float(scores[i])
            chunk_text = chunks.texts[sentence.chunk]
            locator, text = f"{sentence.start}:{sentence.end}", chunk_text[sentence.start : sentence.end]
            vectors = chunks.pool.vectors[sentence.rows]
            reasons: dict[str, Any] = {"sentence_score": round(score, 9)}
            if not hypothesis.label:  # a short answer may be in a sentence that does not name its subject
                reasons["title"] = chunks.titles[sentence.chunk]
                if starts_with_pronoun(text):
                    reasons["referent"] = find_referent(chunk_text, sentence.start)
            candidates.append(
                self._candidate(hypothesis, chunks, sentence.chunk, locator, text, score, vectors, **reasons)
            )
        return candidates

    def _candidate(
        self,
        hypothesis: Hypothesis,
        chunks: KeptChunks,
        number: int,
        locator: str,
        text: str,
        score: float,
        vectors: npt.NDArray[Any],
        **reasons: object,
    ) -> TextCandidate:
        """A candidate of one of the chunks; its kind is that of the evidence's grain."""
        reasons |= {"cost": self._settings.cost, "chunk_rank": number + 1}
        reasons["chunk_score"] = round(float(chunks.scores[number]), 9)
        why = json.dumps(reasons, ensure_ascii=False, sort_keys=True)
        parents = (Parent("chunk", chunks.ids[number], chunks.ids[number]),)
        row = SelectedEvidence(hypothesis.label, self._settings.grain, parents, locator, text, score, why)
        return TextCandidate(row, JudgedText(text, None if self._judged_by_text else vectors))
