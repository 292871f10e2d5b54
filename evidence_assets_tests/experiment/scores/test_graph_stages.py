"""Graph stage scores: losses per stage, and signal against chance."""

import json
from typing import Any

import pytest

from evidence_assets.experiment.evidence.question_concepts import UNREACHED_HOP
from evidence_assets.experiment.evidence_rows import read_item
from evidence_assets.experiment.scores.graph_stages import graph_metrics, option_support
from evidence_assets.experiment.scores.metrics import Estimate
from evidence_assets_tests.lake_rows import as_stored
from evidence_assets_tests.lake_rows import evidence as evidence_row
from evidence_assets_tests.lake_rows import question as stored_question

OPTIONS = {"A": "thirst", "B": "a fever", "C": "cell"}


def question(name: str, **fields: Any) -> dict[str, Any]:
    return stored_question(0, question_id=name, options=list(OPTIONS.values()), **fields)


def link(option: str, phrase: str, *nodes: str) -> dict[str, Any]:
    return {"option": option, "phrase": phrase, "rule": "exact", "score": 1.0, "node_ids": list(nodes)}


def subgraph(name: str, concepts: list[Any], targets: list[Any], hops: dict[str, int]) -> dict[str, Any]:
    names = dict.fromkeys(("subgraph_id", "question_id", "benchmark", "graph", "content_hash", "input_hash"), name)
    nodes = [{"node_id": node, "hop": hop} for node, hop in hops.items()]
    lists = {"concepts": concepts, "targets": targets, "nodes": nodes, "edges": [], "dropped": []}
    return {**names, **lists, "note": None}


def row(name: str, option: str, score: float, kind: str = "path", rank: int = 1, **details: Any) -> dict[str, Any]:
    row_id = f"{name}{option}{score}{details}"
    return evidence_row(0, rank, "", evidence_id=row_id, question_id=name, option=option, kind=kind, score=score) | {
        "source_kind": "edge",
        "why": json.dumps(details),
        "content_hash": row_id,
    }


def compute_scores(questions: list[Any], subgraphs: list[Any], evidence: list[Any]) -> dict[str, Estimate]:
    return graph_metrics(questions, as_stored("subgraphs", subgraphs), as_stored("evidence", evidence))


def test_each_stage_counts_the_questions_it_loses() -> None:
    questions = [*map(question, ("won", "cut", "lost")), question("not", negated=True), question("elsewhere")]
    right, none = link("A", "thirst", "n1"), link("B", "fever", "n2")
    subgraphs = [
        subgraph("won", [link("", "sugar", "n0")], [right, none], {"n0": 0, "n1": 1}),
        subgraph("cut", [link("", "sugar", "n0")], [right], {"n0": 0, "n1": UNREACHED_HOP}),
        subgraph("lost", [], [none], {}),
        subgraph("not", [link("", "sugar", "n0")], [right], {"n0": 0, "n1": 1}),
    ]
    evidence = [row("won", "A", 0.7), row("won", "A", 0.2, rank=2), row("won", "B", 0.4), row("cut", "B", 0.9)]
    scores = compute_scores(questions, subgraphs, evidence)
    shares = ("linked", "right_linked", "right_reached", "right_kept", "right_found")
    assert [round(scores[f"graph_{name}"].value * 3) for name in shares] == [2, 2, 1, 2, 1]
    assert {estimate.n for name, estimate in scores.items() if name[6:] in shares} == {3}
    assert scores["graph_choice"].value == pytest.approx((1 + 0 + 1 / 3) / 3)
    assert scores["graph_signal"].value == pytest.approx((1 + 1 / 4 + 1 / 2) / 3)
    assert "graph_linking_recall" not in scores and compute_scores(questions[-1:], subgraphs, evidence) == {}


def test_the_kept_share_and_the_spread_are_those_of_the_evidence() -> None:
    subgraphs = [subgraph(name, [link("", "sugar", "n0")], [], {"n0": 0}) for name in ("q", "r", "s")]
    scored, raw = ({"kept": 3, "of": 4, "spread": 0.25}, {"kept": 4, "of": 4, "spread": None})
    evidence = [row("q", "A", 0.7), row("q", "B", 0.4), row("r", "A", 0.1)]
    for item, why in zip(evidence, (scored, scored, raw), strict=True):
        item["why"] = json.dumps(why)
    scores = compute_scores([question(name) for name in ("q", "r", "s")], subgraphs, evidence)
    assert (scores["graph_kept_share"].value, scores["graph_kept_share"].n) == (0.75, 1)
    assert scores["graph_spread"].value == 0.25


def test_linked_phrases_are_compared_with_topic_entities() -> None:
    questions = [question("q", topic_entities=["Two weeks", "type 2 diabetes"])]
    subgraphs = [subgraph("q", [link("", "diabetes", "n1"), link("", "man", "n2")], [], {"n1": 0, "n2": 0})]
    scores = compute_scores(questions, subgraphs, [])
    assert scores["graph_linking_recall"].value == scores["graph_linking_precision"].value == 0.5


def test_a_triple_supports_the_options_that_it_names_or_was_searched_for() -> None:
    triple = ["sugar", "Causes", "A Fever"]
    rows = [row("q", "", 0.3, "triple", triple=triple), row("q", "", 0.2, "triple", triple=triple, toward="cell")]
    assert option_support(question("q"), list(map(read_item, rows))) == {"A": None, "B": 0.3, "C": 0.2}
