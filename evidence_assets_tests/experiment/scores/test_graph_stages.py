"""Stages of a graph: where each question is lost, and signal against chance."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.experiment.evidence.question_concepts import UNREACHED_HOP
from evidence_assets.experiment.scores.graph_stages import graph_stages, option_support
from evidence_assets.experiment.scores.metrics import Estimate
from evidence_assets_tests.lake_rows import as_stored
from evidence_assets_tests.lake_rows import evidence as evidence_row

OPTIONS = {"A": "thirst", "B": "a fever", "C": "cell"}


def question(name: str, **more: Any) -> dict[str, Any]:
    return {
        "question_id": name,
        "task": "mcqa",
        "options": list(OPTIONS.values()),
        "gold": ["A"],
        "negated": False,
        "topic_entities": [],
        **more,
    }


def link(option: str, phrase: str, *nodes: str) -> dict[str, Any]:
    return {"option": option, "phrase": phrase, "rule": "exact", "score": 1.0, "node_ids": list(nodes)}


def subgraph(name: str, concepts: list[Any], targets: list[Any], hops: dict[str, int]) -> dict[str, Any]:
    return {
        "subgraph_id": name,
        "question_id": name,
        "benchmark": "b",
        "graph": "g",
        "concepts": concepts,
        "targets": targets,
        "nodes": [{"node_id": node, "hop": hop} for node, hop in hops.items()],
        "edges": [],
        "dropped": [],
        "note": None,
        "content_hash": name,
        "input_hash": name,
    }


def row(name: str, option: str, score: float, kind: str = "path", rank: int = 1, **why: Any) -> dict[str, Any]:
    place = f"{name}{option}{score}{why}"
    return evidence_row(0, rank, "", evidence_id=place, question_id=name, option=option, kind=kind, score=score) | {
        "source_kind": "edge",
        "why": json.dumps(why),
        "content_hash": place,
    }


def measured(asked: list[Any], around: list[Any], evidence: list[Any]) -> dict[str, Estimate]:
    return graph_stages(asked, as_stored("subgraphs", around), as_stored("evidence", evidence))


def test_each_stage_tells_where_a_question_is_lost() -> None:
    asked = [question("won"), question("cut"), question("lost"), question("not", negated=True), question("elsewhere")]
    right, none = link("A", "thirst", "n1"), link("B", "fever", "n2")
    around = [
        subgraph("won", [link("", "sugar", "n0")], [right, none], {"n0": 0, "n1": 1}),
        subgraph("cut", [link("", "sugar", "n0")], [right], {"n0": 0, "n1": UNREACHED_HOP}),
        subgraph("lost", [], [none], {}),
        subgraph("not", [link("", "sugar", "n0")], [right], {"n0": 0, "n1": 1}),
    ]
    evidence = [row("won", "A", 0.7), row("won", "A", 0.2, rank=2), row("won", "B", 0.4), row("cut", "B", 0.9)]
    found = measured(asked, around, evidence)
    shares = ("linked", "right_linked", "right_reached", "right_kept", "right_found")
    assert [round(found[f"graph_{name}"].value * 3) for name in shares] == [2, 2, 1, 2, 1]
    assert {estimate.n for name, estimate in found.items() if name[6:] in shares} == {3}
    assert (found["graph_right_support"].value, found["graph_right_support"].n) == (0.7, 1)
    assert found["graph_right_rank"].value == pytest.approx((1 + 2.5 + 2) / 3)
    assert found["graph_choice"].value == pytest.approx((1 + 0 + 1 / 3) / 3)
    assert found["graph_choice_chance"].value == pytest.approx(1 / 3)
    assert found["graph_signal"].value == pytest.approx((1 + 1 / 4 + 1 / 2) / 3)
    assert (found["graph_signal_of_found"].value, found["graph_signal_of_found"].n) == (1.0, 1)
    assert "graph_linking_recall" not in found and measured(asked[-1:], around, evidence) == {}


def test_linked_phrases_are_held_against_the_topics_that_a_benchmark_names() -> None:
    asked = [question("q", topic_entities=["Two weeks", "type 2 diabetes"])]
    around = [subgraph("q", [link("", "diabetes", "n1"), link("", "man", "n2")], [], {"n1": 0, "n2": 0})]
    found = measured(asked, around, [])
    assert found["graph_linking_recall"].value == found["graph_linking_precision"].value == 0.5


def test_a_triple_counts_for_the_options_that_it_was_reached_for_or_names() -> None:
    triple = ["sugar", "Causes", "A Fever"]
    rows = [row("q", "", 0.3, "triple", triple=triple), row("q", "", 0.2, "triple", triple=triple, toward="cell")]
    assert option_support(OPTIONS, rows) == {"A": None, "B": 0.3, "C": 0.2}


SCORES = st.lists(st.one_of(st.none(), st.integers(-3, 3)), min_size=3, max_size=3)


@settings(max_examples=20, deadline=None)
@given(st.lists(SCORES, min_size=1, max_size=4))
def test_signal_is_the_share_of_pairs_won_whatever_the_scale_of_scores(drawn: list[list[int | None]]) -> None:
    def signal(scale: float) -> float:
        rows = [
            row(str(q), label, scale * score)
            for q, scores in enumerate(drawn)
            for label, score in zip(OPTIONS, scores, strict=True)
            if score is not None
        ]
        names = [str(q) for q in range(len(drawn))]
        found = measured([question(n) for n in names], [subgraph(n, [], [], {}) for n in names], rows)
        return found["graph_signal"].value

    numbers = [[float("-inf") if score is None else score for score in scores] for scores in drawn]
    pairs = [(right, wrong) for right, *others in numbers for wrong in others]
    assert signal(1.0) == pytest.approx(sum((r > w) + (r == w) / 2 for r, w in pairs) / len(pairs))
    assert signal(1.0) == signal(0.1)
