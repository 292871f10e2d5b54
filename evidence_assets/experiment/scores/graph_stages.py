"""Scores of each graph stage on multiple-choice questions: linking, expansion and evidence.

Computed from stored rows (``questions``, ``subgraphs``, ``evidence``), independent of the answers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from evidence_assets.benchmarks.records import option_labels
from evidence_assets.experiment.answers.short_answers import triple_of
from evidence_assets.experiment.evidence.question_concepts import UNREACHED_HOP
from evidence_assets.experiment.scores.metrics import Estimate, accuracy, bootstrap, mean, normalise_answer
from evidence_assets.text.words import name_key

VERSION = "3"
GRAPH_KINDS = ("path", "triple")


def graph_metrics(
    questions: Iterable[Mapping[str, Any]], subgraphs: pl.DataFrame, evidence: pl.DataFrame
) -> dict[str, Estimate]:
    """Scores over the questions with one right option that do not ask for an exception.

    ``graph_linked``, ``graph_right_linked``: shares of questions with a linked node, and with one of the right option.
    ``graph_right_reached``, ``graph_right_kept``: capped expansion reached its node; the subgraph contains it.
    ``graph_right_found``: an evidence row supports the right option.
    ``graph_choice``: accuracy of the option with the best score (shared by ties).
    ``graph_signal``: AUC, P(s_right > s_wrong) + P(tie) / 2, over the pairs of options of a question; options without
    evidence rank last.
    ``graph_kept_share``, ``graph_spread``: share of the subgraph's nodes that are relevant, and standard deviation of
    the node scores, over questions with evidence of a node scorer (what the threshold of algorithm 6.1 keeps).
    ``graph_linking_precision``, ``graph_linking_recall``: linked phrases of the question against the benchmark's topic
    entities; phrases match if one contains the other as whole words.
    """
    subgraph_by_question = {row["question_id"]: row for row in subgraphs.iter_rows(named=True)}
    evidence_by_question = evidence.rows_by_key("question_id", named=True, include_key=True)
    values_by_name: dict[str, list[float]] = {}
    for question in questions:
        question_id = question["question_id"]
        if question_id not in subgraph_by_question or not _has_one_right_option(question):
            continue
        rows = evidence_by_question.get(question_id, [])
        scores = _linking_scores(question, subgraph_by_question[question_id])
        scores |= _discrimination_scores(question, rows) | _relevance_scores(rows)
        for name, value in scores.items():
            values_by_name.setdefault(name, []).append(value)
    return {f"graph_{name}": _estimate(name, values) for name, values in values_by_name.items()}


def _has_one_right_option(question: Mapping[str, Any]) -> bool:
    """Whether one option is right and the question does not ask for an exception."""
    return len(question["gold"] or ()) == 1 and not question["negated"]


def _relevance_scores(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What a node scorer kept of the subgraph, as each of the question's rows says."""
    why = json.loads(rows[0]["why"] or "{}") if rows else {}
    if not why.get("of") or why["spread"] is None:
        return {}
    return {"kept_share": why["kept"] / why["of"], "spread": why["spread"]}


def option_support(question: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Best evidence score of each option, by label; None without evidence.

    Evidence of the whole question supports the option it was searched for, or the options that it names.
    """
    labels_of_question = option_labels(question["task"], question["options"])
    normalised = dict(zip(labels_of_question, map(normalise_answer, question["options"]), strict=True))
    best: dict[str, float | None] = dict.fromkeys(labels_of_question)
    for row in rows:
        labels = {row["option"]}
        if not row["option"]:
            toward = json.loads(row["why"] or "{}").get("toward")
            head, _, tail = triple_of(row) or ("", "", "")
            forms = {normalise_answer(form) for form in ([toward] if toward else [head, tail]) if form}
            labels = {label for label, form in normalised.items() if form in forms}
        for label in labels & best.keys():
            score = best[label]
            best[label] = row["score"] if score is None else max(score, row["score"])
    return best


def signal_values(questions: Iterable[Mapping[str, Any]], evidence: pl.DataFrame) -> list[float]:
    """``graph_signal`` of each question with one right option that does not ask for an exception."""
    rows = evidence.filter(pl.col("kind").is_in(GRAPH_KINDS)).rows_by_key("question_id", named=True, include_key=True)
    return [
        scores["signal"]
        for question in filter(_has_one_right_option, questions)
        if (scores := _discrimination_scores(question, rows.get(question["question_id"], [])))
    ]


def _linking_scores(question: Mapping[str, Any], subgraph: Mapping[str, Any]) -> dict[str, float]:
    hop = {node["node_id"]: node["hop"] for node in subgraph["nodes"]}
    right = {node for link in subgraph["targets"] if link["option"] == question["gold"][0] for node in link["node_ids"]}
    scores: dict[str, float] = {
        "linked": bool(subgraph["concepts"]),
        "right_linked": bool(right),
        "right_reached": any(hop.get(node, UNREACHED_HOP) != UNREACHED_HOP for node in right),
        "right_kept": any(node in hop for node in right),
    }
    gold, phrases = (
        [f" {name_key(text)} " for text in texts]
        for texts in (question["topic_entities"], [link["phrase"] for link in subgraph["concepts"]])
    )
    if gold:
        scores["linking_recall"] = sum(any(p in g or g in p for p in phrases) for g in gold) / len(gold)
        if phrases:
            scores["linking_precision"] = sum(any(p in g or g in p for g in gold) for p in phrases) / len(phrases)
    return {name: float(value) for name, value in scores.items()}


def _discrimination_scores(question: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    right, support = question["gold"][0], option_support(question, rows)
    ranks = {label: -math.inf if value is None else value for label, value in support.items()}
    if len(ranks) < 2 or right not in ranks:
        return {}
    others = [rank for label, rank in ranks.items() if label != right]
    wins = [(ranks[right] > other) + (ranks[right] == other) / 2 for other in others]
    first = [label for label, rank in ranks.items() if rank == max(ranks.values())]
    return {
        "right_found": float(support[right] is not None),
        "choice": (right in first) / len(first),
        "signal": sum(wins) / len(wins),
    }


def _estimate(name: str, values: Sequence[float]) -> Estimate:
    if name in ("linked", "right_linked", "right_reached", "right_kept", "right_found"):
        return accuracy([value > 0 for value in values])
    return mean(values) if name.startswith("linking_") else bootstrap(values)
