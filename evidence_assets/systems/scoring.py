"""What a variant's stored predictions are worth: rows of ``scores``, made without predicting again."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from evidence_assets.lake.ids import content_id
from evidence_assets.methods.ranking_metrics import (
    Estimate,
    accuracy,
    exact_match,
    gains_of,
    hit_at_k,
    ndcg_at_k,
    per_class_scores,
    reciprocal_rank,
)
from evidence_assets.methods.surface_forms import name_key
from evidence_assets.reasoning.paths import walked_edges
from evidence_assets.systems.knowledge import edge_id, node_id
from evidence_assets.systems.published_figures import PrintedAs, beside
from evidence_assets.systems.short_answering import is_sourced, triple_of

VERSION = "3"


def correct(question: dict[str, Any], prediction: dict[str, Any] | None) -> bool:
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
    accepted = gold + [alias for aliases in question["gold_aliases"] or [] for alias in aliases]
    return exact_match(prediction["answer"], accepted)


def _path_found(gold: dict[str, str], triples: set[str]) -> bool:
    """Whether every fact of a gold path is among the triples that were picked, each written as head relation tail."""
    return all(fact in triples for fact in gold["text"].split("; "))


def _same(gold: dict[str, str], row: dict[str, Any]) -> bool:
    """Whether an evidence row is, or holds, a piece of gold evidence."""
    if gold["kind"] in ("cell", "row", "column") and row["kind"] in ("cell", "row", "column"):
        return bool(gold["locator"] == row["locator"])
    return bool(gold["text"].strip()) and " ".join(gold["text"].split()) in " ".join(row["text"].split())


def gold_edges(gold: dict[str, str]) -> set[str] | None:
    """Ids that the edges of a gold path have in every graph that names their ends so; None for what is no path."""
    if gold["kind"] not in ("path", "triple"):
        return None
    try:
        triples = [(head, relation, tail) for head, relation, tail in json.loads(gold["locator"])]
    except (ValueError, TypeError):
        return None
    return {edge_id(node_id(name_key(h)), relation, node_id(name_key(t))) for h, relation, t in triples}


def _edges_of(row: dict[str, Any]) -> set[str]:
    """The graph's edges that an evidence row speaks of."""
    if row["kind"] == "path":
        return {edge for edge, _ in walked_edges(row["locator"])}
    return {row["source_id"]} if row["source_kind"] == "edge" else set()


