"""Text evidence of USCRaKE: the chunks of a pool that fit a hypothesis best, or their best sentences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from evidence_assets.experiment.evidence.selection import Parent, SelectedEvidence
from evidence_assets.lake.array_files import release_memory
from evidence_assets.models.inference import map_single_threaded
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.vectors import top_positions
from evidence_assets.retrieval.token_cache import CachedText
from evidence_assets.systems.uscrake.chunk_ranking import ChunkRanker, Sentence
from evidence_assets.systems.uscrake.evidence_judges import JudgedText
from evidence_assets.systems.uscrake.passages import EncodedPassages, Hypothesis, Passages, Pool, find_pools
from evidence_assets.systems.uscrake.settings import UscrakeSettings
from evidence_assets.text.referents import find_referent
from evidence_assets.text.sentences import starts_with_pronoun
from evidence_assets.transport import TokenPool
from evidence_assets.transport.search import MIN_FILTERED_TEXTS

TextCandidate = tuple[SelectedEvidence, JudgedText]
"""A row of text evidence before the joint ranking, and what the judge reads of it."""


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
        passages.store.tokens(view)  # opens the cache before threads share it
        self._encoded = EncodedPassages(passages.corpus, passages.store, view, settings.weighting, settings.titles)
        self._ranker = ChunkRanker(settings, self._encoded)

    def candidates(self, hypotheses: Sequence[Hypothesis]) -> list[list[TextCandidate]]:
        """Text evidence of each hypothesis, best first; a query without tokens has none."""
        pools = find_pools(hypotheses, self._corpus, self._encoder, self._settings.R)
        if pools and self._settings.cost != "embedding":
            # One call encodes all texts that are not cached.
            self._encoded.texts(np.unique(np.concatenate([pool.chunks for pool in pools])))
        pairs = list(zip(hypotheses, pools, strict=True))
        # The search in a large pool has threads of its own, and one such pool in memory is enough.
        run = map_single_threaded if self._settings.R < MIN_FILTERED_TEXTS else map
        candidates = list(run(lambda pair: self._select(*pair), pairs))
        release_memory()  # large pools otherwise stay allocated
        return candidates

    def _select(self, hypothesis: Hypothesis, pool: Pool) -> list[TextCandidate]:
        """The whole chunks, or their best sentences, at most 2k."""
        if not len(hypothesis.query) or not len(pool.chunks):
            return []
        scores = self._ranker.score_chunks(hypothesis.query, pool)
        best = top_positions(scores, self._settings.k)
        chunks, chunk_scores, corpus = pool.chunks[best], scores[best], self._corpus
        ids, titles, texts = corpus.ids(chunks), corpus.titles(chunks), corpus.texts(chunks)
        tokens, cached = self._encoded.chunks(chunks)
        by_sentence = self._settings.grain == "sentence"
        if by_sentence:
            parts = sentences_with_tokens(corpus.sentences(chunks), tokens, cached)
            part_scores = self._ranker.score_sentences(hypothesis.query, parts, tokens, chunk_scores)
        else:
            bounds = pairwise(tokens.offsets.tolist())
            parts = [Sentence(n, 0, len(texts[n]), np.arange(*rows)) for n, rows in enumerate(bounds)]
            part_scores = chunk_scores
        candidates = []
        for i in top_positions(part_scores, 2 * self._settings.k):
            part, score = parts[i], float(part_scores[i])
            locator, text = f"{part.start}:{part.end}", texts[part.chunk][part.start : part.end]
            reasons: dict[str, Any] = {"cost": self._settings.cost, "chunk_rank": part.chunk + 1}
            reasons["chunk_score"] = round(float(chunk_scores[part.chunk]), 9)
            if by_sentence:
                reasons["sentence_score"] = round(score, 9)
            if by_sentence and not hypothesis.label:  # a short answer may be in one that does not name its subject
                reasons["title"] = titles[part.chunk]
                if starts_with_pronoun(text):
                    reasons["referent"] = find_referent(texts[part.chunk], part.start)
            why = json.dumps(reasons, ensure_ascii=False, sort_keys=True)
            parents = (Parent("chunk", ids[part.chunk], ids[part.chunk]),)
            about = hypothesis.label, self._settings.grain, parents, locator if by_sentence else ""
            judged = JudgedText(text, None if self._judged_by_text else tokens.vectors[part.rows])
            candidates.append((SelectedEvidence(*about, text, score, why), judged))
        return candidates


def sentences_with_tokens(
    sentence_spans: Sequence[Sequence[tuple[int, int]]], pool: TokenPool, tokens: Sequence[CachedText]
) -> list[Sentence]:
    """Sentences of chunks that have tokens."""
    sentences = []
    for n, spans in enumerate(sentence_spans):
        first_row, starts = int(pool.offsets[n]), tokens[n].spans[:, 0]
        for start, end in spans:
            rows = first_row + np.flatnonzero((starts >= start) & (starts < end))
            if len(rows):
                sentences.append(Sentence(n, start, end, rows))
    return sentences
