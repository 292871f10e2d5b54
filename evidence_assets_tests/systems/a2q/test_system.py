"""Attention2Query on a small graph: phrases, ablations, bridges, and questions without linked nodes."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from evidence_assets.experiment.evidence.selection import Question, SelectedEvidence
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph, plain_sentence
from evidence_assets.systems.a2q.selection import (
    A2Q,
    A2QSettings,
    NearestTriples,
    TripleSettings,
    define_nodes,
    grade_scores,
)
from evidence_assets_tests.graphs.small_graph import graph_of, with_vectors
from evidence_assets_tests.systems.small_models import SharedWordReranker, WordEncoder

NAMES = ["pizzeria", "food court", "shopping mall", "street", "city", "oven", "hot oven fire", "chicago"]
RELATIONS = ["AtLocation", "PartOf", "UsedFor"]
EDGES = [(0, 0, 1), (1, 0, 2), (0, 0, 3), (3, 1, 4), (5, 2, 6), (7, 1, 4), (5, 0, 0)]
ENCODER = WordEncoder()
SETTINGS = A2QSettings(heads=4, theta=2, kept_nodes=3, top_n=4)


def graph_over(edges: list[tuple[int, int, int]], names: list[str] = NAMES) -> KnowledgeGraph:
    return with_vectors(graph_of(names, RELATIONS, edges), ENCODER)


GRAPH = graph_over(EDGES)


def make_selector(settings: A2QSettings = SETTINGS, graph: KnowledgeGraph = GRAPH, **options: object) -> A2Q:
    reranker = options.pop("reranker", SharedWordReranker())
    return A2Q(graph, ENCODER, reranker, settings, **options)  # type: ignore[arg-type]


def make_question(text: str, *options: str) -> Question:
    return Question("q", "own", "mcqa", text, options)


def evidence_triples(evidence: list[SelectedEvidence]) -> list[tuple[str, str, str]]:
    return [tuple(json.loads(item.why or "")["triple"]) for item in evidence]


def test_triples_around_the_question_come_with_reasons() -> None:
    evidence = make_selector().select([make_question("Where is a pizzeria while shopping?")])[0]
    assert ("pizzeria", "AtLocation", "food court") in evidence_triples(evidence)
    assert len(evidence) == len({item.parents for item in evidence}) <= 4
    scores = [item.score for item in evidence]
    assert scores == sorted(scores, reverse=True)
    details = json.loads(evidence[0].why or "")
    assert details["stage"] in ("subgraph", "bridge")
    assert details["grade"] * details["attention"] == pytest.approx(evidence[0].score, abs=1e-4)
    assert evidence[0].text == plain_sentence(*details["triple"])
    assert (evidence[0].kind, evidence[0].parents[0].kind) == ("triple", "edge")


def test_options_bring_in_their_own_neighbourhood() -> None:
    question = make_question("Where is a pizzeria?", "chicago", "oven")
    with_options = evidence_triples(make_selector(replace(SETTINGS, kept_nodes=6, top_n=9)).select([question])[0])
    assert ("chicago", "PartOf", "city") in with_options
    without_options = evidence_triples(
        make_selector(replace(SETTINGS, kept_nodes=6, top_n=9, options=False)).select([question])[0]
    )
    assert ("chicago", "PartOf", "city") not in without_options


def test_disconnected_parts_are_bridged_unless_switched_off() -> None:
    question = make_question("chicago pizzeria")
    narrow = replace(SETTINGS, kept_nodes=1, theta=1, top_n=9)
    bridged = make_selector(narrow).select([question])[0]
    assert {"street", "city"} <= {end for head, _, tail in evidence_triples(bridged) for end in (head, tail)}
    assert any(json.loads(item.why or "")["stage"] == "bridge" for item in bridged)
    without_bridges = make_selector(replace(narrow, paths=False)).select([question])[0]
    assert not any(json.loads(item.why or "")["stage"] == "bridge" for item in without_bridges)
    assert len(without_bridges) < len(bridged)


def test_a_missing_phrase_takes_its_nearest_nodes_and_a_definition_takes_its_place() -> None:
    question = make_question("Where is a trattoria?")
    unbounded = make_selector(replace(SETTINGS, theta=1, least_similarity=-1.0)).select([question])[0]
    assert unbounded, "without a bound a phrase starts at its nearest nodes"
    assert make_selector(replace(SETTINGS, theta=1)).select([question])[0] == []
    with_definition = make_selector(
        replace(SETTINGS, theta=1, starts_per_phrase=1), definitions={"Trattoria": "pizzeria"}
    ).select([question])[0]
    assert {"pizzeria"} <= {end for head, _, tail in evidence_triples(with_definition) for end in (head, tail)}


def test_a_grade_depends_on_its_triple_only() -> None:
    """As published: grades are not scaled over the triples of the question."""
    scores = np.array([-9.0, 0.0, 2.0], np.float32)
    assert grade_scores(scores) == pytest.approx((1 + 9 * expit(scores)).tolist())
    assert grade_scores(scores[1:2]) == pytest.approx([5.5]) and grade_scores(scores[:0]) == []
    evidence = make_selector().select([make_question("Where is a pizzeria?")])[0]
    scores_of_evidence = SharedWordReranker().score([("Where is a pizzeria?", item.text) for item in evidence])
    grades = [json.loads(item.why or "")["grade"] for item in evidence]
    assert grades == pytest.approx((1 + 9 * expit(scores_of_evidence)).tolist(), abs=1e-6)


def test_baselines_equal_brute_force() -> None:
    sentences = [GRAPH.sentence(edge) for edge in range(len(EDGES))]
    vectors = ENCODER.encode_sentences(sentences)
    question = make_question("pizzeria in the food court")
    cosine = vectors @ ENCODER.encode_sentences([question.text])[0]
    nearest = NearestTriples(GRAPH, ENCODER, TripleSettings(top_n=3)).select([question])[0]
    assert [p.text for p in nearest] == [sentences[i] for i in np.argsort(-cosine, kind="stable")[:3]]
    linked = NearestTriples(GRAPH, ENCODER, TripleSettings(linked=True)).select([question, make_question("?")])
    touching = [i for i, (h, _, t) in enumerate(EDGES) if {h, t} & {0, 1}]
    assert [p.text for p in linked[0]] == [sentences[i] for i in sorted(touching, key=lambda i: -cosine[i])]
    assert linked[1] == []


def test_topic_entities_of_the_dataset_are_start_nodes() -> None:
    with_topics = replace(make_question("Where is it?"), topic_entities=("oven", "unknown"))
    evidence = NearestTriples(GRAPH, ENCODER, TripleSettings(topics=True)).select(
        [with_topics, make_question("Where is the oven?")]
    )
    assert {("oven", "UsedFor", "hot oven fire"), ("oven", "AtLocation", "pizzeria")} == set(
        evidence_triples(evidence[0])
    )
    assert evidence[1] == [], "the second question has no topic entities"


def test_a_taxonomy_from_the_graph_itself() -> None:
    definitions = define_nodes(GRAPH, "AtLocation", max_facts=1)
    assert set(definitions) == {"pizzeria", "food court", "oven"}
    arrays = GRAPH.arrays
    ends = [(int(arrays.heads[edge]), int(arrays.tails[edge])) for edge in range(arrays.n_edges)]
    assert definitions["oven"] == GRAPH.sentence(ends.index((NAMES.index("oven"), 0)))
    assert define_nodes(GRAPH, "IsA") == {}
