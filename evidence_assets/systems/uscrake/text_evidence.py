"""Text evidence of USCRaKE: the chunks of a pool that fit a hypothesis best, or their best sentences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from evidence_assets.experiment.evidence.selection import Parent, SelectedEvidence
from evidence_assets.lake.array_files import release_memory
from evidence_assets.models.inference import map_single_threaded
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.vectors import Array, top_positions
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
        positions = pool.chunks[best]
        corpus = self._corpus
        chunks = KeptChunks(corpus.ids(positions), corpus.titles(positions), corpus.texts(positions), scores[best])
        tokens, cached = self._encoded.chunks(positions)
        if self._settings.grain == "sentence":
            parts = sentences_with_tokens(corpus.sentences(positions), tokens, cached)
            part_scores = self._ranker.score_sentences(hypothesis.query, parts, tokens, chunks.scores)
        else:
            parts = whole_chunks(chunks.texts, tokens)
            part_scores = chunks.scores
        candidates = []
        for i in top_positions(part_scores, 2 * self._settings.k):
            row = self._build_row(hypothesis.label, chunks, parts[i], float(part_scores[i]))
            vectors = None if self._judged_by_text else tokens.vectors[parts[i].rows]
            candidates.append((row, JudgedText(row.text, vectors)))
        return candidates

    def _build_row(self, label: str, chunks: KeptChunks, part: Sentence, score: float) -> SelectedEvidence:
        """A row of text evidence, which is a sentence or a whole chunk."""
        chunk = part.chunk
        text = chunks.texts[chunk][part.start : part.end]
        reasons: dict[str, object] = {"cost": self._settings.cost, "chunk_rank": chunk + 1}
        reasons["chunk_score"] = round(float(chunks.scores[chunk]), 9)
        locator = ""
        if self._settings.grain == "sentence":
            locator = f"{part.start}:{part.end}"
            reasons["sentence_score"] = round(score, 9)
            if not label:  # a short answer may be in one that does not name its subject
                reasons["title"] = chunks.titles[chunk]
                if starts_with_pronoun(text):
                    reasons["referent"] = find_referent(chunks.texts[chunk], part.start)
        why = json.dumps(reasons, ensure_ascii=False, sort_keys=True)
        parents = (Parent("chunk", chunks.ids[chunk], chunks.ids[chunk]),)
        return SelectedEvidence(label, self._settings.grain, parents, locator, text, score, why)


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
