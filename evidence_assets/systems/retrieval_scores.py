"""How well retrieved triples fit their questions, whatever answer is made of them.

A question without a gold answer is left out of what looks for one. What a language model recalled counts nowhere here:
these are measures of what a source was found to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from evidence_assets.methods.ranking_metrics import Estimate, accuracy, normalise_answer
from evidence_assets.models.protocols import Encoder
from evidence_assets.systems.evidence_fit import covered_words, matched_tokens
from evidence_assets.systems.scoring import mean
from evidence_assets.systems.short_answering import is_sourced, triple_of

VERSION = "2"


def retrieval_metrics(
    questions: Iterable[dict[str, Any]], evidence: pl.DataFrame, encoder: Encoder | None = None
) -> dict[str, Estimate]:
    """Means over questions, with Wilson intervals where each question is a hit or none.

    ``hit@1``, ``hit@10``: a gold answer, or another form of it, is an end of one of the first k triples.
    ``triple_f1``: F1 of the triples against those of the gold paths, where a benchmark has such.
    ``coverage``: share of the question's words with content that stand in the triples.
    ``bertscore`` (with an encoder): each token of the question with its nearest one in any of the triples, averaged.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in evidence.sort("question_id", "rank").iter_rows(named=True):
        if is_sourced(row) and triple_of(row):
            rows.setdefault(row["question_id"], []).append(row)
    asked = list(questions)
    texts = {question: [row["text"] for row in own] for question, own in rows.items()}
    found: dict[str, list[float]] = {name: [] for name in ("hit@1", "hit@10", "triple_f1")}
    for question in asked:
        own = rows.get(question["question_id"], [])
        triples = [triple for row in own if (triple := triple_of(row))]
        forms = [*question["gold"], *(form for forms in question["gold_aliases"] or [] for form in forms)]
        accepted = {normalise_answer(form) for form in forms}
        if accepted:
            hit = [bool({normalise_answer(t[0]), normalise_answer(t[2])} & accepted) for t in triples]
            for k in (1, 10):
                found[f"hit@{k}"].append(float(any(hit[:k])))
        gold = {fact for g in question["gold_evidence"] or [] if g["kind"] == "path" for fact in g["text"].split("; ")}
        if gold:
            right = len({" ".join(t) for t in triples} & gold)
            found["triple_f1"].append(2 * right / (len(triples) + len(gold)))
    found["coverage"] = covered_words(asked, texts)
    if encoder is not None and asked:
        found["bertscore"] = matched_tokens(asked, texts, encoder)
    return {
        name: accuracy([value > 0 for value in values]) if name.startswith("hit@") else mean(values)
        for name, values in found.items()
        if values
    }
