"""Attention2Query on a small graph: phrases, ablations, bridges, and questions that link to nothing."""

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


def a2q(settings: A2QSettings = SETTINGS, graph: KnowledgeGraph = GRAPH, **more: object) -> A2Q:
    reranker = more.pop("reranker", SharedWordReranker())
    return A2Q(graph, ENCODER, reranker, settings, **more)  # type: ignore[arg-type]


def asked(text: str, *options: str) -> Question:
    return Question("q", "own", "mcqa", text, options)


def triples(picks: list[SelectedEvidence]) -> list[tuple[str, str, str]]:
    return [tuple(json.loads(pick.why or "")["triple"]) for pick in picks]


def test_triples_around_the_question_come_with_reasons() -> None:
    picks = a2q().select([asked("Where is a pizzeria while shopping?")])[0]
    assert ("pizzeria", "AtLocation", "food court") in triples(picks)
    assert len(picks) == len({p.parents for p in picks}) <= 4
    scores = [p.score for p in picks]
    assert scores == sorted(scores, reverse=True)
    why = json.loads(picks[0].why or "")
    assert why["stage"] in ("subgraph", "bridge")
    assert why["grade"] * why["attention"] == pytest.approx(picks[0].score, abs=1e-4)
    assert picks[0].text == plain_sentence(*why["triple"])
    assert (picks[0].kind, picks[0].parents[0].kind) == ("triple", "edge")


def test_options_bring_in_their_own_neighbourhood() -> None:
    question = asked("Where is a pizzeria?", "chicago", "oven")
    with_options = triples(a2q(replace(SETTINGS, kept_nodes=6, top_n=9)).select([question])[0])
    assert ("chicago", "PartOf", "city") in with_options
    without = triples(a2q(replace(SETTINGS, kept_nodes=6, top_n=9, options=False)).select([question])[0])
    assert ("chicago", "PartOf", "city") not in without


def test_disconnected_parts_are_bridged_unless_switched_off() -> None:
    question = asked("chicago pizzeria")
    narrow = replace(SETTINGS, kept_nodes=1, theta=1, top_n=9)
    bridged = a2q(narrow).select([question])[0]
    assert {"street", "city"} <= {end for head, _, tail in triples(bridged) for end in (head, tail)}
    assert any(json.loads(p.why or "")["stage"] == "bridge" for p in bridged)
    alone = a2q(replace(narrow, paths=False)).select([question])[0]
    assert not any(json.loads(p.why or "")["stage"] == "bridge" for p in alone)
    assert len(alone) < len(bridged)


def test_a_missing_phrase_takes_its_nearest_nodes_and_a_definition_takes_its_place() -> None:
    question = asked("Where is a trattoria?")
    anywhere = a2q(replace(SETTINGS, theta=1, least_similarity=-1.0)).select([question])[0]
    assert anywhere, "without a bound a phrase starts somewhere, however far"
    assert a2q(replace(SETTINGS, theta=1)).select([question])[0] == []
    told = a2q(replace(SETTINGS, theta=1, starts_per_phrase=1), definitions={"Trattoria": "pizzeria"}).select(
        [question]
    )[0]
    assert {"pizzeria"} <= {end for head, _, tail in triples(told) for end in (head, tail)}


def test_a_grade_is_of_its_triple_alone() -> None:
    """As printed, not a scale over the question's triples: the same whatever stands beside it."""
    scores = np.array([-9.0, 0.0, 2.0], np.float32)
    assert grade_scores(scores) == pytest.approx((1 + 9 * expit(scores)).tolist())
    assert grade_scores(scores[1:2]) == pytest.approx([5.5]) and grade_scores(scores[:0]) == []
    picks = a2q().select([asked("Where is a pizzeria?")])[0]
    shared = SharedWordReranker().score([("Where is a pizzeria?", pick.text) for pick in picks])
    grades = [json.loads(pick.why or "")["grade"] for pick in picks]
    assert grades == pytest.approx((1 + 9 * expit(shared)).tolist(), abs=1e-6)


def test_baselines_equal_slow_versions() -> None:
    sentences = [GRAPH.sentence(edge) for edge in range(len(EDGES))]
    vectors = ENCODER.encode_sentences(sentences)
    question = asked("pizzeria in the food court")
    cosine = vectors @ ENCODER.encode_sentences([question.text])[0]
    nearest = NearestTriples(GRAPH, ENCODER, TripleSettings(top_n=3)).select([question])[0]
    assert [p.text for p in nearest] == [sentences[i] for i in np.argsort(-cosine, kind="stable")[:3]]
    linked = NearestTriples(GRAPH, ENCODER, TripleSettings(linked=True)).select([question, asked("?")])
    touching = [i for i, (h, _, t) in enumerate(EDGES) if {h, t} & {0, 1}]
    assert [p.text for p in linked[0]] == [sentences[i] for i in sorted(touching, key=lambda i: -cosine[i])]
    assert linked[1] == []


def test_the_entities_that_a_dataset_states_are_looked_around() -> None:
    stated = replace(asked("Where is it?"), topic_entities=("oven", "unknown"))
    found = NearestTriples(GRAPH, ENCODER, TripleSettings(topics=True)).select([stated, asked("Where is the oven?")])
    assert {("oven", "UsedFor", "hot oven fire"), ("oven", "AtLocation", "pizzeria")} == set(triples(found[0]))
    assert found[1] == [], "nothing is stated of the second"


def test_a_taxonomy_out_of_the_graph_itself() -> None:
    said = define_nodes(GRAPH, "AtLocation", most=1)
    assert set(said) == {"pizzeria", "food court", "oven"} and said["oven"] == GRAPH.sentence(
        next(
            e
            for e in range(GRAPH.arrays.n_edges)
            if (GRAPH.arrays.heads[e], GRAPH.arrays.tails[e]) == (NAMES.index("oven"), 0)
        )
    )
    assert define_nodes(GRAPH, "IsA") == {}
