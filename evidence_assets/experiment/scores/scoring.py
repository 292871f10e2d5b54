"""What a variant's stored predictions are worth: rows of ``scores``, made without predicting again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

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


def is_correct(question: dict[str, Any], prediction: dict[str, Any] | None) -> bool:
    """Whether an answer is right: the gold label; a gold answer or alias contained in it; or, where nothing is gold,
    the admission that the evidence does not suffice."""
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


def _status(answered: Mapping[str, dict[str, Any]], question: Mapping[str, Any]) -> str:
    return str(answered.get(question["question_id"], {"status": "failed"})["status"])


def accepted_answers(question: Mapping[str, Any]) -> list[str]:
    """The gold answers with their other forms."""
    return [*question["gold"], *(alias for aliases in question["gold_aliases"] or [] for alias in aliases)]


def class_metrics(questions: list[dict[str, Any]], answered: dict[str, dict[str, Any]]) -> dict[str, Estimate]:
    """Precision, recall and F1 of each label of the claims among ``questions``; the first two with Wilson intervals."""
    claims = [q for q in questions if q["task"] == "verification" and len(q["gold"]) == 1]
    gold = [q["gold"][0] for q in claims]
    said = []
    for question in claims:
        prediction = answered.get(question["question_id"])
        usable = prediction is not None and prediction["status"] != "failed"
        said.append(prediction["answer"] if prediction is not None and usable else None)
    metrics = {}
    for label in sorted(set(gold)):
        metrics[f"precision:{label}"] = accuracy([g == label for g, s in zip(gold, said, strict=True) if s == label])
        metrics[f"recall:{label}"] = accuracy([s == label for g, s in zip(gold, said, strict=True) if g == label])
        metrics[f"f1:{label}"] = without_interval(class_f1(gold, said, label), gold.count(label))
    return metrics


def evidence_metrics(
    questions: Sequence[dict[str, Any]], evidence: pl.DataFrame, encoder: Encoder | None = None
) -> dict[str, Estimate]:
    """What the evidence is worth, whatever is answered: gold evidence found by depth; words and tokens covered."""
    metrics = {}
    if any(q["gold_evidence"] for q in questions):
        metrics["evidence_recall"] = mean(evidence_recall(questions, evidence))
        metrics |= {f"evidence_recall@{k}": mean(found) for k, found in recall_curve(questions, evidence).items()}
    if evidence.height:
        texts = evidence_texts(evidence)
        metrics["coverage"] = mean(word_coverage(questions, texts))
        if encoder is not None:
            metrics["bertscore"] = mean(token_similarity(questions, texts, encoder))
    return metrics


def score_rows(
    benchmark: str,
    selector: str,
    reasoner: str,
    model_id: str,
    tables: Mapping[str, pl.DataFrame],
    printed_as: Sequence[PublishedName] = (),
    more: Mapping[str, Estimate] | None = None,
    encoder: Encoder | None = None,
) -> list[dict[str, Any]]:
    """Every metric of one variant on one benchmark, beside the figure printed for it where ``printed_as`` finds one.

    ``tables`` are its questions, predictions, evidence and citations; with ``counterfactuals``, the shares of answers
    that change without the evidence they cite (necessity), and that this evidence alone gives (sufficiency), of those
    that cite any. ``more`` are metrics that only the variant's family has. With ``encoder``, the tokens of questions
    are matched with those of their evidence (BERTScore).
    """
    asked = tables["questions"].sort("question_id").to_dicts()
    answered = {row["question_id"]: row for row in tables["predictions"].to_dicts()}
    evidence, citations = tables["evidence"], tables["citations"]
    metrics: dict[str, Estimate] = {}
    right = [is_correct(q, answered.get(q["question_id"])) for q in asked]
    metrics["accuracy"] = accuracy(right)
    for status in ("answered", "ambiguous", "insufficient", "failed"):
        metrics[f"{status}_share"] = accuracy([_status(answered, q) == status for q in asked])
    supported = [r for q, r in zip(asked, right, strict=True) if _status(answered, q) == "answered"]
    metrics["supported_accuracy"] = accuracy(supported)
    weighed = [
        (prediction["confidence"], r)
        for q, r in zip(asked, right, strict=True)
        if q["options"] and q["gold"] and (prediction := answered.get(q["question_id"])) and prediction["probabilities"]
    ]
    metrics |= confidence_metrics([sure for sure, _ in weighed], [r for _, r in weighed])
    ranking = [(q, answered.get(q["question_id"])) for q in asked if q["task"] == "skb_search"]
    if ranking:
        gains = [(gains_of(list(p["ranked_answers"]) if p else [], set(q["gold"])), len(q["gold"])) for q, p in ranking]
        for k in (1, 5, 10):
            metrics[f"hit@{k}"] = accuracy([hit_at_k(g, k) for g, _ in gains])
        metrics["ndcg@10"] = mean([ndcg_at_k(g, 10, n) for g, n in gains])
        metrics["recall@20"] = mean([recall_at_k(g, 20, n) if n else 0.0 for g, n in gains])
        metrics["mrr"] = mean([reciprocal_rank(g) for g, _ in gains])
    short = [q for q in asked if q["task"] == "kgqa" and q["gold"]]
    if short:
        said = [(answered.get(q["question_id"]) or {"answer": None})["answer"] or "" for q in short]
        metrics["answer_f1"] = mean([token_f1(s, accepted_answers(q)) for s, q in zip(said, short, strict=True)])
    metrics |= class_metrics(asked, answered)
    metrics |= evidence_metrics(asked, evidence, encoder)
    metrics |= more or {}
    if citations.height:
        metrics["citations_verified_share"] = accuracy([v == "verified" for v in citations["verdict"].to_list()])
        precision, found = citation_scores(asked, answered, evidence, citations)
        metrics |= {"citation_precision": mean(precision)} if precision else {}
        metrics |= {"citation_recall": mean(found)} if found else {}
    if "counterfactuals" in tables:
        for metric, column in (("evidence_necessity", "necessary"), ("evidence_sufficiency", "sufficient")):
            metrics[metric] = accuracy(tables["counterfactuals"][column].drop_nulls().to_list())
    return metric_rows(benchmark, selector, reasoner, model_id, metrics, printed_as)


def metric_rows(
    scope: str,
    selector: str,
    reasoner: str,
    model_id: str,
    metrics: Mapping[str, Estimate],
    printed_as: Sequence[PublishedName] = (),
    kind: str = "benchmark",
) -> list[dict[str, Any]]:
    """A row of ``scores`` a metric of a benchmark, or of what else is scored, beside the printed figure."""
    who = [reasoner] if reasoner or kind == "benchmark" else []
    rows = [
        {
            "score_id": content_id("score", kind, scope, selector, *who, model_id, metric),
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
    return add_published_figures(rows, printed_as)
