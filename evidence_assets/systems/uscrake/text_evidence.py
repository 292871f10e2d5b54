"""Text evidence of USCRaKE: the chunks of a pool that fit a hypothesis best, or their best sentences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, pairwise

import numpy as np

from evidence_assets.experiment.evidence.selection import Parent, SelectedEvidence
from evidence_assets.lake.array_files import release_memory
from evidence_assets.models.inference import map_single_threaded
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.vectors import Array, top_positions
from evidence_assets.retrieval.bm25 import IntArray
from evidence_assets.retrieval.token_cache import CachedText
from evidence_assets.retrieval.token_store import TokenTexts
from evidence_assets.systems.uscrake.chunk_ranking import BestChunks, ChunkRanker, Sentence
from evidence_assets.systems.uscrake.evidence_judges import JudgedText
from evidence_assets.systems.uscrake.mean_ranking import MeanRanking
from evidence_assets.systems.uscrake.passages import EncodedPassages, Hypothesis, Passages, Pool, find_pools
from evidence_assets.systems.uscrake.settings import MeanFirstSettings, UscrakeSettings
from evidence_assets.text.context import find_context
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


@dataclass(frozen=True, eq=False)
class Ranking:
    """A hypothesis with its pool and the best chunks of the groups that have been ranked."""

    hypothesis: Hypothesis
    pool: Pool
    best: BestChunks


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
        parts = (passages.corpus, passages.store, view, settings.weighting, settings.titles)
        self._encoded = EncodedPassages(*parts, start_report=passages.start_report)
        self._ranker = ChunkRanker(settings, self._encoded)
        self._mean_ranking: MeanRanking | None = None
        if isinstance(settings, MeanFirstSettings):
            self._mean_ranking = MeanRanking(settings, self._encoded)

    def candidates(self, hypotheses: Sequence[Hypothesis]) -> list[list[TextCandidate]]:
        """Text evidence of each hypothesis, best first; a query without tokens has none."""
        pools = find_pools(hypotheses, self._corpus, self._encoder, self._settings.R)
        if self._settings.cost == "embedding":  # others need no tokens
            pools = [pool.select(np.sort(top_positions(pool.cosines, self._settings.k))) for pool in pools]
        if self._mean_ranking:
            pools = self._mean_ranking.narrow(hypotheses, pools)
        rankings = [Ranking(h, pool, self._ranker.start(h.query)) for h, pool in zip(hypotheses, pools, strict=True)]
        candidates: list[list[TextCandidate]] = []
        for batch in self._batches(rankings):
            candidates += self._select_batch(batch)
            release_memory()  # large pools otherwise stay allocated
        return candidates

    def _batches(self, rankings: Sequence[Ranking]) -> Iterator[list[Ranking]]:
        """Questions whose chunks make one group, or one question of more chunks."""
        batch: list[Ranking] = []
        union: IntArray = np.zeros(0, np.int64)
        for _, options in groupby(rankings, key=lambda ranking: ranking.hypothesis.question.question_id):
            question = list(options)
            chunks = unite_pools(question)
            union = np.union1d(union, chunks)
            if batch and len(union) > self._encoded.chunks_per_group:
                yield batch
                batch = []
                union = chunks
            batch += question
        if batch:
            yield batch

    def _select_batch(self, rankings: list[Ranking]) -> list[list[TextCandidate]]:
        """Rank each group of chunks for all hypotheses while its tokens are at hand, then select the evidence."""
        # The search in a large pool has threads of its own, and one such pool in memory is enough.
        run = map_single_threaded if self._settings.R < MIN_FILTERED_TEXTS else map
        groups = self._encoded.groups(unite_pools(rankings))
        for group in groups:
            texts = self._encoded.texts(group)
            rankings = list(run(partial(self._rank_group, group, texts), rankings))
            del texts  # frees its space before the next group is encoded
            if len(groups) > 1:
                rankings = [replace(ranking, best=ranking.best.copy()) for ranking in rankings]
        return list(run(self._select, rankings))

    def _rank_group(self, group: IntArray, texts: TokenTexts, ranking: Ranking) -> Ranking:
        """Rank the chunks of a group that are in the pool."""
        query = ranking.hypothesis.query
        numbers = np.searchsorted(group, ranking.pool.chunks)
        in_group = np.flatnonzero(group.take(numbers, mode="clip") == ranking.pool.chunks)
        if not len(query) or not len(in_group):
            return ranking
        members = [texts.members[i] for i in numbers[in_group].tolist()]
        part = ranking.pool.select(in_group)
        return replace(ranking, best=self._ranker.add(query, ranking.best, part, self._encoded.weigh(members)))

    def _select(self, ranking: Ranking) -> list[TextCandidate]:
        """The whole chunks, or their best sentences, at most 2k."""
        if not len(ranking.best.chunks):
            return []
        hypothesis = ranking.hypothesis
        best = self._ranker.finish(hypothesis.query, ranking.best)
        chunks = self._read_chunks(best)
        cached = [texts[-1] for texts in best.members]
        tokens = self._encoded.weigh([[text] for text in cached]).select(range(len(cached)))
        if self._settings.grain == "sentence":
            parts = sentences_with_tokens(self._corpus.sentences(best.chunks), tokens, cached)
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

    def _read_chunks(self, best: BestChunks) -> KeptChunks:
        corpus = self._corpus
        positions = best.chunks
        return KeptChunks(corpus.ids(positions), corpus.titles(positions), corpus.texts(positions), best.scores)

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
                reasons["context"] = find_context(chunks.texts[chunk], part.start)
                if starts_with_pronoun(text):
                    reasons["referent"] = find_referent(chunks.texts[chunk], part.start)
        why = json.dumps(reasons, ensure_ascii=False, sort_keys=True)
        parents = (Parent("chunk", chunks.ids[chunk], chunks.ids[chunk]),)
        return SelectedEvidence(label, self._settings.grain, parents, locator, text, score, why)


def unite_pools(rankings: Sequence[Ranking]) -> IntArray:
    """Ascending positions of the chunks of all pools."""
    return np.unique(np.concatenate([ranking.pool.chunks for ranking in rankings]))


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
