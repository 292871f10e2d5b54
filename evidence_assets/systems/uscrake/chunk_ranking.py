"""Fine ranking of text for USCRaKE: chunks of a pool, then the sentences of the chunks that are kept.

Belongs here: scores of texts against a query by their token vectors under a named cost, the words that aligned, the
titles that link passages. Where the pool comes from and what becomes of the ranking is decided in ``uscrake``.

Scores are larger for what is nearer; a transport cost counts negatively.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from evidence_assets.models.protocols import TokenVectors
from evidence_assets.models.vectors import unit_rows
from evidence_assets.retrieval.bm25 import term_weight
from evidence_assets.retrieval.fusion import CHUNK_WEIGHTS, SENTENCE_WEIGHTS, fuse, lift, spread
from evidence_assets.retrieval.maxsim import maxsim_texts
from evidence_assets.retrieval.token_store import TokenStore
from evidence_assets.text.nearest import nearest
from evidence_assets.transport import TokenMeasure, TokenPool, ground_cost, ground_costs, strongest_pairs, top_k
from evidence_assets.transport.exact import solve

RANKINGS = ("fusion", "maxsim")
"""Ways to rank texts that are no ground cost: ``fusion`` joins several scores, ``maxsim`` is late interaction."""
DEEP = 100
"""Candidates of one query that the fusion transports exactly; the cosine of mean vectors leads the way."""
PAIRS_SHOWN = 5
SHORTEST_TITLE = 3

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]
_BRACKETS = re.compile(r"\s*\(.*?\)")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, eq=False)
class Query:
    """Question ⊕ option with its tokens."""

    text: str
    tokens: TokenVectors

    def __len__(self) -> int:
        return len(self.tokens.tokens)

    @property
    def mean(self) -> Array:
        """Unit mean of its token vectors."""
        mean: Array = unit_rows(self.tokens.vectors.astype(np.float64).mean(axis=0)[None])[0]
        return mean


@dataclass(frozen=True)
class Texts:
    """Texts that are ranked together: their tokens, and each token's surface form as a number of the store."""

    pool: TokenPool
    pieces: Ints

    @property
    def lengths(self) -> Ints:
        return np.diff(self.pool.offsets)

    @cached_property
    def means(self) -> Array:
        """Unit mean of each text's token vectors."""
        sums = np.add.reduceat(self.pool.vectors.astype(np.float64), self.pool.offsets[:-1], axis=0)
        return unit_rows(sums / self.lengths[:, None])

    @cached_property
    def unit(self) -> Array:
        """Token vectors of length one, in float64."""
        return unit_rows(self.pool.vectors.astype(np.float64))

    @cached_property
    def masses(self) -> Array:
        """Weights normalised within each text."""
        return self.pool.masses()


def check_cost(name: str) -> None:
    """Refuse a name that is neither a ranking nor a registered ground cost.

    Raises
    ------
    ValueError
        It names the one whose name is most like it.
    """
    known = (*RANKINGS, *ground_costs())
    if name not in known:
        near = nearest(name, known)
        raise ValueError(f"there is no cost {name!r}; known: {', '.join(sorted(known))}; did you mean {near!r}?")


def query_measure(query: Query, cost: str, store: TokenStore, temperature: float) -> TokenMeasure:
    """The query as a measure under a ground cost; it is weighted as the store's texts are."""
    weights = store.token_weights(query.tokens.tokens)
    return ground_cost(cost).measure(query.tokens.vectors, weights, temperature)


def lexical(query: Query, texts: Texts, store: TokenStore) -> Array:
    """BM25 (plus-one idf) of each text, by the corpus's statistics; equals ``BM25Index`` over the whole corpus."""
    scores = np.zeros(len(texts.pool))
    statistics = store.statistics
    for piece, times in Counter(query.tokens.tokens).items():
        number = store.piece_number.get(piece)
        if number is not None:
            counts = np.add.reduceat((texts.pieces == number).astype(np.float64), texts.pool.offsets[:-1])
            idf = times * statistics.idf(piece, "plus_one")
            scores += term_weight(idf, counts, texts.lengths, statistics.average_length)
    return scores


