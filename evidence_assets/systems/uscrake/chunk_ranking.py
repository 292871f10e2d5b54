"""Fine ranking of text for USCRaKE: chunks of a pool, then the sentences of the chunks that are kept.

Scores are larger for what is nearer; a transport cost counts negatively.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from evidence_assets.models.inference import resolve_device
from evidence_assets.models.protocols import TokenVectors
from evidence_assets.models.vectors import Array, unit_rows
from evidence_assets.retrieval.bm25 import IntArray
from evidence_assets.retrieval.maxsim import Cosines, nearest_cosines
from evidence_assets.retrieval.token_cache import TextTokens
from evidence_assets.systems.uscrake.passages import EncodedPassages
from evidence_assets.text.words import words_with_offsets
from evidence_assets.transport import (
    TextCollection,
    TokenMeasure,
    TokenPool,
    find_nearest_texts,
    find_strongest_pairs,
    get_ground_cost,
)
from evidence_assets.transport.exact import solve_transport

RANKINGS = ("fusion", "maxsim")
"""Rankings that are no ground cost: ``fusion`` joins late interaction and transport, ``maxsim`` is the first alone."""
MAX_ALIGNED_PAIRS = 5
MIN_TITLE_LENGTH = 3

_BRACKETS = re.compile(r"\s*\(.*?\)")


@dataclass(frozen=True, eq=False)
class Query:
    """Question ⊕ option with its tokens."""

    text: str
    tokens: TokenVectors

    def __len__(self) -> int:
        return len(self.tokens.tokens)


def measure_query(query: Query, cost: str, weighs: EncodedPassages) -> TokenMeasure:
    """The query as a measure under a ground cost."""
    return get_ground_cost(cost).measure(query.tokens.vectors, weighs.token_weights(query.tokens.tokens))


def transport_costs(query: Query, texts: TextCollection, weighs: EncodedPassages, chosen: Sequence[int]) -> Array:
    """The exact transport cost under the cosine of each chosen text, by BM25 masses.

    The same as ``transport.distance`` text by text, but costs to all their tokens are one product.
    """
    some = texts.select(chosen)
    measure, masses = measure_query(query, "cosine", weighs), some.masses()
    costs = np.clip(1.0 - unit_rows(measure.points) @ unit_rows(some.vectors.astype(np.float64)).T, 0.0, 2.0)
    rows = [slice(int(a), int(b)) for a, b in pairwise(some.offsets)]
    return np.array(
        [solve_transport(measure.masses, masses[own], costs[:, own]).value for own in rows], dtype=np.float64
    )


def late_interaction_scores(nearest: Cosines) -> Array:
    """The mean of the tokens' cosines with the nearest of a text, for each text."""
    return np.asarray(nearest.mean(axis=0, dtype=np.float64))


def fusion_scores(query: Query, texts: TextCollection, weighs: EncodedPassages, deep: int, nearest: Cosines) -> Array:
    r"""The mean of two similarities of a text, of which one looks for each word of the query, the other for all
    together.

    .. math:: S(y) = \tfrac{1}{2}\Bigl(\tfrac{1}{|q|}\sum_i \max_j \cos(q_i, y_j) + 1 - \mathrm{OT}_{\cos}(q, y)\Bigr)

    Late interaction, the first, counts every word alike; transport, the second, weighs rare ones more and wants as much
    of them in the text. Both are cosines, so that scores of different queries are on one scale. Only the ``deep`` best
    texts of late interaction are transported, the others are left out. ``nearest`` is that of ``nearest_tokens``.
    """
    late = late_interaction_scores(nearest)
    chosen = top_positions(late, deep)
    scores = np.full(len(texts), -np.inf)
    scores[chosen] = (late[chosen] + 1.0 - transport_costs(query, texts, weighs, chosen)) / 2
    return scores


def score_texts(
    queries: Sequence[Query], texts: TextCollection, weighs: EncodedPassages, cost: str, k: int
) -> list[Array]:
    """Score of every text for each query; minus infinity for texts that are proved not to be among the best k."""
    if not len(texts):
        return [np.zeros(0) for _ in queries]
    if cost in RANKINGS:
        nearest = nearest_cosines([q.tokens.vectors for q in queries], texts)
        if cost == "maxsim":
            return [late_interaction_scores(each) for each in nearest]
        return [fusion_scores(q, texts, weighs, len(texts), n) for q, n in zip(queries, nearest, strict=True)]
    measures = [measure_query(q, cost, weighs) for q in queries]
    all_scores = []
    for result in find_nearest_texts(measures, texts, k, cost, device=resolve_device("auto")):
        scores = np.full(len(texts), -np.inf)
        scores[result.indices] = -result.distances
        all_scores.append(scores)
    return all_scores


def top_positions(scores: Array, k: int) -> list[int]:
    """Positions of the k largest, ties by position; what is minus infinity is left out."""
    return [int(i) for i in np.argsort(-scores, kind="stable")[:k] if np.isfinite(scores[i])]


# Titles ----------------------------------------------------------------------------------------------------------


def _normalise(text: str) -> str:
    """Lower-case words, joined by single spaces."""
    return " ".join(word.casefold() for word, _, _ in words_with_offsets(text))


