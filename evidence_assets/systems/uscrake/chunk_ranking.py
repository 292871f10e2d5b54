"""Step 2 of USCRaKE: scores of chunks and of sentences for a query; larger is better.

The score of a transport cost is its negative.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from evidence_assets.models.vectors import Array, top_positions
from evidence_assets.retrieval.bm25 import IntArray
from evidence_assets.retrieval.maxsim import Cosines, nearest_tokens
from evidence_assets.systems.uscrake.passages import EncodedPassages, Pool, Query
from evidence_assets.systems.uscrake.settings import UscrakeSettings
from evidence_assets.text.words import words_with_offsets
from evidence_assets.transport import GroundCost, TextCollection, TokenPool, find_nearest_texts, get_ground_cost

MAX_TRANSPORTED = 100
"""Chunks with the best late interaction that ``fusion`` scores by transport; it drops the others."""
FUSED_COST = get_ground_cost("cosine")
"""Ground cost of ``fusion``."""


def late_interaction_scores(nearest: Cosines) -> Array:
    """Mean over query tokens of the cosine with the nearest token of each text."""
    return np.asarray(nearest.mean(axis=0, dtype=np.float64))


@dataclass(frozen=True)
class Sentence:
    """A sentence of kept chunk ``chunk``: its characters, and the rows of its tokens in the pool."""

    chunk: int
    start: int
    end: int
    rows: IntArray


class ChunkRanker:
    """Scores texts by the cost of a variant."""

    def __init__(self, settings: UscrakeSettings, passages: EncodedPassages) -> None:
        self._settings = settings
        self._passages = passages

    def score_chunks(self, query: Query, pool: Pool) -> Array:
        """Scores of the chunks of a pool; minus infinity for those that are not among the best."""
        settings = self._settings
        if settings.cost == "embedding":
            return pool.cosines
        texts = self._passages.texts(pool.chunks)
        if settings.cost != "fusion":
            likely = top_positions(pool.cosines, settings.k)  # the search starts with these, which saves time
            return self._score_texts(query, texts, settings.k, likely)
        nearest = nearest_tokens(query.tokens.vectors, texts)
        best = np.sort(top_positions(late_interaction_scores(nearest), MAX_TRANSPORTED))
        nearest = nearest[:, best]
        fused = self._fuse(query, texts.select(best), nearest)
        if settings.links:
            corpus = self._passages.corpus
            chunks = pool.chunks[best]
            links = find_title_links(corpus.titles(chunks), corpus.texts(chunks))
            fused = boost_linked_texts(fused, nearest, links, settings.links)
        scores = np.full(len(texts), -np.inf)
        scores[best] = fused
        return scores

    def score_sentences(
        self, query: Query, sentences: Sequence[Sentence], chunks: TokenPool, chunk_scores: Array
    ) -> Array:
        """Mean of each sentence's own score and its chunk's score."""
        if not sentences:
            return np.zeros(0)
        rows = np.concatenate([s.rows for s in sentences])
        offsets = np.concatenate([[0], np.cumsum([len(s.rows) for s in sentences])]).astype(np.int64)
        texts = TokenPool(chunks.vectors[rows], offsets, chunks.weights[rows])
        if self._settings.cost == "fusion":
            own_scores = self._fuse(query, texts, nearest_tokens(query.tokens.vectors, texts))
        else:
            own_scores = self._score_texts(query, texts, len(sentences))
        return np.asarray((own_scores + chunk_scores[[s.chunk for s in sentences]]) / 2)

    def _score_texts(self, query: Query, texts: TextCollection, k: int, likely: Sequence[int] = ()) -> Array:
        """Scores of the k best texts, by late interaction or a ground cost."""
        ground = self._settings.ground
        if ground is None:  # maxsim
            return late_interaction_scores(nearest_tokens(query.tokens.vectors, texts))
        return -self._transport_costs(query, texts, ground, k, likely)

    def _fuse(self, query: Query, texts: TokenPool, nearest: Cosines) -> Array:
        r"""Scores of ``fusion``: the mean of late interaction and one minus the cost of transport by cosine costs.

        .. math:: S(y) = \tfrac{1}{2} \Bigl(\tfrac{1}{|q|} \sum_i \max_j \cos(q_i, y_j)
            + 1 - \mathrm{OT}_{\cos}(q, y)\Bigr)

        Late interaction weights all words equally; transport weights rare words more and matches their mass in the
        text. Both are cosines, so that scores of different queries are comparable.
        """
        costs = self._transport_costs(query, texts, FUSED_COST, len(texts))
        return np.asarray((late_interaction_scores(nearest) + 1 - costs) / 2)

    def _transport_costs(
        self, query: Query, texts: TextCollection, cost: GroundCost, k: int, likely: Sequence[int] = ()
    ) -> Array:
        """Exact transport costs of the k nearest texts, infinity for the others."""
        measure = cost.measure(query.tokens.vectors, self._passages.token_weights(query.tokens.tokens))
        (nearest,) = find_nearest_texts([measure], texts, k, cost, likely=[likely])
        costs = np.full(len(texts), np.inf)
        costs[nearest.indices] = nearest.distances
        return costs


# Links between chunks -----------------------------------------------------------------------------------------------


MIN_TITLE_LENGTH = 3

_BRACKETS = re.compile(r"\s*\(.*?\)")


@lru_cache(maxsize=1 << 14)
def normalise_text(text: str) -> str:
    """Lower-case words, joined by single spaces; cached because pools share many chunks."""
    return " ".join(word.casefold() for word, _, _ in words_with_offsets(text))


def find_title_links(titles: Sequence[str], texts: Sequence[str]) -> list[tuple[int, int]]:
    """Links from texts of a pool to the texts whose titles they mention, as whole words.

    Text in brackets only disambiguates a title and is ignored. Titles under three letters are too common to match.
    """
    names = [normalise_text(_BRACKETS.sub("", title)) for title in titles]
    owners: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        if len(name) >= MIN_TITLE_LENGTH:
            owners.setdefault(name, []).append(i)
    return [
        (i, j)
        for i, text in enumerate(f" {normalise_text(text)} " for text in texts)
        for name in owners
        if name != names[i] and f" {name} " in text
        for j in owners[name]
    ]


def boost_linked_texts(scores: Array, nearest: Cosines, links: Sequence[tuple[int, int]], weight: float) -> Array:
    r"""Boost texts that a better text mentions.

    .. math:: S'(y) = \max_{x \to y,\, S(x) > S(y)} \min\Bigl(S(x),\,
        S(y) + w \tfrac{1}{|q|} \sum_i \max\bigl(0, n_i(y) - n_i(x)\bigr)\Bigr)

    n_i is the cosine of query token i with its nearest token of a text (``nearest``). For a two-hop question both
    pages then rank high: the first page mentions the second. A page that covers no query token better keeps its
    score, and no page passes the page that mentions it.
    """
    sources, targets = np.array(links, dtype=np.int64).reshape(-1, 2).T
    improvement = nearest[:, targets].astype(np.float64) - nearest[:, sources]
    gains = np.maximum(0.0, improvement).mean(axis=0)
    is_better = (scores[sources] > scores[targets]) & (gains > 0)
    targets = targets[is_better]
    # Just below the source, so that ties cannot reverse the order.
    below = np.nextafter(scores[sources[is_better]], -np.inf)
    boosted = scores.copy()
    np.maximum.at(boosted, targets, np.minimum(below, scores[targets] + weight * gains[is_better]))
    return boosted
