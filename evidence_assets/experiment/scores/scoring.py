"""Rows of ``scores`` from the stored predictions of a variant."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

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
from evidence_assets.experiment.stored_rows import PredictionRow, QuestionRow, typed_rows
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.reasoning.confidence import RAW_SHARE
from evidence_assets.reproduction.published_figures import PublishedName, add_published_figures

Answer = tuple[QuestionRow, PredictionRow]
"""A question and its prediction."""
NO_ANSWER = cast(PredictionRow, dict.fromkeys(PredictionRow.__annotations__) | {"status": "failed"})
"""The prediction of a question that has none."""


def is_correct(question: QuestionRow, answer: str | None, status: str) -> bool:
    """Whether an answer is correct: the gold label, or a text with a gold answer or alias.

    If no answer is right (``gold`` is empty), the status ``insufficient`` is correct. The question must be graded.
    """
    if status == "failed":
        return False
    if not question["gold"]:
        return status == "insufficient"
    if answer is None:
        return False
    if question["task"] != "kgqa":
        return answer in question["gold"]
    return exact_match(answer, accepted_answers(question))


def graded_questions(questions: Iterable[QuestionRow]) -> list[QuestionRow]:
    """The questions whose right answer is known, or known not to exist."""
    return [question for question in questions if question["gold"] is not None]


def accepted_answers(question: QuestionRow) -> list[str]:
    """Gold answers and their aliases."""
    return [*(question["gold"] or ()), *(alias for aliases in question["gold_aliases"] or [] for alias in aliases)]


def set_accuracy(gold: Sequence[str], prediction: PredictionRow) -> float:
    """Shared options over all options of the supported and the right answers; 1 / their number if one is right."""
    supported = set(prediction["supported_answers"] or ())
    if not supported and prediction["status"] == "answered" and prediction["answer"]:
        supported = {prediction["answer"]}
    return len(supported & set(gold)) / len(supported | set(gold))


def class_metrics(answers: Iterable[Answer]) -> dict[str, Estimate]:
    """Precision, recall and F1 per label of the graded claims; Wilson intervals for the first two."""
    claims = [
        (gold[0], None if prediction["status"] == "failed" else prediction["answer"])
        for question, prediction in answers
        if question["task"] == "verification" and (gold := question["gold"]) and len(gold) == 1
    ]
    metrics = {}
    for label in sorted({gold for gold, _ in claims}):
        predicted = [gold == label for gold, answer in claims if answer == label]
        relevant = [answer == label for gold, answer in claims if gold == label]
        f1 = 2 * sum(predicted) / (len(predicted) + len(relevant))
        metrics[f"precision:{label}"] = accuracy(predicted)
        metrics[f"recall:{label}"] = accuracy(relevant)
        metrics[f"f1:{label}"] = without_interval(f1, len(relevant))
    return metrics


def evidence_metrics(
    questions: Sequence[QuestionRow], evidence: pl.DataFrame, encoder: Encoder | None = None
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

    Metrics of right answers leave out questions without known answers. Without any prediction, the metrics are those of
    the evidence.

    ``tables``: Questions, predictions, evidence and citations. With ``counterfactuals``, of the answers with citations
        the shares that change without the cited evidence (necessity) and that it alone gives (sufficiency).
    ``encoder``: Encoder for the similarity of question and evidence tokens (BERTScore).
    """
    questions = typed_rows(tables["questions"].sort("question_id"), QuestionRow)
    predictions = {row["question_id"]: row for row in typed_rows(tables["predictions"], PredictionRow)}
    if questions and not predictions:
        return evidence_metrics(questions, tables["evidence"], encoder)
    answers = pair_answers(questions, predictions)
    metrics = correctness_metrics(answers)
    metrics["incomplete_share"] = accuracy([bool(row["omissions"]) for row in predictions.values()])
    metrics |= ranking_metrics(answers)
    metrics |= class_metrics(answers)
    metrics |= evidence_metrics(questions, tables["evidence"], encoder)
    metrics |= citation_metrics(questions, predictions, tables["evidence"], tables["citations"])
    if "counterfactuals" in tables:
        metrics |= counterfactual_metrics(tables["counterfactuals"], tables["predictions"])
    return metrics