@dataclass(frozen=True)
class TitleLinks:
    """Among the texts of a pool: which mentions the title of which."""

    sources: IntArray
    targets: IntArray

    @classmethod
    def of(cls, titles: Sequence[str], texts: Sequence[str], numbers: IntArray) -> TitleLinks:
        """Links between texts of these numbers, from each to all of another title that stands in it as whole words.

        What a title says in brackets only tells it from others and is left out; titles of fewer than three letters are
        found everywhere and name nothing.
        """
        of = numbers.tolist()
        names = {i: _normalise(_BRACKETS.sub("", title)) for i, title in zip(of, titles, strict=True)}
        owners: dict[str, list[int]] = {}
        for i, name in names.items():
            if len(name) >= MIN_TITLE_LENGTH:
                owners.setdefault(name, []).append(i)
        links: list[tuple[int, int]] = []
        for i, read in zip(of, texts, strict=True):
            text = f" {_normalise(read)} "
            links += [(i, j) for name in owners if name != names[i] and f" {name} " in text for j in owners[name]]
        found = np.array(links, dtype=np.int64).reshape(-1, 2)
        return cls(found[:, 0], found[:, 1])

    def raised(self, scores: Array, nearest: Cosines, weight: float) -> Array:
        r"""Scores in which a text gains what it says of the question beyond a better one that names it.

        .. math:: S'(y) = \max_{x \to y,\, S(x) > S(y)} \min\Bigl(S(x),\,
            S(y) + w \tfrac{1}{|q|} \sum_i \max\bigl(0, n_i(y) - n_i(x)\bigr)\Bigr)

        n_i is the cosine of the query's token i with its nearest one of a text (``nearest``). So a question in two
        steps, whose first page names the second, is answered by both; a page that says nothing new of the question
        stays where it is, and none passes the page that names it, least of all the first.
        """
        made = scores.copy()
        better = scores[self.sources] > scores[self.targets]
        sources, targets = self.sources[better], self.targets[better]
        further = nearest[:, targets].astype(np.float64) - nearest[:, sources]
        gain = np.maximum(0.0, further).mean(axis=0)
        # Just below the source, so that equal scores cannot turn the order.
        below = np.nextafter(scores[sources], -np.inf)
        np.maximum.at(made, targets, np.minimum(below, scores[targets] + weight * gain))
        return made


# Sentences -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sentence:
    """A sentence of the kept chunk number ``chunk``: its characters and the rows of its tokens among those of all."""

    chunk: int
    start: int
    end: int
    rows: IntArray


def sentences_with_tokens(
    number: int, rows: IntArray, starts: IntArray, spans: Sequence[tuple[int, int]]
) -> list[Sentence]:
    """Sentences of a chunk that hold tokens, with the rows of them."""
    found = [Sentence(number, a, b, rows[(starts >= a) & (starts < b)]) for a, b in spans]
    return [sentence for sentence in found if len(sentence.rows)]


def score_sentences(
    query: Query,
    sentences: Sequence[Sentence],
    chunk_scores: Array,
    chunks: TokenPool,
    weighs: EncodedPassages,
    cost: str,
) -> Array:
    """The mean of a sentence's own score under the cost and of that of its chunk."""
    if not sentences:
        return np.zeros(0)
    rows = np.concatenate([s.rows for s in sentences])
    offsets = np.concatenate([[0], np.cumsum([len(s.rows) for s in sentences])]).astype(np.int64)
    texts = TokenPool(chunks.vectors[rows], offsets, chunks.weights[rows])
    own = score_texts([query], texts, weighs, cost, len(sentences))[0]
    return np.asarray((own + chunk_scores[[s.chunk for s in sentences]]) / 2)


# Reasons ---------------------------------------------------------------------------------------------------------


def _word_at(text: str, spans: IntArray, words: IntArray, token: int) -> tuple[str, int, int]:
    """The word that a token belongs to, with its place."""
    own = spans[words == words[token]]
    start, end = int(own[:, 0].min()), int(own[:, 1].max())
    return text[start:end], start, end


def align_words(
    query: Query, text: str, chunk: TokenPool, tokens: TextTokens, weighs: EncodedPassages, cost: str
) -> list[dict[str, Any]]:
    """The words that make a chunk, the only text of its pool, near: the heaviest cells of the transport plan.

    Each says a word of the query, one of the chunk with its characters, the mass that moves and at what cost. The
    fusion shows the plan of its transport part; ``maxsim`` has no plan and shows the nearest pairs, without mass.
    """
    found: list[tuple[int, int, float | None, float]]
    if cost == "maxsim":
        similar = unit_rows(query.tokens.vectors.astype(np.float64)) @ unit_rows(chunk.vectors.astype(np.float64)).T
        nearest = similar.argmax(axis=1)
        order = np.lexsort((np.arange(len(nearest)), -similar.max(axis=1).round(9)))
        found = [(int(i), int(nearest[i]), None, 1 - float(similar[i, nearest[i]])) for i in order]
    else:
        ground = "cosine" if cost == "fusion" else cost
        measure = measure_query(query, ground, weighs)
        pairs = find_strongest_pairs(measure, chunk.measure(0, ground), ground, limit=4 * MAX_ALIGNED_PAIRS)
        found = [(p.source, p.target, p.mass, p.cost) for p in pairs]
    shown: dict[tuple[str, int], dict[str, Any]] = {}
    for source, target, mass, price in found:
        asked, _, _ = _word_at(query.text, query.tokens.offsets, query.tokens.words, source)
        there, start, end = _word_at(text, tokens.spans, tokens.words, target)
        if (asked, start) in shown or not all(any(map(str.isalnum, word)) for word in (asked, there)):
            continue
        entry: dict[str, Any] = {"query": asked, "text": there, "at": f"{start}:{end}", "cost": round(price, 6)}
        shown[asked, start] = entry if mass is None else {**entry, "mass": round(mass, 6)}
        if len(shown) == MAX_ALIGNED_PAIRS:
            break
    return list(shown.values())
