"""Rows of ``scores`` from the stored predictions of a variant."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import polars as pl

from evidence_assets.experiment.scores.gold_evidence import (
    citation_scores,
    evidence_recall,
    evidence_texts,
    recall_curve,
    token_similarity,
    word_coverage,
)
from evidence_assets.experiment.scores.metrics import (
    Estimate,
    accuracy,
    class_f1,
    confidence_metrics,
    exact_match,
    gains_of,
    hit_at_k,
    mean,
    ndcg_at_k,
    recall_at_k,
    reciprocal_rank,
    token_f1,
    without_interval,
)
from evidence_assets.experiment.scores.published_figures import PublishedName, add_published_figures
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.reasoning.confidence import RAW_SHARE

_Row = TypeVar("_Row", bound=Mapping[str, Any])


def is_correct(question: dict[str, Any], prediction: dict[str, Any] | None) -> bool:
    """Whether a prediction is correct: the gold label, or a text with a gold answer or alias.

    If no answer is right (``gold`` is empty), the status ``insufficient`` is correct. The question must be graded.
    """
    if prediction is None or prediction["status"] == "failed":
        return False
    gold = list(question["gold"])
    if not gold:
        return bool(prediction["status"] == "insufficient")
    if prediction["answer"] is None:
        return False
    if question["task"] != "kgqa":
        return prediction["answer"] in gold
    return exact_match(prediction["answer"], accepted_answers(question))


def graded_questions(questions: Iterable[_Row]) -> list[_Row]:
    """The questions whose right answer is known, or known not to exist."""
    return [question for question in questions if question["gold"] is not None]


def _status(predictions: Mapping[str, dict[str, Any]], question: Mapping[str, Any]) -> str:
    return str(predictions.get(question["question_id"], {"status": "failed"})["status"])


def accepted_answers(question: Mapping[str, Any]) -> list[str]:
    """Gold answers and their aliases."""
    return [*question["gold"], *(alias for aliases in question["gold_aliases"] or [] for alias in aliases)]


def set_accuracy(gold: Sequence[str], prediction: Mapping[str, Any] | None) -> float:
    """Shared options over all options of the supported and the right answers; 1 / their number if one is right."""
    if prediction is None:
        return 0.0
    supported = set(prediction["supported_answers"] or ())
    if not supported and prediction["status"] == "answered":
        supported = {prediction["answer"]}
    return len(supported & set(gold)) / len(supported | set(gold))


def class_metrics(questions: list[dict[str, Any]], predictions: dict[str, dict[str, Any]]) -> dict[str, Estimate]:
    """Precision, recall and F1 per label of the claims; Wilson intervals for the first two."""
    claims = [q for q in graded_questions(questions) if q["task"] == "verification" and len(q["gold"]) == 1]
    gold = [q["gold"][0] for q in claims]
    labels: list[str | None] = []
    for question in claims:
        prediction = predictions.get(question["question_id"])
        usable = prediction is not None and prediction["status"] != "failed"
        labels.append(prediction["answer"] if prediction is not None and usable else None)
    metrics = {}
    for label in sorted(set(gold)):
        metrics[f"precision:{label}"] = accuracy([g == label for g, s in zip(gold, labels, strict=True) if s == label])
        metrics[f"recall:{label}"] = accuracy([s == label for g, s in zip(gold, labels, strict=True) if g == label])
        metrics[f"f1:{label}"] = without_interval(class_f1(gold, labels, label), gold.count(label))
    return metrics


def evidence_metrics(
    questions: Sequence[dict[str, Any]], evidence: pl.DataFrame, encoder: Encoder | None = None
) -> dict[str, Estimate]:
    """Metrics of the evidence, independent of the answers: gold recall by depth, word and token coverage."""
    metrics = {}
    if any(q["gold_evidence"] for q in questions):
        metrics["evidence_recall"] = mean(evidence_recall(questions, evidence))
        metrics |= {f"evidence_recall@{k}": mean(values) for k, values in recall_curve(questions, evidence).items()}
    if evidence.height:
        texts = evidence_texts(evidence)
        metrics["coverage"] = mean(word_coverage(questions, texts))
        if encoder is not None:
            metrics["bertscore"] = mean(token_similarity(questions, texts, encoder))
    return metrics


def answer_metrics(tables: Mapping[str, pl.DataFrame], encoder: Encoder | None = None) -> dict[str, Estimate]:
    """Every metric of the answers of one variant on one benchmark, and of their evidence and citations.

    Metrics of right answers leave out questions without known answers.

    ``tables``: Questions, predictions, evidence and citations. With ``counterfactuals``, of the answers with citations
        the shares that change without the cited evidence (necessity) and that it alone gives (sufficiency).
    ``encoder``: Encoder for the similarity of question and evidence tokens (BERTScore).
    """
    questions = tables["questions"].sort("question_id").to_dicts()
    predictions = {row["question_id"]: row for row in tables["predictions"].to_dicts()}
    evidence, citations = tables["evidence"], tables["citations"]
    metrics: dict[str, Estimate] = {}
    graded = graded_questions(questions)
    outcomes = [is_correct(q, predictions.get(q["question_id"])) for q in graded]
    metrics["accuracy"] = accuracy(outcomes)
    for status in ("answered", "ambiguous", "insufficient", "failed"):
        metrics[f"{status}_share"] = accuracy([_status(predictions, q) == status for q in questions])
    metrics["incomplete_share"] = accuracy([bool(row.get("omissions")) for row in predictions.values()])
    supported = [r for q, r in zip(graded, outcomes, strict=True) if _status(predictions, q) == "answered"]
    metrics["supported_accuracy"] = accuracy(supported)
    if with_options := [q for q in questions if q["options"] and q["gold"]]:
        metrics["set_accuracy"] = mean(
            [set_accuracy(q["gold"], predictions.get(q["question_id"])) for q in with_options]
        )
    confident = [
        (prediction["confidence"], r)
        for q, r in zip(graded, outcomes, strict=True)
        if q["gold"]
        and (prediction := predictions.get(q["question_id"]))
        and (prediction["probabilities"] or prediction["confidence_basis"] not in (None, RAW_SHARE))
    ]
    metrics |= confidence_metrics([confidence for confidence, _ in confident], [r for _, r in confident])
    ranking = [(q, predictions.get(q["question_id"])) for q in graded if q["task"] == "skb_search"]
    if ranking:
        gains = [(gains_of(list(p["ranked_answers"]) if p else [], set(q["gold"])), len(q["gold"])) for q, p in ranking]
        for k in (1, 5, 10):
            metrics[f"hit@{k}"] = accuracy([hit_at_k(g, k) for g, _ in gains])
        metrics["ndcg@10"] = mean([ndcg_at_k(g, 10, n) for g, n in gains])
        metrics["recall@20"] = mean([recall_at_k(g, 20, n) if n else 0.0 for g, n in gains])
        metrics["mrr"] = mean([reciprocal_rank(g) for g, _ in gains])
    short = [q for q in questions if q["task"] == "kgqa" and q["gold"]]
    if short:
        texts = [(predictions.get(q["question_id"]) or {"answer": None})["answer"] or "" for q in short]
        metrics["answer_f1"] = mean([token_f1(text, accepted_answers(q)) for text, q in zip(texts, short, strict=True)])
    metrics |= class_metrics(questions, predictions)
    metrics |= evidence_metrics(questions, evidence, encoder)
    if citations.height:
        metrics["citations_verified_share"] = accuracy([v == "verified" for v in citations["verdict"].to_list()])
        precision, recall = citation_scores(questions, predictions, evidence, citations)
        metrics |= {"citation_precision": mean(precision)} if precision else {}
        metrics |= {"citation_recall": mean(recall)} if recall else {}
    if "counterfactuals" in tables:
        answered = tables["predictions"].filter(pl.col("status") == "answered")
        counterfactuals = tables["counterfactuals"].join(answered, "prediction_id", "semi")
        for metric, column in (("evidence_necessity", "necessary"), ("evidence_sufficiency", "sufficient")):
            metrics[metric] = accuracy(counterfactuals[column].drop_nulls().to_list())
    return metrics


def metric_rows(
    scope: str,
    selector: str,
    reasoner: str,
    model_id: str,
    metrics: Mapping[str, Estimate],
    published_names: Sequence[PublishedName] = (),
    kind: str = "benchmark",
) -> list[dict[str, Any]]:
    """One row of ``scores`` per metric of a benchmark or other scope, with the published figure."""
    reasoner_key = [reasoner] if reasoner or kind == "benchmark" else []
    rows = [
        {
            "score_id": content_id("score", kind, scope, selector, *reasoner_key, model_id, metric),
            "scope_kind": kind,
            "scope_id": scope,
            "selector": selector,
            "reasoner": reasoner,
            "model_id": model_id,
            "metric": metric,
            **{name: None if math.isnan(value := getattr(e, name)) else value for name in ("value", "low", "high")},
            "n": e.n,
            "published": None,
            "published_source": None,
        }
        for metric, e in metrics.items()
    ]
    return add_published_figures(rows, published_names)
