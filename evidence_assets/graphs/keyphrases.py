"""Extraction of concepts: representative and diverse phrases of a text, without training.

The method is KeyBERT (Grootendorst 2020): phrases are ranked by cosine to the text, and maximal marginal relevance
keeps them diverse.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evidence_assets.models.vectors import Array, unit_rows
from evidence_assets.retrieval.embedding import Encode
from evidence_assets.text.words import STOP_WORDS, is_filler, name_key, words_with_offsets

MAX_PHRASE_WORDS = 3


@dataclass(frozen=True)
class Concept:
    """A phrase ``text[start:end]``, its first occurrence."""

    text: str
    start: int
    end: int


def candidate_phrases(text: str) -> list[tuple[str, int, int]]:
    """Phrases of up to three words that could be a concept, in text order, each normal form once.

    A phrase does not begin or end with an (English) stop word, has no punctuation except hyphens and apostrophes, and
    has at least one word that is neither generic nor a number.
    """
    words = words_with_offsets(text)
    phrases: dict[str, tuple[str, int, int]] = {}
    for first, (head, start, _) in enumerate(words):
        if head.casefold() in STOP_WORDS:
            continue
        for last in range(first, min(first + MAX_PHRASE_WORDS, len(words))):
            if last > first and not _is_joint(text[words[last - 1][2] : words[last][1]]):
                break
            span = [word for word, _, _ in words[first : last + 1]]
            if span[-1].casefold() in STOP_WORDS or is_filler([w for w in span if not w.isdigit()]):
                continue
            phrase = text[start : words[last][2]]
            phrases.setdefault(name_key(phrase), (phrase, start, words[last][2]))
    return list(phrases.values())


def _is_joint(gap: str) -> bool:
    return not gap.strip() or re.fullmatch(r"['\u2019]s\s+|[-'\u2010\u2011\u2019]", gap) is not None


def extract_concepts(texts: Sequence[str], encode: Encode, *, top_n: int) -> list[list[Concept]]:
    """Extract the concepts of each text, best first.

    Maximal marginal relevance: the next phrase is ``argmax cos(p, text) − max_s cos(p, s)`` over the selected phrases s
    (λ = ½); ties go to the first phrase in the text. A text without candidates has no concepts. One call encodes all
    distinct strings.
    """
    candidates = [candidate_phrases(text) for text in texts]
    strings = dict.fromkeys(
        string
        for text, phrases in zip(texts, candidates, strict=True)
        if phrases
        for string in (text, *(phrase for phrase, _, _ in phrases))
    )
    if not strings:
        return [[] for _ in texts]
    row = {string: number for number, string in enumerate(strings)}
    vectors = unit_rows(np.asarray(encode(list(strings)), dtype=np.float64))
    concepts: list[list[Concept]] = []
    for text, phrases in zip(texts, candidates, strict=True):
        if not phrases:
            concepts.append([])
            continue
        phrase_vectors = vectors[[row[phrase] for phrase, _, _ in phrases]]
        relevance = phrase_vectors @ vectors[row[text]]
        order = _marginal_relevance(relevance, phrase_vectors @ phrase_vectors.T, top_n)
        concepts.append([Concept(*phrases[i]) for i in order])
    return concepts


def _marginal_relevance(relevance: Array, similarity: Array, n: int) -> list[int]:
    # Rounding makes ties deterministic.
    relevance = np.round(relevance, 6)
    similarity = np.round(similarity, 6)
    order = [int(relevance.argmax())]
    nearest = similarity[order[0]].copy()
    while len(order) < min(n, len(relevance)):
        value = relevance - nearest
        value[order] = -np.inf
        order.append(int(value.argmax()))
        nearest = np.maximum(nearest, similarity[order[-1]])
    return order