def transported(query: Query, texts: Texts, store: TokenStore, chosen: Sequence[int]) -> Array:
    """Minus the exact transport cost under the cosine, of the chosen texts; minus infinity for the others.

    The same as ``transport.distance`` text by text, but costs to all tokens of the pool are one product.
    """
    found = np.full(len(texts.pool), -np.inf)
    own = query_measure(query, "cosine", store, 1.0)
    costs = np.clip(1.0 - unit_rows(own.points) @ texts.unit.T, 0.0, 2.0)
    for text in chosen:
        rows = slice(int(texts.pool.offsets[text]), int(texts.pool.offsets[text + 1]))
        found[text] = -solve(own.masses, texts.masses[rows], costs[:, rows]).value
    return found


def fused(query: Query, texts: Texts, store: TokenStore, weights: Mapping[str, float]) -> Array:
    """The scores of the default that have a weight, joined; see ``retrieval.fusion``."""
    lead = texts.means @ query.mean
    made: dict[str, Callable[[], Array]] = {
        "bm25": lambda: lexical(query, texts, store),
        "maxsim": lambda: maxsim_texts(query.tokens.vectors, texts.pool),
        "cosine": lambda: lead,
        "transport": lambda: transported(query, texts, store, np.argsort(-lead, kind="stable")[:DEEP].tolist()),
    }
    return fuse({name: made[name]() for name in weights}, weights)


def scores_of(
    queries: Sequence[Query],
    texts: Texts,
    store: TokenStore,
    cost: str,
    k: int,
    temperature: float = 1.0,
    weights: Mapping[str, float] = CHUNK_WEIGHTS,
) -> list[Array]:
    """Score of every text for each query; minus infinity for texts that are proved not to be among the best k.

    ``weights`` are those of the scores that ``fusion`` joins.
    """
    if not len(texts.pool):
        return [np.zeros(0) for _ in queries]
    if cost == "maxsim":
        return [maxsim_texts(q.tokens.vectors, texts.pool) for q in queries]
    if cost == "fusion":
        return [fused(q, texts, store, weights) for q in queries]
    measures = [query_measure(q, cost, store, temperature) for q in queries]
    made = []
    for found in top_k(measures, texts.pool, k, cost, temperature):
        scores = np.full(len(texts.pool), -np.inf)
        scores[found.indices] = -found.distances
        made.append(scores)
    return made


def best(scores: Array, k: int) -> list[int]:
    """Positions of the k largest, ties by position; what is minus infinity is left out."""
    return [int(i) for i in np.argsort(-scores, kind="stable")[:k] if np.isfinite(scores[i])]


# Titles ----------------------------------------------------------------------------------------------------------


def words_of(text: str) -> list[str]:
    """Lower-case words."""
    return _WORD.findall(text.casefold())


@dataclass(frozen=True)
class TitleLinks:
    """Among the chunks of a pool: which mentions the title of which."""

    sources: Ints
    targets: Ints

    @classmethod
    def of(cls, titles: Sequence[str], texts: Sequence[str], documents: Sequence[str]) -> TitleLinks:
        """Links from a chunk to all chunks of another document whose title stands in its text as whole words.

        What a title says in brackets only tells it from others and is left out; titles of fewer than three letters are
        found everywhere and name nothing.
        """
        names = [" ".join(words_of(_BRACKETS.sub("", title))) for title in titles]
        owners: dict[str, list[int]] = {}
        for i, name in enumerate(names):
            if len(name) >= SHORTEST_TITLE:
                owners.setdefault(name, []).append(i)
        longest = max((name.count(" ") + 1 for name in owners), default=0)
        links: set[tuple[int, int]] = set()
        for i, text in enumerate(texts):
            words = words_of(text)
            # Runs of words are looked up, so that the cost does not grow with the number of titles.
            runs = {" ".join(words[a : a + n]) for n in range(1, longest + 1) for a in range(len(words) - n + 1)}
            for name in runs & owners.keys():
                links.update((i, j) for j in owners[name] if documents[i] != documents[j])
        found = np.array(sorted(links), dtype=np.int64).reshape(-1, 2)
        return cls(found[:, 0], found[:, 1])

    def raised(self, scores: Array) -> Array:
        """Scores spread along the links."""
        return spread(scores, self.sources, self.targets)


