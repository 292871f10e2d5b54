"""Paths as evidence, from the words of a question to picks that stand in the graph; and odd questions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from evidence_assets.benchmarks.graphs.relations import load
from evidence_assets.experiment.answers.chains import chain_rows
from evidence_assets.experiment.answers.options import WeighsOptions
from evidence_assets.experiment.answers.predictions import prediction_rows
from evidence_assets.experiment.evidence.question_concepts import (
    DEPTH,
    NOT_REACHED,
    Expansion,
    concepts_of,
    numbers,
    stored_surroundings,
    subgraph_rows,
    surroundings_of,
)
from evidence_assets.experiment.evidence.selection import Asked, Pick, evidence_rows
from evidence_assets.experiment.stage import Before
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.reasoning.extractive import ExtractiveSolver
from evidence_assets.reasoning.paths import Fact, wrong_with
from evidence_assets.systems.ugat.system import GraphPaths, UgatSettings
from evidence_assets.text.negation import asks_for_exception
from evidence_assets_tests.graphs.small_graph import small_graph
from evidence_assets_tests.lake_rows import stored
from evidence_assets_tests.systems.small_models import minilm

THIRST = Asked(
    "q1",
    "b",
    "mcqa",
    "Which sign would fit the illness that metformin relieves?",
    ("excessive thirst", "fever", "zzyzx", "cell"),
)
WIDE = Expansion(3, 32, 300)
SETTINGS = UgatSettings(steps=3)


def names(graph: KnowledgeGraph, found: object) -> list[str]:
    return [graph.names[n] for n in numbers(found)]  # type: ignore[arg-type]


@pytest.fixture
def graph(tmp_path: Path) -> KnowledgeGraph:
    return small_graph(tmp_path)


def facts(graph: KnowledgeGraph) -> dict[str, Fact]:
    ends = graph.edge_column("head_id"), graph.edge_column("relation"), graph.edge_column("tail_id")
    stated = zip(*ends, map(graph.triple, range(len(graph.edge_ids))), strict=True)
    rows = [Fact(head, relation, tail, names[0], names[2]) for head, relation, tail, names in stated]
    return dict(zip(graph.edge_ids, rows, strict=True))


def select(graph: KnowledgeGraph, *questions: Asked, settings: UgatSettings = SETTINGS) -> list[list[Pick]]:
    around = surroundings_of(questions, graph, WIDE)
    return list(GraphPaths(graph, around, load(), settings).select(questions))


def test_options_are_linked_apart_from_the_question(graph: KnowledgeGraph) -> None:
    (found,) = concepts_of([THIRST], graph)
    assert names(graph, found.concepts) == ["metformin"]
    assert {label: names(graph, of) for label, of in found.options.items()} == {
        "A": ["excessive thirst"],
        "B": ["fever"],
        "C": [],
        "D": ["cell"],
    }
    assert found.concepts[0].rule == "exact"


def test_a_pick_cites_edges_that_stand_in_the_graph_and_says_why(graph: KnowledgeGraph) -> None:
    (picks,) = select(graph, THIRST)
    assert picks and {pick.option for pick in picks} == {"A"}
    best = next(pick for pick in picks if len(pick.parents) == 2)
    assert best.text == "Metformin may treat diabetes. Excessive thirst is associated with diabetes."
    assert wrong_with(best.locator, best.text, facts(graph), load().template) == []
    assert {(p.kind, p.version) for p in best.parents} == {("edge", p.id) for p in best.parents}
    why = json.loads(best.why or "")
    assert [node["name"] for node in why["nodes"]] == ["metformin", "diabetes", "excessive thirst"]
    assert [link["phrase"] for link in why["links"]] == ["metformin", "excessive thirst"]
    assert set(why["attention"]) == {p.id for p in best.parents}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("Why so?", ("fever", "cell")),
        ("", ("fever",)),
        ("What does metformin relieve?", ("zzyzx", "qqq")),
        ("What is a cell?", ("cell", "fever")),
        ("What does metformin relieve?", ("fever", "writing")),
        ("What does metformin relieve?", ()),
    ],
    ids=["no concept", "no words", "options without nodes", "one node with a self-loop", "another part", "no options"],
)
def test_odd_questions_have_no_evidence(graph: KnowledgeGraph, text: str, options: tuple[str, ...]) -> None:
    assert select(graph, Asked("q", "b", "mcqa", text, options)) == [[]]


def test_an_empty_graph_gives_no_evidence(tmp_path: Path) -> None:
    assert select(small_graph(tmp_path, []), THIRST) == [[]]


def test_subgraphs_are_written_down_and_read_back(graph: KnowledgeGraph) -> None:
    asked = [THIRST, Asked("q2", "b", "mcqa", "Why so?", ("fever",))]
    narrow = Expansion(3, 1, 3)
    made = subgraph_rows(asked, graph, narrow)
    rows = {row["question_id"]: row for row in stored("subgraphs", made.rows).to_dicts()}
    assert rows["q2"]["note"] and not rows["q2"]["nodes"] and not rows["q2"]["concepts"]
    options = {node for link in rows["q1"]["targets"] for node in link["node_ids"]}
    placed = {node["node_id"]: node["hop"] for node in rows["q1"]["nodes"]}
    assert sum(hop != NOT_REACHED for hop in placed.values()) <= 3 and rows["q1"]["dropped"]
    assert NOT_REACHED in placed.values() and options <= placed.keys(), "no cap cuts an option off"
    fresh, back = (
        surroundings_of(asked, graph, narrow),
        stored_surroundings(stored("subgraphs", made.rows), asked, graph),
    )
    assert fresh.keys() == back.keys() == {"q1", "q2"}
    for question, around in fresh.items():
        assert back[question].named == around.named
        assert np.array_equal(back[question].vector, around.vector)
        for field in ("nodes", "hop", "edges", "heads", "tails"):
            assert np.array_equal(getattr(back[question].part, field), getattr(around.part, field)), field
    before = Before(stored("subgraphs", made.rows), stored("lineage_edges", made.lineage))
    again = subgraph_rows(asked, graph, narrow, before)
    assert again.reused == 2
    assert stored("subgraphs", again.rows).equals(stored("subgraphs", made.rows))
    wider = subgraph_rows(asked, graph, Expansion(DEPTH + 1, 1, 3), before)
    assert wider.reused == 0


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("Which of these is NOT something that metformin treats or belongs to?", False),
        ("Which of these has metformin to do with?", True),
    ],
    ids=["not", "stated by the benchmark"],
)
def test_a_negated_question_is_answered_by_the_option_that_no_path_leads_to(
    graph: KnowledgeGraph, text: str, stated: bool
) -> None:
    question = Asked(
        "q", "b", "mcqa", text, ("diabetes", "biguanide", "writing"), negated=stated or asks_for_exception(text)
    )
    assert question.negated
    selector = GraphPaths(graph, surroundings_of([question], graph, WIDE), load(), SETTINGS)
    evidence = stored("evidence", evidence_rows("ugat", selector, [question]).rows)
    solver = ExtractiveSolver(minilm())
    chains = stored("chains", chain_rows(solver, "ugat", [question], evidence).rows)
    answerer = WeighsOptions(solver, [question], evidence, chains)
    made = prediction_rows(answerer, "ugat", [question])
    row = stored("predictions", made.rows).to_dicts()[0]
    assert set(evidence["option"]) == {"A", "B"}
    assert (row["answer"], row["status"]) == ("C", "answered")
