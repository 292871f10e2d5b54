"""Where a graph loses multiple-choice questions, and whether its evidence tells right options from wrong ones at all.

Belongs here: scores of each stage from stored rows (``questions``, ``subgraphs``, ``evidence``), whatever is answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from evidence_assets.benchmarks.records import option_labels
from evidence_assets.experiment.answers.short_answers import triple_of
from evidence_assets.experiment.evidence.question_concepts import UNREACHED_HOP
from evidence_assets.experiment.scores.metrics import Estimate, accuracy, bootstrap, mean, normalise_answer
from evidence_assets.text.words import name_key

VERSION = "1"


def graph_stages(
    questions: Iterable[Mapping[str, Any]], subgraphs: pl.DataFrame, evidence: pl.DataFrame
) -> dict[str, Estimate]:
    """Stage by stage, over the questions with one right option that do not ask for an exception.

    ``graph_linked``, ``graph_right_linked``: shares of questions that name a node, and whose right option does.
    ``graph_right_reached``, ``graph_right_kept``: its node lies in the subgraph by expansion under the caps; at all.
    ``graph_right_found``: a row of evidence leads to the right option.
    ``graph_right_support``, ``graph_right_rank``: its best score where one does, and its mean rank among options.
    ``graph_choice``, ``graph_choice_chance``: accuracy of the option with the best score, equal ones sharing; and of
    guessing.
    ``graph_signal``: P(s_right > s_wrong) + P(equal) / 2 over the pairs of options of a question (the area under the
    curve; chance is one half), an option without evidence below all others; ``graph_signal_of_found`` over the pairs of
    which both have evidence, which sets aside that some options are named in a graph more easily than others.
    ``graph_linking_precision``, ``graph_linking_recall``: linked phrases of the question against those that the
    benchmark names as its topics; one holds the other if it stands in it as whole words.
    """
    around = {row["question_id"]: row for row in subgraphs.iter_rows(named=True)}
    rows = evidence.rows_by_key("question_id", named=True, include_key=True)
    found: dict[str, list[float]] = {}
    for question in questions:
        if len(question["gold"]) != 1 or question["negated"] or question["question_id"] not in around:
            continue
        labels = option_labels(question["task"], question["options"])
        support = option_support(
            dict(zip(labels, question["options"], strict=True)), rows.get(question["question_id"], [])
        )
        measured = _linked(question, around[question["question_id"]]) | _separated(question["gold"][0], support)
        for name, value in measured.items():
            found.setdefault(name, []).append(value)
    return {f"graph_{name}": _estimate(name, values) for name, values in found.items()}


def option_support(options: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The best score of the evidence for each option, by label; None where there is none.

    Evidence of a question as a whole counts for the options that it was reached for, or that it names.
    """
    named = {label: normalise_answer(text) for label, text in options.items()}
    best: dict[str, float | None] = dict.fromkeys(options)
    for row in rows:
        labels = {row["option"]}
        if not row["option"]:
            toward = json.loads(row["why"] or "{}").get("toward")
            head, _, tail = triple_of(row) or ("", "", "")
            forms = {normalise_answer(form) for form in ([toward] if toward else [head, tail]) if form}
            labels = {label for label, form in named.items() if form in forms}
        for label in labels & best.keys():
            held = best[label]
            best[label] = row["score"] if held is None else max(held, row["score"])
    return best


def _linked(question: Mapping[str, Any], around: Mapping[str, Any]) -> dict[str, float]:
    hop = {node["node_id"]: node["hop"] for node in around["nodes"]}
    right = {node for link in around["targets"] if link["option"] == question["gold"][0] for node in link["node_ids"]}
    made: dict[str, float] = {
        "linked": bool(around["concepts"]),
        "right_linked": bool(right),
        "right_reached": any(hop.get(node, UNREACHED_HOP) != UNREACHED_HOP for node in right),
        "right_kept": any(node in hop for node in right),
    }
    gold, phrases = (
        [f" {name_key(text)} " for text in texts]
        for texts in (question["topic_entities"], [link["phrase"] for link in around["concepts"]])
    )
    if gold:
        made["linking_recall"] = sum(any(p in g or g in p for p in phrases) for g in gold) / len(gold)
        if phrases:
            made["linking_precision"] = sum(any(p in g or g in p for g in gold) for p in phrases) / len(phrases)
    return {name: float(value) for name, value in made.items()}


def _separated(right: str, support: Mapping[str, float | None]) -> dict[str, float]:
    ranks = {label: (value is not None, value or 0.0) for label, value in support.items()}
    wrong = {label: rank for label, rank in ranks.items() if label != right}
    if not wrong or right not in ranks:
        return {}

    def beaten(others: Iterable[tuple[bool, float]]) -> list[float]:
        return [(ranks[right] > other) + (ranks[right] == other) / 2 for other in others]

    first = [label for label, rank in ranks.items() if rank == max(ranks.values())]
    won = beaten(wrong.values())
    made = {
        "right_found": float(ranks[right][0]),
        "right_rank": 1 + len(won) - sum(won),
        "choice": (right in first) / len(first),
        "choice_chance": 1 / len(ranks),
        "signal": sum(won) / len(won),
    }
    if ranks[right][0]:
        made["right_support"] = ranks[right][1]
        if both := beaten(rank for rank in wrong.values() if rank[0]):
            made["signal_of_found"] = sum(both) / len(both)
    return made


def _estimate(name: str, values: Sequence[float]) -> Estimate:
    if name in ("linked", "right_linked", "right_reached", "right_kept", "right_found"):
        return accuracy([value > 0 for value in values])
    return mean(values) if name.startswith("linking_") else bootstrap(values)
