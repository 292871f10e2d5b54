"""Step 2 of USCRaKE: the chunks of a pool that fit a hypothesis best, or their best sentences, as evidence.

Each row names the words that it has in common with the question, for people who read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from evidence_assets.experiment.evidence.selection import Parent, SelectedEvidence
from evidence_assets.lake.array_files import release_memory, sorted_unique
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.vectors import Array, unit_rows
from evidence_assets.reasoning.spans.passages import find_referent
from evidence_assets.retrieval.bm25 import IntArray
from evidence_assets.retrieval.token_cache import TextTokens
from evidence_assets.systems.uscrake.chunk_ranking import (
    MAX_PAIRS,
    ChunkRanker,
    Sentence,
    TextScores,
    TransportCount,
    measure_query,
    top_positions,
)
from evidence_assets.systems.uscrake.evidence_judges import JudgedText
from evidence_assets.systems.uscrake.hypotheses import Hypothesis, Query
from evidence_assets.systems.uscrake.passages import EncodedPassages, Passages, Pool, find_pools
from evidence_assets.systems.uscrake.settings import UscrakeSettings
from evidence_assets.text.sentences import starts_with_pronoun
from evidence_assets.transport import TokenPair, TokenPool, find_strongest_pairs


@dataclass(frozen=True, eq=False)
class TextCandidate:
    """A row of text evidence before the joint ranking, with what the judge reads of it."""

    evidence: SelectedEvidence
    judged: JudgedText


@dataclass(frozen=True, eq=False)
class KeptChunks:
    """The kept chunks of a hypothesis, best first, with their tokens and the reasons of their rows."""

    ids: Sequence[str]
    titles: Sequence[str]
    texts: Sequence[str]
    sentence_spans: Sequence[Sequence[tuple[int, int]]]
    scores: Array
    pool: TokenPool
    tokens: Sequence[TextTokens]
    reasons: Sequence[Mapping[str, Any]]

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
        self._settings, self._passages, self._encoder = settings, passages, encoder
        self._judged_by_text, self.count = judged_by_text, TransportCount()
        self._encoded: EncodedPassages = passages.with_encoder(
            view, words=settings.tokens == "words", weighting=settings.weighting, titles=settings.titles
        )
        self._ranker = ChunkRanker(settings, self._encoded, self.count)

    def candidates(self, hypotheses: Sequence[Hypothesis]) -> list[list[TextCandidate]]:
        """Text evidence of each hypothesis, best first; a query without tokens has none."""
        candidates: list[list[TextCandidate]] = [[] for _ in hypotheses]
        pools = find_pools(hypotheses, self._passages, self._encoder, self._settings)
        if self._settings.cost != "embedding":
            # One call encodes all texts that are not cached.
            self._encoded.texts(sorted_unique(np.concatenate([np.zeros(0, np.int64), *(p.chunks for p in pools)])))
        with_tokens = [i for i, h in enumerate(hypotheses) if len(h.query) and len(pools[i].chunks)]
        # Hypotheses that share a pool are ranked together, which reads the tokens of the pool once.
        for _, group in groupby(with_tokens, lambda i: pools[i].chunks.tobytes()):
            numbers = list(group)
            all_scores = self._score_pool([hypotheses[i].query for i in numbers], [pools[i] for i in numbers])
            for i, scores in zip(numbers, all_scores, strict=True):
                chunks = self._read_chunks(hypotheses[i].query, pools[i], scores)
                select = self._sentences if self._settings.grain == "sentence" else self._chunks
                candidates[i] = select(hypotheses[i], chunks)
        release_memory()  # large pools otherwise stay allocated
        return candidates

    def _score_pool(self, queries: Sequence[Query], pools: Sequence[Pool]) -> list[TextScores]:
        """Scores of the chunks of a pool that the queries share."""
        if self._settings.cost == "embedding":
            return [TextScores(pool.cosines) for pool in pools]
        likely = [top_positions(pool.cosines, self._settings.k) for pool in pools]
        return self._ranker.score_chunks(queries, pools[0].chunks, likely)

    def _read_chunks(self, query: Query, pool: Pool, scores: TextScores) -> KeptChunks:
        """Read the k best chunks, with the reasons of each."""
        best = top_positions(scores.scores, self._settings.k)
        chunks, chunk_scores = pool.chunks[best], scores.scores[best]
        corpus, cost, (tokens_of_chunks, tokens) = (
            self._passages.corpus,
            self._settings.cost,
            self._encoded.chunks(chunks),
        )
        texts, reasons = corpus.texts(chunks), list[dict[str, Any]]()
        for n, score in enumerate(chunk_scores.tolist()):
            # Plans with the tokens of a title do not align the text alone.
            pairs = () if self._settings.titles else scores.pairs.get(best[n], ())
            chunk = tokens_of_chunks.select([n])
            aligned = align_words(query, texts[n], chunk, tokens[n], self._encoded, cost, pairs)
            reasons.append({"cost": cost, "chunk_rank": n + 1, "chunk_score": round(score, 9), "aligned": aligned})
        sentences = corpus.sentences(chunks)
        return KeptChunks(
            corpus.ids(chunks), corpus.titles(chunks), texts, sentences, chunk_scores, tokens_of_chunks, tokens, reasons
        )

    def _chunks(self, hypothesis: Hypothesis, chunks: KeptChunks) -> list[TextCandidate]:
        """The whole chunks."""
        return [
            self._candidate(hypothesis, chunks, n, "", text, float(chunks.scores[n]), chunks.pool.select([n]).vectors)
            for n, text in enumerate(chunks.texts)
        ]

    def _sentences(self, hypothesis: Hypothesis, chunks: KeptChunks) -> list[TextCandidate]:
        """The best sentences of the chunks."""
        sentences = chunks.sentences_with_tokens()
        max_sentences = 2 * self._settings.k
        scores = self._ranker.score_sentences(hypothesis.query, sentences, chunks.pool, chunks.scores, max_sentences)
        candidates = []
        for i in top_positions(scores, max_sentences):
            sentence, score = sentences[i], float(scores[i])
            locator, text = (
                f"{sentence.start}:{sentence.end}",
                chunks.texts[sentence.chunk][sentence.start : sentence.end],
            )
            vectors = chunks.pool.vectors[sentence.rows]
            reasons: dict[str, Any] = {"sentence_score": round(score, 9)}
            if not hypothesis.label:  # a short answer may be in a sentence that does not name its subject
                reasons["title"] = chunks.titles[sentence.chunk]
                if starts_with_pronoun(text):
                    reasons["referent"] = find_referent(chunks.texts[sentence.chunk], sentence.start)
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
        why = json.dumps({**chunks.reasons[number], **reasons}, ensure_ascii=False, sort_keys=True)
        parents = (Parent("chunk", chunks.ids[number], chunks.ids[number]),)
        row = SelectedEvidence(hypothesis.label, self._settings.grain, parents, locator, text, score, why)
        return TextCandidate(row, JudgedText(text, None if self._judged_by_text else vectors))


MAX_ALIGNED_PAIRS = 5


def _word_at(text: str, spans: IntArray, words: IntArray, token: int) -> tuple[str, int, int]:
    """The word of a token, with its first and last character."""
    word_spans = spans[words == words[token]]
    start, end = int(word_spans[:, 0].min()), int(word_spans[:, 1].max())
    return text[start:end], start, end


def align_words(
    query: Query,
    text: str,
    chunk: TokenPool,
    tokens: TextTokens,
    passages: EncodedPassages,
    cost: str,
    pairs: Sequence[TokenPair] = (),
) -> list[dict[str, Any]]:
    """Aligned words of query and chunk: the heaviest cells of the transport plan.

    Each entry has a query word, a chunk word with its characters, the transported mass and the cost. ``fusion`` uses
    the plan of its transport part; ``maxsim`` has no plan and returns the nearest pairs, without mass; ``embedding``
    compares no words. ``chunk`` is a pool of one text. ``pairs`` are the strongest pairs of the plan, if it is solved.
    """
    if cost == "embedding":
        return []
    token_pairs: list[tuple[int, int, float | None, float]]
    if cost == "maxsim":
        cosines = unit_rows(query.tokens.vectors.astype(np.float64)) @ unit_rows(chunk.vectors.astype(np.float64)).T
        nearest = cosines.argmax(axis=1)
        order = np.lexsort((np.arange(len(nearest)), -cosines.max(axis=1).round(9)))
        token_pairs = [(int(i), int(nearest[i]), None, 1 - float(cosines[i, nearest[i]])) for i in order]
    else:
        if not pairs:
            ground = "cosine" if cost == "fusion" else cost
            measure = measure_query(query, ground, passages)
            pairs = find_strongest_pairs(measure, chunk.measure(0, ground), ground, limit=MAX_PAIRS)
        token_pairs = [(p.source, p.target, p.mass, p.cost) for p in pairs]
    entries: dict[tuple[str, int], dict[str, Any]] = {}
    for source, target, mass, pair_cost in token_pairs:
        query_word, _, _ = _word_at(query.text, query.tokens.offsets, query.tokens.words, source)
        chunk_word, start, end = _word_at(text, tokens.spans, tokens.words, target)
        if (query_word, start) in entries or not all(any(map(str.isalnum, word)) for word in (query_word, chunk_word)):
            continue
        entry: dict[str, Any] = {
            "query": query_word,
            "text": chunk_word,
            "at": f"{start}:{end}",
            "cost": round(pair_cost, 6),
        }
        entries[query_word, start] = entry if mass is None else {**entry, "mass": round(mass, 6)}
        if len(entries) == MAX_ALIGNED_PAIRS:
            break
    return list(entries.values())