def pair_answers(questions: Iterable[QuestionRow], predictions: Mapping[str, PredictionRow]) -> list[Answer]:
    """Each question with its prediction; ``predictions`` are by question id."""
    return [(question, predictions.get(question["question_id"], NO_ANSWER)) for question in questions]


def correctness_metrics(answers: Sequence[Answer]) -> dict[str, Estimate]:
    """Accuracy, shares of each status, sets of options, confidence, and words of short answers."""
    graded = [(q, p, is_correct(q, p["answer"], p["status"])) for q, p in answers if q["gold"] is not None]
    metrics = {"accuracy": accuracy([right for *_, right in graded])}
    for status in ("answered", "ambiguous", "insufficient", "failed"):
        metrics[f"{status}_share"] = accuracy([p["status"] == status for _, p in answers])
    metrics["supported_accuracy"] = accuracy([right for _, p, right in graded if p["status"] == "answered"])
    if choices := [set_accuracy(q["gold"], p) for q, p in answers if q["options"] and q["gold"]]:
        metrics["set_accuracy"] = mean(choices)
    metrics |= confidence_metrics(*fitted_confidences(answers))
    if short := [(p["answer"] or "", accepted_answers(q)) for q, p in answers if q["task"] == "kgqa" and q["gold"]]:
        metrics["token_f1"] = mean([token_f1(text, accepted) for text, accepted in short])
    return metrics


def fitted_confidences(answers: Iterable[Answer]) -> tuple[list[float], list[bool]]:
    """Confidence and correctness of the answers whose confidence is a probability, where an answer is right."""
    fitted = [(q, p) for q, p in answers if q["gold"] and has_fitted_confidence(p)]
    return [p["confidence"] or 0.0 for _, p in fitted], [is_correct(q, p["answer"], p["status"]) for q, p in fitted]


def has_fitted_confidence(prediction: PredictionRow) -> bool:
    """Whether the confidence of a prediction is a probability: of options, or by a fit."""
    return bool(prediction["probabilities"]) or prediction["confidence_basis"] not in (None, RAW_SHARE)


def ranking_metrics(answers: Sequence[Answer]) -> dict[str, Estimate]:
    """Metrics of the ranked nodes of searches; empty for questions of other tasks."""
    rankings = [
        (gains_of(p["ranked_answers"] or [], gold), len(gold))
        for q, p in answers
        if q["task"] == "skb_search" and (gold := q["gold"]) is not None
    ]
    if not rankings:
        return {}
    metrics = {f"hit@{k}": accuracy([hit_at_k(gains, k) for gains, _ in rankings]) for k in (1, 5, 10)}
    metrics["ndcg@10"] = mean([ndcg_at_k(gains, 10, n) for gains, n in rankings])
    metrics["recall@20"] = mean([recall_at_k(gains, 20, n) if n else 0.0 for gains, n in rankings])
    metrics["mrr"] = mean([reciprocal_rank(gains) for gains, _ in rankings])
    return metrics


def citation_metrics(
    questions: Sequence[QuestionRow],
    predictions: Mapping[str, PredictionRow],
    evidence: pl.DataFrame,
    citations: pl.DataFrame,
) -> dict[str, Estimate]:
    """Share of verified citations, and precision and recall against gold evidence where it is known."""
    if not citations.height:
        return {}
    metrics = {"citations_verified_share": accuracy([v == "verified" for v in citations["verdict"].to_list()])}
    precision, recall = citation_scores(questions, predictions, evidence, citations)
    if precision:
        metrics["citation_precision"] = mean(precision)
    if recall:
        metrics["citation_recall"] = mean(recall)
    return metrics


def counterfactual_metrics(counterfactuals: pl.DataFrame, predictions: pl.DataFrame) -> dict[str, Estimate]:
    """Shares of answers that need their cited evidence, and for which it is enough."""
    answered = predictions.filter(pl.col("status") == "answered")
    of_answers = counterfactuals.join(answered, "prediction_id", "semi")
    return {
        "evidence_necessity": accuracy(of_answers["necessary"].drop_nulls().to_list()),
        "evidence_sufficiency": accuracy(of_answers["sufficient"].drop_nulls().to_list()),
    }


def metric_rows(
    scope: str,
    selector: str,
    reasoner: str,
    model_id: str,
    metrics: Mapping[str, Estimate],
    published_names: Sequence[PublishedName] = (),
    kind: str = "benchmark",
) -> list[dict[str, object]]:
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
