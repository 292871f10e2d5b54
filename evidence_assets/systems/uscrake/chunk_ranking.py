"""Step 2 of USCRaKE: scores of chunks and of sentences for a query; larger is better.

The score of a transport cost is its negative.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from evidence_assets.models.vectors import Array, top_positions
from evidence_assets.retrieval.bm25 import IntArray
from evidence_assets.retrieval.maxsim import Cosines, nearest_tokens
from evidence_assets.retrieval.token_cache import CachedText
from evidence_assets.retrieval.token_store import TokenTexts
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


@dataclass(frozen=True, eq=False)
class BestChunks:
    """The best chunks of the parts of a pool so far, in the order of the corpus.

    ``nearest``: For late interaction, the cosine of each query token with the nearest token of each chunk.
    ``members``: The cached texts of each chunk: its title, if that is ranked, and the chunk itself.
    """

    chunks: IntArray
    scores: Array
    nearest: Cosines
    members: Sequence[Sequence[CachedText]]

    def select(self, order: IntArray | Sequence[int]) -> BestChunks:
        """These chunks, in this order."""
        members = [self.members[i] for i in order]
        return BestChunks(self.chunks[order], self.scores[order], self.nearest[:, order], members)

    def merge(self, other: BestChunks, k: int) -> BestChunks:
        """The k best of both, ties by position in the corpus."""
        chunks = np.concatenate([self.chunks, other.chunks])
        scores = np.concatenate([self.scores, other.scores])
        nearest = np.hstack([self.nearest, other.nearest])
        order = np.argsort(chunks)
        best = order[np.sort(top_positions(scores[order], k))]
        return BestChunks(chunks, scores, nearest, [*self.members, *other.members]).select(best)

    def copy(self) -> BestChunks:
        """With the texts in memory, so that their segments can be deleted."""
        return replace(self, members=[[text.copy() for text in texts] for texts in self.members])


class ChunkRanker:
    """Scores texts by the cost of a variant.

    A pool is scored in parts: ``start``, ``add`` for each part in any order, ``finish``. The result is that of the
    whole pool, because a part can only remove chunks that are not among the best.
    """

    def __init__(self, settings: UscrakeSettings, passages: EncodedPassages) -> None:
        self.settings = settings
        self.passages = passages

    def start(self, query: Query) -> BestChunks:
        """No chunks yet."""
        n_rows = len(query) if self.settings.ground is None else 0
        return BestChunks(np.zeros(0, np.int64), np.zeros(0), np.zeros((n_rows, 0), np.float32), [])

    def add(self, query: Query, best: BestChunks, part: Pool, texts: TokenTexts) -> BestChunks:
        """The best chunks of ``best`` and of a part of the pool with these texts."""
        settings = self.settings
        k = MAX_TRANSPORTED if settings.cost == "fusion" else settings.k
        nearest = np.zeros((len(best.nearest), len(texts)), np.float32)
        if settings.cost == "embedding":
            scores = part.cosines
        elif settings.ground is None:
            nearest = nearest_tokens(query.tokens.vectors, texts)
            scores = late_interaction_scores(nearest)
        else:
            likely = top_positions(part.cosines, k)  # the search starts with these, which saves time
            limit = -float(best.scores.min()) if len(best.scores) == k else np.inf
            scores = -self._transport_costs(query, texts.on_device or texts, settings.ground, k, likely, limit)
        return best.merge(BestChunks(part.chunks, scores, nearest, texts.members), k)

    def finish(self, query: Query, best: BestChunks) -> BestChunks:
        """The k best chunks of the pool, best first."""
        settings = self.settings
        scores = best.scores
        if settings.cost == "fusion":
            texts = self.passages.weigh(best.members)
            scores = self._fuse(query, texts.select(range(len(texts))), best.nearest)
            if settings.links:
                corpus = self.passages.corpus
                links = find_title_links(corpus.titles(best.chunks), corpus.texts(best.chunks))
                scores = boost_linked_texts(scores, best.nearest, links, settings.links)
        return replace(best, scores=scores).select(top_positions(scores, settings.k))

    def score_sentences(
        self, query: Query, sentences: Sequence[Sentence], chunks: TokenPool, chunk_scores: Array
    ) -> Array:
        """Mean of each sentence's own score and its chunk's score."""
        if not sentences:
            return np.zeros(0)
        rows = np.concatenate([s.rows for s in sentences])
        offsets = np.concatenate([[0], np.cumsum([len(s.rows) for s in sentences])]).astype(np.int64)
        texts = TokenPool(chunks.vectors[rows], offsets, chunks.weights[rows])
        if self.settings.cost == "fusion":
            own_scores = self._fuse(query, texts, nearest_tokens(query.tokens.vectors, texts))
        else:
            own_scores = self._score_texts(query, texts)
        return np.asarray((own_scores + chunk_scores[[s.chunk for s in sentences]]) / 2)

    def _score_texts(self, query: Query, texts: TextCollection) -> Array:
        """Scores of texts, by late interaction or a ground cost."""
        ground = self.settings.ground
        if ground is None:  # maxsim
            return late_interaction_scores(nearest_tokens(query.tokens.vectors, texts))
        return -self._transport_costs(query, texts, ground, len(texts))

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
        self,
        query: Query,
        texts: TextCollection,
        cost: GroundCost,
        k: int,
        likely: Sequence[int] = (),
        limit: float = np.inf,
    ) -> Array:
        """Exact transport costs of the k nearest texts within a limit, infinity for the others."""
        measure = cost.measure(query.tokens.vectors, self.passages.token_weights(query.tokens.tokens))
        (nearest,) = find_nearest_texts([measure], texts, k, cost, likely=[likely], limits=[limit])
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
