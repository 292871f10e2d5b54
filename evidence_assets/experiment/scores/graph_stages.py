"""Scores of each graph stage on multiple-choice questions: linking, expansion and evidence.

Computed from stored rows (``questions``, ``subgraphs``, ``evidence``), independent of the answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import polars as pl

from evidence_assets.experiment.evidence.question_concepts import UNREACHED_HOP
from evidence_assets.experiment.evidence_rows import evidence_by_question
from evidence_assets.experiment.scores.metrics import Estimate, accuracy, bootstrap, mean, normalise_answer
from evidence_assets.experiment.stored_rows import QuestionRow, SubgraphRow, typed_rows
from evidence_assets.reasoning.questions import option_texts
from evidence_assets.reasoning.tasks import EvidenceItem
from evidence_assets.text.words import name_key

VERSION = "3"
GRAPH_KINDS = ("path", "triple")


def graph_metrics(
    questions: Iterable[QuestionRow], subgraphs: pl.DataFrame, evidence: pl.DataFrame
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
    subgraph_by_question = {row["question_id"]: row for row in typed_rows(subgraphs, SubgraphRow)}
    items = evidence_by_question(evidence)
    values_by_name: dict[str, list[float]] = {}
    for question in questions:
        question_id = question["question_id"]
        right = _find_right_label(question)
        if question_id not in subgraph_by_question or right is None:
            continue
        of_question = items.get(question_id, [])
        scores = _linking_scores(question, right, subgraph_by_question[question_id])
        scores |= _discrimination_scores(question, right, of_question) | _relevance_scores(of_question)
        for name, value in scores.items():
            values_by_name.setdefault(name, []).append(value)
    return {f"graph_{name}": _estimate(name, values) for name, values in values_by_name.items()}


def _find_right_label(question: QuestionRow) -> str | None:
    """The label of the only right option; None if there are several or the question asks for an exception."""
    gold = question["gold"] or []
    return gold[0] if len(gold) == 1 and not question["negated"] else None


def _relevance_scores(evidence: Sequence[EvidenceItem]) -> dict[str, float]:
    """What a node scorer kept of the subgraph, as all evidence of a question says."""
    details = cast(Mapping[str, float], evidence[0].details) if evidence else {}
    if not details.get("of") or details["spread"] is None:
        return {}
    return {"kept_share": details["kept"] / details["of"], "spread": details["spread"]}


def option_support(question: QuestionRow, evidence: Sequence[EvidenceItem]) -> dict[str, float | None]:
    """Best evidence score of each option, by label; None without evidence.

    Evidence of the whole question supports the option it was searched for, or the options that it names.
    """
    texts = option_texts(question["task"], question["options"])
    normalised = {label: normalise_answer(text) for label, text in texts.items()}
    best: dict[str, float | None] = dict.fromkeys(texts)
    for item in evidence:
        labels = {item.option}
        if not item.option:
            toward = item.details.get("toward")
            head, _, tail = item.triple or ("", "", "")
            forms = {normalise_answer(form) for form in ([str(toward)] if toward else [head, tail]) if form}
            labels = {label for label, form in normalised.items() if form in forms}
        for label in labels & best.keys():
            score = best[label]
            best[label] = item.score if score is None else max(score, item.score)
    return best


def signal_values(questions: Iterable[QuestionRow], evidence: pl.DataFrame) -> list[float]:
    """``graph_signal`` of each question with one right option that does not ask for an exception."""
    items = evidence_by_question(evidence.filter(pl.col("kind").is_in(GRAPH_KINDS)))
    values = []
    for question in questions:
        right = _find_right_label(question)
        if right is None:
            continue
        scores = _discrimination_scores(question, right, items.get(question["question_id"], []))
        if scores:
            values.append(scores["signal"])
    return values


def _linking_scores(question: QuestionRow, right_label: str, subgraph: SubgraphRow) -> dict[str, float]:
    hop = {node["node_id"]: node["hop"] for node in subgraph["nodes"]}
    right = {node for link in subgraph["targets"] if link["option"] == right_label for node in link["node_ids"]}
    scores = {
        "linked": bool(subgraph["concepts"]),
        "right_linked": bool(right),
        "right_reached": any(hop.get(node, UNREACHED_HOP) != UNREACHED_HOP for node in right),
        "right_kept": any(node in hop for node in right),
    }
    numbers = {name: float(value) for name, value in scores.items()}
    return numbers | _entity_scores(question["topic_entities"], [link["phrase"] for link in subgraph["concepts"]])


def _entity_scores(topic_entities: Sequence[str], linked_phrases: Sequence[str]) -> dict[str, float]:
    """Precision and recall of linked phrases; phrases match if one contains the other as whole words."""
    gold = [f" {name_key(entity)} " for entity in topic_entities]
    phrases = [f" {name_key(phrase)} " for phrase in linked_phrases]
    scores: dict[str, float] = {}
    if gold:
        scores["linking_recall"] = sum(any(p in g or g in p for p in phrases) for g in gold) / len(gold)
    if gold and phrases:
        scores["linking_precision"] = sum(any(p in g or g in p for g in gold) for p in phrases) / len(phrases)
    return scores


def _discrimination_scores(question: QuestionRow, right: str, evidence: Sequence[EvidenceItem]) -> dict[str, float]:
    support = option_support(question, evidence)
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
