"""Fine ranking of USCRaKE: the chunks of a pool, then the sentences of the kept chunks.

Larger scores are better; the score of a transport cost is its negative.
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
"""Rankings that are not ground costs: ``maxsim`` is late interaction, ``fusion`` its mean with transport."""
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


def measure_query(query: Query, cost: str, passages: EncodedPassages) -> TokenMeasure:
    """The query as a token measure under a ground cost."""
    return get_ground_cost(cost).measure(query.tokens.vectors, passages.token_weights(query.tokens.tokens))


def transport_costs(query: Query, texts: TextCollection, passages: EncodedPassages, positions: Sequence[int]) -> Array:
    """Exact transport costs from the query to the chosen texts, by cosine costs and BM25 masses.

    Equal to ``transport.distance`` of each text; one matrix product gives the costs of all tokens.
    """
    selected = texts.select(positions)
    measure, masses = measure_query(query, "cosine", passages), selected.masses()
    costs = np.clip(1.0 - unit_rows(measure.points) @ unit_rows(selected.vectors.astype(np.float64)).T, 0.0, 2.0)
    rows = [slice(int(a), int(b)) for a, b in pairwise(selected.offsets)]
    return np.array([solve_transport(measure.masses, masses[r], costs[:, r]).value for r in rows], dtype=np.float64)


def late_interaction_scores(nearest: Cosines) -> Array:
    """Mean over query tokens of the cosine with the nearest token of each text."""
    return np.asarray(nearest.mean(axis=0, dtype=np.float64))


def fusion_scores(
    query: Query, texts: TextCollection, passages: EncodedPassages, max_transported: int, nearest: Cosines
) -> Array:
    r"""Mean of late interaction and transport similarity of each text.

    .. math:: S(y) = \tfrac{1}{2}\Bigl(\tfrac{1}{|q|}\sum_i \max_j \cos(q_i, y_j) + 1 - \mathrm{OT}_{\cos}(q, y)\Bigr)

    Late interaction weights all words equally; transport weights rare words more and matches their mass in the text.
    Both are cosines, so that scores of different queries are comparable. Only the ``max_transported`` texts with the
    best late interaction have a score; the others have minus infinity. ``nearest`` is from ``nearest_tokens``.
    """
    late = late_interaction_scores(nearest)
    positions = top_positions(late, max_transported)
    scores = np.full(len(texts), -np.inf)
    scores[positions] = (late[positions] + 1.0 - transport_costs(query, texts, passages, positions)) / 2
    return scores


def score_texts(
    queries: Sequence[Query], texts: TextCollection, passages: EncodedPassages, cost: str, k: int
) -> list[Array]:
    """Scores of all texts for each query; minus infinity for texts that are provably not among the best k."""
    if not len(texts):
        return [np.zeros(0) for _ in queries]
    if cost in RANKINGS:
        nearest = nearest_cosines([q.tokens.vectors for q in queries], texts)
        if cost == "maxsim":
            return [late_interaction_scores(each) for each in nearest]
        return [fusion_scores(q, texts, passages, len(texts), n) for q, n in zip(queries, nearest, strict=True)]
    measures = [measure_query(q, cost, passages) for q in queries]
    all_scores = []
    for result in find_nearest_texts(measures, texts, k, cost, device=resolve_device("auto")):
        scores = np.full(len(texts), -np.inf)
        scores[result.indices] = -result.distances
        all_scores.append(scores)
    return all_scores


def top_positions(scores: Array, k: int) -> list[int]:
    """Positions of the k largest finite scores, ties by position."""
    return [int(i) for i in np.argsort(-scores, kind="stable")[:k] if np.isfinite(scores[i])]


# Titles ----------------------------------------------------------------------------------------------------------


def _normalise(text: str) -> str:
    """Lower-case words, joined by single spaces."""
    return " ".join(word.casefold() for word, _, _ in words_with_offsets(text))


@dataclass(frozen=True)
class TitleLinks:
    """Links from texts of a pool to the texts whose titles they mention."""

    sources: IntArray
    targets: IntArray

    @classmethod
    def find(cls, titles: Sequence[str], texts: Sequence[str], numbers: IntArray) -> TitleLinks:
        """Find links between texts: a text mentions another title as whole words.

        Text in brackets only disambiguates a title and is ignored. Titles under three letters are too common to match.
        """
        number_list = numbers.tolist()
        names = {i: _normalise(_BRACKETS.sub("", title)) for i, title in zip(number_list, titles, strict=True)}
        owners: dict[str, list[int]] = {}
        for i, name in names.items():
            if len(name) >= MIN_TITLE_LENGTH:
                owners.setdefault(name, []).append(i)
        links: list[tuple[int, int]] = []
        for i, raw_text in zip(number_list, texts, strict=True):
            text = f" {_normalise(raw_text)} "
            links += [(i, j) for name in owners if name != names[i] and f" {name} " in text for j in owners[name]]
        pairs = np.array(links, dtype=np.int64).reshape(-1, 2)
        return cls(pairs[:, 0], pairs[:, 1])

    def boost(self, scores: Array, nearest: Cosines, weight: float) -> Array:
        r"""Boost a text that a better text mentions by the query tokens that it covers better.

        .. math:: S'(y) = \max_{x \to y,\, S(x) > S(y)} \min\Bigl(S(x),\,
            S(y) + w \tfrac{1}{|q|} \sum_i \max\bigl(0, n_i(y) - n_i(x)\bigr)\Bigr)

        n_i is the cosine of query token i with its nearest token of a text (``nearest``). For a two-hop question both
        pages then rank high: the first page mentions the second. A page that covers no query token better keeps its
        score, and no page passes the page that mentions it.
        """
        boosted = scores.copy()
        is_better = scores[self.sources] > scores[self.targets]
        sources, targets = self.sources[is_better], self.targets[is_better]
        improvement = nearest[:, targets].astype(np.float64) - nearest[:, sources]
        gain = np.maximum(0.0, improvement).mean(axis=0)
        # Just below the source, so that ties cannot reverse the order.
        below = np.nextafter(scores[sources], -np.inf)
        np.maximum.at(boosted, targets, np.minimum(below, scores[targets] + weight * gain))
        return boosted


# Sentences -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sentence:
    """A sentence of kept chunk ``chunk``: its characters, and the rows of its tokens in the pool."""

    chunk: int
    start: int
    end: int
    rows: IntArray


def sentences_with_tokens(
    number: int, rows: IntArray, starts: IntArray, spans: Sequence[tuple[int, int]]
) -> list[Sentence]:
    """Sentences of a chunk that have tokens."""
    sentences = [Sentence(number, a, b, rows[(starts >= a) & (starts < b)]) for a, b in spans]
    return [sentence for sentence in sentences if len(sentence.rows)]


def score_sentences(
    query: Query, sentences: Sequence[Sentence], scores: Array, chunks: TokenPool, passages: EncodedPassages, cost: str
) -> Array:
    """Mean of each sentence's score under the cost and its chunk's score."""
    if not sentences:
        return np.zeros(0)
    rows = np.concatenate([s.rows for s in sentences])
    offsets = np.concatenate([[0], np.cumsum([len(s.rows) for s in sentences])]).astype(np.int64)
    texts = TokenPool(chunks.vectors[rows], offsets, chunks.weights[rows])
    own_scores = score_texts([query], texts, passages, cost, len(sentences))[0]
    return np.asarray((own_scores + scores[[s.chunk for s in sentences]]) / 2)


# Reasons ---------------------------------------------------------------------------------------------------------


def _word_at(text: str, spans: IntArray, words: IntArray, token: int) -> tuple[str, int, int]:
    """The word of a token, with its first and last character."""
    word_spans = spans[words == words[token]]
    start, end = int(word_spans[:, 0].min()), int(word_spans[:, 1].max())
    return text[start:end], start, end


def align_words(
    query: Query, text: str, chunk: TokenPool, tokens: TextTokens, passages: EncodedPassages, cost: str
) -> list[dict[str, Any]]:
    """Aligned words of query and chunk: the heaviest cells of the transport plan.

    Each entry has a query word, a chunk word with its characters, the transported mass and the cost. ``fusion`` uses
    the plan of its transport part; ``maxsim`` has no plan and returns the nearest pairs, without mass. ``chunk`` is a
    pool of one text.
    """
    token_pairs: list[tuple[int, int, float | None, float]]
    if cost == "maxsim":
        cosines = unit_rows(query.tokens.vectors.astype(np.float64)) @ unit_rows(chunk.vectors.astype(np.float64)).T
        nearest = cosines.argmax(axis=1)
        order = np.lexsort((np.arange(len(nearest)), -cosines.max(axis=1).round(9)))
        token_pairs = [(int(i), int(nearest[i]), None, 1 - float(cosines[i, nearest[i]])) for i in order]
    else:
        ground = "cosine" if cost == "fusion" else cost
        measure = measure_query(query, ground, passages)
        pairs = find_strongest_pairs(measure, chunk.measure(0, ground), ground, limit=4 * MAX_ALIGNED_PAIRS)
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
