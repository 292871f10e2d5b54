"""From linked nodes to ranked passages, on a small medical graph and on odd input."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import networkx
import numpy as np
import pytest

from evidence_assets.benchmarks.graphs.relations import load
from evidence_assets.experiment.evidence.question_concepts import (
    NamedNodes,
    QuestionConcepts,
    Surroundings,
)
from evidence_assets.experiment.system import read_settings
from evidence_assets.graphs.arrays import FloatArray
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.reasoning.paths import walked_edges
from evidence_assets.systems.ugat.system import GraphPaths, PathSelection, UgatSettings
from evidence_assets_tests.graphs.small_graph import graph_of, vectors_of
from evidence_assets_tests.lake_rows import stored

TRIPLES = [
    ("urethral obstruction", "may_cause", "hydronephrosis"),
    ("hydronephrosis", "is_associated_with", "increased pressure"),
    ("hydronephrosis", "may_cause", "parenchymal thinning"),
    ("parenchymal thinning", "is_a_risk_factor_of", "atrophy"),
    ("increased pressure", "is_a_risk_factor_of", "bladder hypertrophy"),
    ("bladder hypertrophy", "is_a_subtype_of", "hyperplasia"),
    ("aspirin", "may_treat", "fever"),
    ("aspirin", "may_contraindicate", "fever"),
    ("fever", "resembles_oddly", "aspirin"),
    ("cell", "see_also", "cell"),
]
WIDTH = 16


def random_vectors(graph: KnowledgeGraph) -> KnowledgeGraph:
    drawn = np.random.default_rng(0).standard_normal((len(graph), WIDTH)).astype(np.float32)
    none = vectors_of(graph, lambda texts: drawn[: len(texts)], lambda: stored("kg_passages", []))
    return replace(graph, stored_vectors=none)


NAMES = sorted({end for head, _, tail in TRIPLES for end in (head, tail)})
NODE = {name: node for node, name in enumerate(NAMES)}
RELATIONS = sorted({relation for _, relation, _ in TRIPLES})
GRAPH = random_vectors(
    graph_of(NAMES, RELATIONS, sorted((NODE[h], RELATIONS.index(r), NODE[t]) for h, r, t in TRIPLES))
)
VECTOR = np.random.default_rng(1).standard_normal(WIDTH).astype(np.float32)
SETTINGS = UgatSettings(steps=5)


def around(
    name: str,
    concepts: Iterable[int],
    options: dict[str, tuple[int, ...]],
    graph: KnowledgeGraph = GRAPH,
    max_nodes: int = 300,
) -> Surroundings:
    nodes = tuple(concepts)

    def named(nodes: tuple[int, ...]) -> tuple[NamedNodes, ...]:
        return (NamedNodes("", "exact", 1.0, nodes),) if nodes else ()

    cosine = graph.node_vectors @ VECTOR / np.linalg.norm(graph.node_vectors, axis=1)
    part = graph.arrays.neighbourhood(nodes, 4, 32, cosine.take, max_nodes)
    linked = {label: named(of) for label, of in options.items()}
    return Surroundings(QuestionConcepts(name, named(nodes), linked), VECTOR, part)


def asking(concepts: list[str], options: dict[str, list[str]], name: str = "q") -> Surroundings:
    linked = {label: tuple(NODE[node] for node in nodes) for label, nodes in options.items()}
    return around(name, (NODE[concept] for concept in concepts), linked)


def relevant_paths(
    question: Surroundings, settings: UgatSettings = SETTINGS, graph: KnowledgeGraph = GRAPH
) -> PathSelection:
    return GraphPaths(graph, {}, load(), settings).find([question])[0]


QUESTION = asking(["urethral obstruction", "hydronephrosis"], {"A": ["hyperplasia"], "C": ["atrophy"], "D": ["fever"]})


def test_paths_lead_from_the_question_to_each_option() -> None:
    found = relevant_paths(QUESTION)
    assert list(found.passages) == ["A", "C", "D"]
    texts = [passage.text for passage in found.passages["C"]]
    assert "Hydronephrosis may cause parenchymal thinning. Parenchymal thinning is a risk factor for atrophy." in texts
    whole = next(passage for passage in found.passages["C"] if len(passage.nodes) == 4)
    assert [NAMES[node] for node in whole.nodes] == [
        "urethral obstruction",
        "hydronephrosis",
        "parenchymal thinning",
        "atrophy",
    ]
    assert walked_edges(whole.locator) == [(edge, True) for edge in whole.edge_ids]
    assert found.passages["D"] == ()


def test_ranks_follow_scores_and_every_passage_comes_from_stored_edges() -> None:
    found = relevant_paths(QUESTION)
    arrays = GRAPH.arrays
    ends = dict(zip(GRAPH.edge_ids, zip(arrays.heads, arrays.tails, strict=True), strict=True))
    for label, passages in found.passages.items():
        assert [p.score for p in passages] == sorted((p.score for p in passages), reverse=True)
        assert len({passage.text for passage in passages}) == len(passages) <= SETTINGS.passages
        for passage in passages:
            assert passage.option == label
            walked = walked_edges(passage.locator)
            steps = [ends[edge] if along else ends[edge][::-1] for edge, along in walked]
            assert list(dict.fromkeys(steps)) == list(pairwise(passage.nodes))


def test_paths_are_ranked_by_the_cosine_of_what_their_edges_say_to_the_question() -> None:
    def drawn(text: str) -> FloatArray:
        return np.random.default_rng(len(text)).standard_normal(WIDTH)

    said = {passage.text: passage for passage in relevant_paths(QUESTION).passages["C"]}
    graph = replace(GRAPH, stored_vectors=replace(GRAPH.vectors, encode=lambda texts: np.array([*map(drawn, texts)])))
    found = relevant_paths(QUESTION, replace(SETTINGS, rank="words"), graph)
    assert {passage.text for passage in found.passages["C"]} == said.keys() and len(said) > 1
    for passage in found.passages["C"]:
        total = np.sum([drawn(sentence + ".") for sentence in passage.text.removesuffix(".").split(". ")], axis=0)
        cosine = total @ VECTOR / np.linalg.norm(total) / np.linalg.norm(VECTOR)
        assert passage.score == pytest.approx(cosine, abs=1e-5)
    scores = [passage.score for passage in found.passages["C"]]
    assert scores == sorted(scores, reverse=True) != [said[p.text].score for p in found.passages["C"]]


def test_layers_and_heads_are_those_of_the_variant() -> None:
    stated = read_settings(UgatSettings, {"layers": 1, "heads": 8}, where="variant x", defaults={"steps": 7}).attention
    assert stated is not None and (stated.layers, stated.heads, stated.steps) == (1, 8, 7)
    one, two = (relevant_paths(QUESTION, replace(SETTINGS, layers=layers)).scores for layers in (1, 2))
    assert one is not None and two is not None and not np.allclose(one.scores, two.scores)


def test_no_path_starts_at_another_option() -> None:
    options = {"A": ["hydronephrosis"], "B": ["parenchymal thinning"], "C": ["atrophy"]}
    question = asking(["urethral obstruction"], options)
    settings = replace(SETTINGS, scorer="none")  # every node is relevant
    starts = {p.nodes[0] for passages in relevant_paths(question, settings).passages.values() for p in passages}
    assert starts and not starts & {NODE[name] for of in options.values() for name in of}


def test_contradictions_and_unknown_relations_are_put_into_words() -> None:
    found = relevant_paths(asking(["aspirin"], {"A": ["fever"]}))
    (passage,) = found.passages["A"]
    assert passage.contradictory
    assert passage.text == "Aspirin may contraindicate fever. Aspirin may treat fever. Fever resembles oddly aspirin."
    assert walked_edges(passage.locator) == [
        (passage.edge_ids[0], True),
        (passage.edge_ids[1], True),
        (passage.edge_ids[2], False),
    ]
    assert not relevant_paths(QUESTION).passages["C"][0].contradictory


@pytest.mark.parametrize("variant", ["gat", "walk", "none"])
def test_every_variant_and_many_questions_at_once(variant: str) -> None:
    settings = replace(SETTINGS, scorer=variant)  # type: ignore[arg-type]
    questions = [
        QUESTION,
        asking(["aspirin"], {"A": ["fever"]}, "q2"),
        asking([], {"A": ["fever"]}, "q3"),
        asking(["cell"], {"A": ["atrophy"]}, "q4"),
    ]

    def told(found: PathSelection) -> list[tuple[str, str, float]]:
        return [(p.option, p.locator, round(p.score, 3)) for ps in found.passages.values() for p in ps]

    system = GraphPaths(GRAPH, {}, load(), settings)
    together = system.find(questions)
    assert [told(found) for found in together] == [told(relevant_paths(q, settings)) for q in questions]
    assert (together[0].scores is None) == (variant == "none")
    assert told(together[0])
    assert system.find([]) == []


def drawn_graph(nodes: int, edges: int, seed: int = 0) -> KnowledgeGraph:
    ends = np.random.default_rng(seed).integers(0, nodes, (edges, 2)).tolist()
    names = [f"name {node:04}" for node in range(nodes)]
    return random_vectors(graph_of(names, RELATIONS, sorted({(a, 0, b) for a, b in ends})))


@pytest.mark.parametrize("D", [1, 3])
def test_a_whole_subgraph_is_all_within_d_steps_as_networkx_finds_it(D: int) -> None:
    graph = drawn_graph(300, 500)
    question = around("q", [3, 8], {"A": (20,), "B": (299,)}, graph, max_nodes=10)
    settings = UgatSettings(steps=1, D=D, whole=True)
    found = relevant_paths(question, settings, graph)
    world = networkx.Graph(zip(graph.arrays.heads.tolist(), graph.arrays.tails.tolist(), strict=True))
    near = {n for seed in (3, 8) for n in networkx.single_source_shortest_path_length(world, seed, cutoff=D)}
    assert set(found.subgraph.nodes.tolist()) == near and not len(found.subgraph.dropped)
    edges = {(a, b) for a, b in zip(graph.arrays.heads, graph.arrays.tails, strict=True) if {a, b} <= near}
    assert len(found.subgraph.edges) == len(edges)
    assert found.scores is not None and len(found.scores.scores) == len(near)
    capped = relevant_paths(question, replace(settings, whole=False), graph)
    assert len(capped.subgraph.nodes) <= 10
    bounded = relevant_paths(question, replace(settings, most_nodes=4), graph)
    assert len(bounded.subgraph.nodes) == 4 and {3, 8} <= set(bounded.subgraph.nodes.tolist())
    assert len(bounded.subgraph.dropped), "what has no room is told"
