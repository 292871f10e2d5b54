"""Text evidence of USCRaKE: the chunks of a pool that fit a hypothesis best, or their best sentences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from evidence_assets.experiment.evidence.selection import Parent, SelectedEvidence
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.vectors import Array, top_positions
from evidence_assets.retrieval.bm25 import IntArray
from evidence_assets.retrieval.corpus import IndexedCorpus
from evidence_assets.retrieval.token_cache import CachedText
from evidence_assets.systems.uscrake.chunk_ranking import Sentence
from evidence_assets.systems.uscrake.evidence_judges import JudgedText
from evidence_assets.systems.uscrake.mean_ranking import MeanRanking
from evidence_assets.systems.uscrake.passages import Hypothesis, Passages, find_pools
from evidence_assets.systems.uscrake.pool_ranking import PoolRanker, Ranking
from evidence_assets.systems.uscrake.settings import MeanFirstSettings, UscrakeSettings
from evidence_assets.text.context import find_context
from evidence_assets.text.referents import find_referent
from evidence_assets.text.sentences import starts_with_pronoun
from evidence_assets.transport import TokenPool

TextCandidate = tuple[SelectedEvidence, JudgedText]
"""A row of text evidence before the joint ranking, and what the judge reads of it."""


@dataclass(frozen=True, eq=False)
class KeptChunks:
    """The best chunks of a pool for a hypothesis, best first, with their scores."""

    ids: Sequence[str]
    titles: Sequence[str]
    texts: Sequence[str]
    scores: Array


class TextEvidence:
    """Selects the text evidence of hypotheses.

    ``encoder``: Encoder of the corpus's index.
    ``view``: Encoder of the tokens that rank chunks.
    ``judged_by_text``: Whether the judge reads texts; otherwise it gets the token vectors of the ranking.
    """

    def __init__(
        self, settings: UscrakeSettings, passages: Passages, encoder: Encoder, view: Encoder, *, judged_by_text: bool
    ) -> None:
        self._settings = settings
        self._corpus = passages.corpus
        self._encoder = encoder
        self._judged_by_text = judged_by_text
        self._pool_ranker = PoolRanker([settings], passages, view)
        self._ranker = self._pool_ranker.rankers[0]
        self._mean_ranking: MeanRanking | None = None
        if isinstance(settings, MeanFirstSettings):
            self._mean_ranking = MeanRanking(settings, self._ranker.passages)

    def candidates(self, hypotheses: Sequence[Hypothesis]) -> list[list[TextCandidate]]:
        """Text evidence of each hypothesis, best first; a query without tokens has none."""
        pools = find_pools(hypotheses, self._corpus, self._encoder, self._settings.R)
        if self._settings.cost == "embedding":  # others need no tokens
            pools = [pool.select(np.sort(top_positions(pool.cosines, self._settings.k))) for pool in pools]
        if self._mean_ranking:
            pools = self._mean_ranking.narrow(hypotheses, pools)
        return self._pool_ranker.rank(hypotheses, pools, self._select)

    def _select(self, ranking: Ranking) -> list[TextCandidate]:
        """The whole chunks, or their best sentences, at most 2k."""
        (best,) = ranking.best
        if not len(best.chunks):
            return []
        hypothesis = ranking.hypothesis
        chunks = read_chunks(self._corpus, best.chunks, best.scores)
        cached = [texts[-1] for texts in best.members]
        tokens = self._ranker.passages.weigh([[text] for text in cached]).select(range(len(cached)))
        if self._settings.grain == "sentence":
            parts = sentences_with_tokens(self._corpus.sentences(best.chunks), tokens, cached)
            part_scores = self._ranker.score_sentences(hypothesis.query, parts, tokens, chunks.scores)
        else:
            parts = whole_chunks(chunks.texts, tokens)
            part_scores = chunks.scores
        candidates = []
        for i in top_positions(part_scores, 2 * self._settings.k):
            row = build_row(self._settings, hypothesis.label, chunks, parts[i], float(part_scores[i]))
            vectors = None if self._judged_by_text else tokens.vectors[parts[i].rows]
            candidates.append((row, JudgedText(row.text, vectors)))
        return candidates


def read_chunks(corpus: IndexedCorpus, positions: IntArray, scores: Array) -> KeptChunks:
    """The chunks at these positions, best first."""
    return KeptChunks(corpus.ids(positions), corpus.titles(positions), corpus.texts(positions), scores)


def build_row(
    settings: UscrakeSettings, label: str, chunks: KeptChunks, part: Sentence, score: float
) -> SelectedEvidence:
    """A row of text evidence, which is a sentence or a whole chunk."""
    chunk = part.chunk
    text = chunks.texts[chunk][part.start : part.end]
    reasons: dict[str, object] = {"cost": settings.cost, "chunk_rank": chunk + 1}
    reasons["chunk_score"] = round(float(chunks.scores[chunk]), 9)
    locator = ""
    if settings.grain == "sentence":
        locator = f"{part.start}:{part.end}"
        reasons["sentence_score"] = round(score, 9)
        if not label:  # a short answer may be in one that does not name its subject
            reasons["title"] = chunks.titles[chunk]
            reasons["context"] = find_context(chunks.texts[chunk], part.start)
            if starts_with_pronoun(text):
                reasons["referent"] = find_referent(chunks.texts[chunk], part.start)
    why = json.dumps(reasons, ensure_ascii=False, sort_keys=True)
    parents = (Parent("chunk", chunks.ids[chunk], chunks.ids[chunk]),)
    return SelectedEvidence(label, settings.grain, parents, locator, text, score, why)


def whole_chunks(texts: Sequence[str], pool: TokenPool) -> list[Sentence]:
    bounds = pairwise(pool.offsets.tolist())
    return [
        Sentence(n, 0, len(text), np.arange(*rows)) for n, (text, rows) in enumerate(zip(texts, bounds, strict=True))
    ]


def sentences_with_tokens(
    sentence_spans: Sequence[Sequence[tuple[int, int]]], pool: TokenPool, tokens: Sequence[CachedText]
) -> list[Sentence]:
    """Sentences of chunks that have tokens."""
    sentences = []
    for n, spans in enumerate(sentence_spans):
        starts = tokens[n].spans[:, 0]
        for start, end in spans:
            rows = int(pool.offsets[n]) + np.flatnonzero((starts >= start) & (starts < end))
            if len(rows):
                sentences.append(Sentence(n, start, end, rows))
    return sentences
