"""Fine ranking of USCRaKE: scores of chunks and of sentences for a query; larger is better.

The score of a transport cost is its negative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from evidence_assets.models.inference import resolve_device
from evidence_assets.models.vectors import Array
from evidence_assets.retrieval.bm25 import IntArray
from evidence_assets.retrieval.maxsim import Cosines, nearest_cosines, token_cosines
from evidence_assets.systems.uscrake.fusion import (
    Finish,
    TitleLinks,
    best_fusion_scores,
    normalise_text,
    normalise_title,
)
from evidence_assets.systems.uscrake.hypotheses import Query
from evidence_assets.systems.uscrake.passages import EncodedPassages
from evidence_assets.systems.uscrake.settings import UscrakeSettings
from evidence_assets.transport import (
    TextCollection,
    TokenMeasure,
    TokenPair,
    TokenPool,
    find_nearest_texts,
    get_ground_cost,
)

FinishOf = Callable[[Cosines], Finish]
"""The last step of ``fusion`` for texts with these nearest cosines."""
MAX_PAIRS = 20
"""Maximum token pairs of a plan that are returned."""
MAX_NORMALISED_TEXTS = 1 << 14
"""Maximum chunks whose normalised texts are in memory."""


def top_positions(scores: Array, k: int) -> list[int]:
    """Positions of the k largest finite scores, ties by position."""
    return [int(i) for i in np.argsort(-scores, kind="stable")[:k] if np.isfinite(scores[i])]


def measure_query(query: Query, cost: str, passages: EncodedPassages) -> TokenMeasure:
    """The query as a token measure under a ground cost."""
    return get_ground_cost(cost).measure(query.tokens.vectors, passages.token_weights(query.tokens.tokens))


def late_interaction_scores(nearest: Cosines) -> Array:
    """Mean over query tokens of the cosine with the nearest token of each text."""
    return np.asarray(nearest.mean(axis=0, dtype=np.float64))


@dataclass
class TransportCount:
    """Texts that are ranked by transport, and transport problems solved for that."""

    texts: int = 0
    solved: int = 0


@dataclass(frozen=True, eq=False)
class TextScores:
    """Scores of texts for a query; minus infinity for texts that are provably not among the best.

    ``pairs``: The strongest token pairs of the plans of the best texts, if transport alone ranks them.
    """

    scores: Array
    pairs: Mapping[int, Sequence[TokenPair]] = field(default_factory=dict)


@dataclass(frozen=True)
class Sentence:
    """A sentence of kept chunk ``chunk``: its characters, and the rows of its tokens in the pool."""

    chunk: int
    start: int
    end: int
    rows: IntArray


class ChunkRanker:
    """Scores texts by the cost of a variant; ``count`` adds up the transport problems."""

    def __init__(self, settings: UscrakeSettings, passages: EncodedPassages, count: TransportCount) -> None:
        self._settings, self._passages, self._count = settings, passages, count
        self._normalised: dict[int, tuple[str, str]] = {}

    def score_chunks(
        self, queries: Sequence[Query], pool: IntArray, likely: Sequence[Sequence[int]] | None = None
    ) -> list[TextScores]:
        """Scores of the chunks of a pool for each query.

        ``likely``: For each query, numbers in the pool of chunks that probably rank first; they only save time.
        """
        texts: TextCollection = self._passages.texts(pool)
        k = self._settings.k
        if self._settings.cost != "fusion":
            return self._score_texts(queries, texts, k, likely)
        if len(pool) <= self._settings.transported:
            loaded = texts.select(range(len(texts)))
            return [TextScores(self._fuse(query, loaded, self._link(pool))) for query in queries]
        all_scores = []
        for query, nearest in zip(queries, nearest_cosines([q.tokens.vectors for q in queries], texts), strict=True):
            best = np.sort(top_positions(late_interaction_scores(nearest), self._settings.transported))
            scores = np.full(len(texts), -np.inf)
            scores[best] = self._fuse(query, texts.select(best), self._link(pool[best]), nearest[:, best])
            all_scores.append(TextScores(scores))
        return all_scores

    def _link(self, chunks: IntArray) -> FinishOf:
        """How links between the chunks raise their scores."""
        if not self._settings.links:
            return lambda nearest: _keep_scores
        links = self._title_links(chunks)
        return lambda nearest: partial(links.boost, gains=links.gains(nearest), weight=self._settings.links)

    def score_sentences(
        self, query: Query, sentences: Sequence[Sentence], chunks: TokenPool, chunk_scores: Array, k: int
    ) -> Array:
        """Mean of each sentence's own score and its chunk's score, for the k best."""
        if not sentences:
            return np.zeros(0)
        rows = np.concatenate([s.rows for s in sentences])
        offsets = np.concatenate([[0], np.cumsum([len(s.rows) for s in sentences])]).astype(np.int64)
        texts = TokenPool(chunks.vectors[rows], offsets, chunks.weights[rows])
        of_chunks = chunk_scores[[s.chunk for s in sentences]]
        if self._settings.cost == "fusion":
            return self._fuse(query, texts, lambda _: lambda scores: _keep_scores((scores + of_chunks) / 2), k=k)
        return np.asarray((self._score_texts([query], texts, len(sentences))[0].scores + of_chunks) / 2)

    def _score_texts(
        self, queries: Sequence[Query], texts: TextCollection, k: int, likely: Sequence[Sequence[int]] | None = None
    ) -> list[TextScores]:
        """Scores of the k best texts for each query, by late interaction or a ground cost."""
        cost = self._settings.cost
        if cost == "maxsim":
            nearest = nearest_cosines([q.tokens.vectors for q in queries], texts)
            return [TextScores(late_interaction_scores(cosines)) for cosines in nearest]
        measures = [measure_query(q, cost, self._passages) for q in queries]
        all_scores = []
        device = resolve_device("auto")
        for result in find_nearest_texts(measures, texts, k, cost, device=device, likely=likely, n_pairs=MAX_PAIRS):
            scores = np.full(len(texts), -np.inf)
            scores[result.indices] = -result.distances
            all_scores.append(TextScores(scores, dict(zip(result.indices.tolist(), result.pairs, strict=True))))
            self._count_problems(len(texts), result.n_solved)
        return all_scores

    def _fuse(
        self, query: Query, texts: TokenPool, finish: FinishOf, nearest: Cosines | None = None, k: int = 0
    ) -> Array:
        """Scores of the k best texts; ``nearest`` are their nearest cosines, if they are known."""
        measure = measure_query(query, "cosine", self._passages)
        cosines = token_cosines(query.tokens.vectors, texts)
        if nearest is None:
            nearest = np.maximum.reduceat(cosines, texts.offsets[:-1], axis=1)
        late, k = late_interaction_scores(nearest), k or self._settings.k
        scores, n_solved = best_fusion_scores(measure, texts, cosines, late, k, finish(nearest))
        self._count_problems(len(texts), n_solved)
        return scores

    def _title_links(self, chunks: IntArray) -> TitleLinks:
        """Links between chunks; their normalised texts are kept for the next pools, which share many of them."""
        missing = [i for i in chunks.tolist() if i not in self._normalised]
        if len(self._normalised) + len(missing) > MAX_NORMALISED_TEXTS:
            self._normalised, missing = {}, chunks.tolist()
        titles, texts = self._passages.corpus.titles(missing), self._passages.corpus.texts(missing)
        for i, title, text in zip(missing, titles, texts, strict=True):
            self._normalised[i] = normalise_title(title), normalise_text(text)
        names, normalised_texts = zip(*(self._normalised[i] for i in chunks.tolist()), strict=True)
        return TitleLinks(names, normalised_texts)

    def _count_problems(self, texts: int, solved: int) -> None:
        self._count.texts += texts
        self._count.solved += solved


def _keep_scores(scores: Array) -> tuple[Array, list[int]]:
    return scores, [-1] * len(scores)
