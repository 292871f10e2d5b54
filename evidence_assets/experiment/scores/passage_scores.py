"""How well evidence finds the documents that a retrieval collection names as gold, whatever is answered from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from evidence_assets.experiment.scores.metrics import (
    Estimate,
    accuracy,
    gains_of,
    hit_at_k,
    mean,
    ndcg_at_k,
    recall_at_k,
    reciprocal_rank,
)
from evidence_assets.experiment.scores.scoring import evidence_metrics

DEPTHS = (2, 5, 10, 100)
"""Documents down to which recall is counted."""


def ranked_documents(evidence: pl.DataFrame, document_of: Mapping[str, str]) -> dict[str, list[str]]:
    """The documents of each question's chunks, each where its best chunk stands."""
    found: dict[str, dict[str, None]] = {}
    for row in evidence.sort("question_id", "rank", "option").iter_rows(named=True):
        if row["source_kind"] == "chunk" and row["source_id"] in document_of:
            found.setdefault(row["question_id"], {})[document_of[row["source_id"]]] = None
    return {question: list(documents) for question, documents in found.items()}


def passage_values(
    questions: Sequence[Mapping[str, Any]], evidence: pl.DataFrame, document_of: Mapping[str, str]
) -> dict[str, list[float]]:
    """Recall, nDCG and reciprocal rank of the gold documents, question by question in the order given.

    A document counts as relevant or not; questions that name none are left out. ``document_of`` maps chunks to
    documents.
    """
    ranked = ranked_documents(evidence, document_of)
    asked = [(q, {gold["source"] for gold in q["gold_evidence"]}) for q in questions if q["gold_evidence"]]
    gains = [(gains_of(ranked.get(q["question_id"], []), wanted), len(wanted)) for q, wanted in asked]
    values = {f"recall@{k}": [recall_at_k(g, k, n) for g, n in gains] for k in DEPTHS}
    values["ndcg@10"] = [ndcg_at_k(g, 10, n) for g, n in gains]
    values["mrr"] = [reciprocal_rank(g) for g, _ in gains]
    values["hit@1"] = [float(hit_at_k(g, 1)) for g, _ in gains]
    return values


def passage_metrics(
    questions: Sequence[Mapping[str, Any]], evidence: pl.DataFrame, document_of: Mapping[str, str]
) -> dict[str, Estimate]:
    """Means of :func:`passage_values`, recall of the gold sentences, and the words covered."""
    values = passage_values(questions, evidence, document_of)
    metrics = {name: mean(found) for name, found in values.items() if name != "hit@1"}
    metrics["hit@1"] = accuracy([value > 0 for value in values["hit@1"]])
    return metrics | evidence_metrics([q | {"gold_evidence": _sentences(q)} for q in map(dict, questions)], evidence)


def _sentences(question: Mapping[str, Any]) -> list[dict[str, str]]:
    """The gold sentences; a whole document stands in no single chunk."""
    return [gold for gold in question["gold_evidence"] if gold["kind"] == "sentence" and gold["text"]]