# Sentences -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sentence:
    """A sentence of the kept chunk number ``chunk``: its characters and the rows of its tokens."""

    chunk: int
    start: int
    end: int
    rows: Ints


def sentences_in(number: int, rows: Ints, starts: Ints, spans: Sequence[tuple[int, int]]) -> list[Sentence]:
    """Sentences of a chunk that hold tokens, with the rows of them."""
    found = [Sentence(number, a, b, rows[(starts >= a) & (starts < b)]) for a, b in spans]
    return [sentence for sentence in found if len(sentence.rows)]


def sentence_texts(sentences: Sequence[Sentence], store: TokenStore) -> Texts:
    """Sentences as texts, by the rows of their chunks' tokens in the store."""
    rows = np.concatenate([s.rows for s in sentences]) if sentences else np.zeros(0, np.int64)
    offsets = np.concatenate([[0], np.cumsum([len(s.rows) for s in sentences])]).astype(np.int64)
    pool = TokenPool(np.asarray(store.vectors[rows]), offsets, np.asarray(store.weights[rows]), check=False)
    return Texts(pool, np.asarray(store.pieces[rows]))


def sentence_scores(
    query: Query,
    sentences: Sequence[Sentence],
    chunk_scores: Array,
    store: TokenStore,
    cost: str,
    temperature: float,
) -> Array:
    """A sentence's own score under the cost, lifted by that of its chunk; the best of each chunk come first."""
    if not sentences:
        return np.zeros(0)
    texts = sentence_texts(sentences, store)
    own = scores_of([query], texts, store, cost, len(sentences), temperature, SENTENCE_WEIGHTS)[0]
    return lift(own, chunk_scores, [s.chunk for s in sentences])


# Reasons ---------------------------------------------------------------------------------------------------------


def _word(text: str, spans: Ints, words: Ints, token: int) -> tuple[str, int, int]:
    """The word that a token belongs to, with its place."""
    own = spans[words == words[token]]
    start, end = int(own[:, 0].min()), int(own[:, 1].max())
    return text[start:end], start, end


def _telling(word: str) -> bool:
    return any(c.isalnum() for c in word)


def aligned_words(
    query: Query, chunk: int, text: str, store: TokenStore, cost: str, temperature: float
) -> list[dict[str, Any]]:
    """The words that make a chunk near: the heaviest cells of the transport plan.

    Each says a word of the query, one of the chunk with its characters, the mass that moves and at what cost. The
    fusion shows the plan of its transport part; ``maxsim`` has no plan and shows the nearest pairs, without mass.
    """
    rows = store.rows_of(chunk)
    spans, words = np.asarray(store.spans[rows]), np.asarray(store.words[rows])
    pool, _ = store.gather([chunk])
    found: list[tuple[int, int, float | None, float]]
    if cost == "maxsim":
        similar = unit_rows(query.tokens.vectors.astype(np.float64)) @ unit_rows(pool.vectors.astype(np.float64)).T
        nearest = similar.argmax(axis=1)
        order = np.lexsort((np.arange(len(nearest)), -similar.max(axis=1).round(9)))
        found = [(int(i), int(nearest[i]), None, 1 - float(similar[i, nearest[i]])) for i in order]
    else:
        ground = "cosine" if cost == "fusion" else cost
        measure = query_measure(query, ground, store, temperature)
        pairs = strongest_pairs(measure, pool.measure(0, ground, temperature), ground, limit=4 * PAIRS_SHOWN)
        found = [(p.source, p.target, p.mass, p.cost) for p in pairs]
    shown: dict[tuple[str, int], dict[str, Any]] = {}
    for source, target, mass, price in found:
        asked, _, _ = _word(query.text, query.tokens.offsets, query.tokens.words, source)
        there, start, end = _word(text, spans, words, target)
        if (asked, start) in shown or not (_telling(asked) and _telling(there)):
            continue
        entry: dict[str, Any] = {"query": asked, "text": there, "at": f"{start}:{end}", "cost": round(price, 6)}
        shown[asked, start] = entry if mass is None else {**entry, "mass": round(mass, 6)}
        if len(shown) == PAIRS_SHOWN:
            break
    return list(shown.values())