def evidence_recall(questions: Iterable[dict[str, Any]], evidence: pl.DataFrame) -> list[float]:
    """Share of each question's gold evidence that was picked for any of its options; unmarked questions left out.

    Of pieces that say the same (one group), one is enough. A gold path is there if all of its edges are, in whatever
    rows, by their ids or in words. What a language model recalled is no evidence and finds nothing.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in filter(is_sourced, evidence.iter_rows(named=True)):
        rows.setdefault(row["question_id"], []).append(row)
    shares = []
    for question in questions:
        gold = question["gold_evidence"] or []
        if gold:
            own = rows.get(question["question_id"], [])
            triples = {" ".join(triple) for row in own if (triple := triple_of(row))}
            groups: dict[str, bool] = {}
            edges = {edge for row in own for edge in _edges_of(row)}
            for i, piece in enumerate(gold):
                name, wanted = piece["group"] or str(i), gold_edges(piece)
                found = wanted <= edges if wanted else any(_same(piece, row) for row in own)
                if piece["kind"] == "path" and not found:
                    found = _path_found(piece, triples)
                groups[name] = groups.get(name, False) or found
            shares.append(sum(groups.values()) / len(groups))
    return shares


def mean(values: list[float]) -> Estimate:
    """Mean of values in [0, 1] with its normal 95 % interval, cut to that range."""
    n = len(values)
    if not n:
        return Estimate(math.nan, math.nan, math.nan, 0)
    average = sum(values) / n
    spread = math.sqrt(sum((v - average) ** 2 for v in values) / (n - 1) / n) if n > 1 else 0.0
    return Estimate(average, max(0.0, average - 1.96 * spread), min(1.0, average + 1.96 * spread), n)


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
    for score in per_class_scores(gold, said, sorted(set(gold))):
        label = score.label
        metrics[f"precision:{label}"] = accuracy([g == label for g, s in zip(gold, said, strict=True) if s == label])
        metrics[f"recall:{label}"] = accuracy([s == label for g, s in zip(gold, said, strict=True) if g == label])
        metrics[f"f1:{label}"] = Estimate(score.f1, math.nan, math.nan, score.support)
    return metrics


def score_rows(
    benchmark: str,
    selector: str,
    reasoner: str,
    model_id: str,
    questions: pl.DataFrame,
    predictions: pl.DataFrame,
    evidence: pl.DataFrame,
    citations: pl.DataFrame,
    printed_as: PrintedAs | None = None,
    counterfactuals: pl.DataFrame | None = None,
    more: Mapping[str, Estimate] | None = None,
) -> list[dict[str, Any]]:
    """Every metric of one variant on one benchmark, beside the figure printed for it where ``printed_as`` finds one.

    With ``counterfactuals``, the shares of answers that change without the evidence they cite (necessity), and that
    this evidence alone gives (sufficiency), of those that cite any. ``more`` are metrics that only the variant's family
    has.
    """
    asked = questions.sort("question_id").to_dicts()
    answered = {row["question_id"]: row for row in predictions.to_dicts()}
    metrics: dict[str, Estimate] = {}
    right = [correct(q, answered.get(q["question_id"])) for q in asked]
    metrics["accuracy"] = accuracy(right)
    for status in ("answered", "ambiguous", "insufficient", "failed"):
        metrics[f"{status}_share"] = accuracy(
            [answered.get(q["question_id"], {"status": "failed"})["status"] == status for q in asked]
        )
    ranking = [(q, answered.get(q["question_id"])) for q in asked if q["task"] == "skb_search"]
    if ranking:
        gains = [(gains_of(list(p["ranked_answers"]) if p else [], set(q["gold"])), len(q["gold"])) for q, p in ranking]
        for k in (1, 5, 10):
            metrics[f"hit@{k}"] = accuracy([hit_at_k(g, k) > 0 for g, _ in gains])
        metrics["ndcg@10"] = mean([ndcg_at_k(g, 10, ideal_gains=[1.0] * n) if n else 0.0 for g, n in gains])
        metrics["recall@20"] = mean([float(g[:20].sum()) / n if n else 0.0 for g, n in gains])
        metrics["mrr"] = mean([reciprocal_rank(g) for g, _ in gains])
    metrics |= class_metrics(asked, answered)
    recall = evidence_recall(asked, evidence)
    if recall:
        metrics["evidence_recall"] = mean(recall)
    metrics |= more or {}
    if citations.height:
        metrics["citations_verified_share"] = accuracy([v == "verified" for v in citations["verdict"].to_list()])
    if counterfactuals is not None:
        for metric, column in (("evidence_necessity", "necessary"), ("evidence_sufficiency", "sufficient")):
            metrics[metric] = accuracy(counterfactuals[column].drop_nulls().to_list())
    rows = [
        {
            "score_id": content_id("score", "benchmark", benchmark, selector, reasoner, model_id, metric),
            "scope_kind": "benchmark",
            "scope_id": benchmark,
            "selector": selector,
            "reasoner": reasoner,
            "model_id": model_id,
            "metric": metric,
            "value": None if math.isnan(e.value) else e.value,
            "low": None if math.isnan(e.low) else e.low,
            "high": None if math.isnan(e.high) else e.high,
            "n": e.n,
            "published": None,
            "published_source": None,
        }
        for metric, e in metrics.items()
    ]
    return beside(rows, printed_as)
