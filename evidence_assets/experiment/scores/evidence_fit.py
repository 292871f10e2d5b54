"""How well evidence fits its question, whatever answer is made of it: words covered, and tokens matched.

Both are the measures that Attention2Query reports. What a language model recalled is no evidence and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from evidence_assets.experiment.scores.metrics import best_fact_score, coverage
from evidence_assets.experiment.selection import is_sourced
from evidence_assets.models.protocols import Encoder
from evidence_assets.text.words import is_filler, word_key, words_with_offsets

Texts = Mapping[str, Sequence[str]]
"""Texts of the evidence of each question, by its id."""


def evidence_texts(evidence: pl.DataFrame) -> dict[str, list[str]]:
    """The different texts that sources give for each question."""
    found: dict[str, dict[str, None]] = {}
    for row in filter(is_sourced, evidence.iter_rows(named=True)):
        found.setdefault(row["question_id"], {})[row["text"]] = None
    return {question: list(texts) for question, texts in found.items()}


def covered_words(questions: Sequence[Mapping[str, Any]], texts: Texts) -> list[float]:
    """Share of each question's words with content that stand in its evidence: ``|Q ∩ E| / |Q|``."""
    known: dict[str, set[str]] = {}

    def content(text: str) -> set[str]:
        if text not in known:
            known[text] = {word_key(word) for word, _, _ in words_with_offsets(text) if not is_filler([word])}
        return known[text]

    shares = []
    for question in questions:
        own = [content(text) for text in texts.get(question["question_id"], ())]
        shares.append(coverage(content(question["text"]), set().union(*own)))
    return shares


def matched_tokens(questions: Sequence[Mapping[str, Any]], texts: Texts, encoder: Encoder) -> list[float]:
    """BERTScore in Attention2Query's reading: each token of a question with its nearest one in any of its evidence.

    ``1/|q| · Σ_t max_i max_j cos(q_t, e_ij)``; a question without evidence has 0.
    """
    each = dict.fromkeys(
        text for q in questions for text in (q["text"], *texts.get(q["question_id"], ()))
    )  # fmt: skip
    vectors = dict(zip(each, (t.vectors for t in encoder.tokens(list(each))), strict=True)) if each else {}
    return [
        best_fact_score(vectors[q["text"]], [vectors[text] for text in texts.get(q["question_id"], ())])
        for q in questions
    ]
