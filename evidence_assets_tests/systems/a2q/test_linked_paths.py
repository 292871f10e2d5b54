"""Paths of one and two triples from a question's nodes, compared with brute force, and with options."""

import json
from dataclasses import replace

import numpy as np
import pytest

from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.reasoning.questions import Question
from evidence_assets.systems.a2q.linked_paths import LinkedPaths, PathSettings
from evidence_assets_tests.graphs.small_graph import graph_of, with_vectors
from evidence_assets_tests.systems.a2q.test_system import evidence_triples
from evidence_assets_tests.systems.small_models import WordEncoder

NAMES = ["web", "spider", "spinning", "attic", "larva", "silk", "dust"]
RELATIONS = ["made by", "skilled at", "found at", "eats"]
EDGES = [(0, 0, 1), (1, 1, 2), (0, 2, 3), (4, 3, 5), (3, 2, 6), (1, 3, 4), (0, 0, 1)]
ENCODER = WordEncoder()


def graph_over(edges: list[tuple[int, int, int]]) -> KnowledgeGraph:
    return with_vectors(graph_of(NAMES, RELATIONS, edges), ENCODER)


GRAPH = graph_over(EDGES)
VECTORS = ENCODER.encode_sentences([GRAPH.sentence(edge) for edge in range(len(EDGES))])


def make_selector(settings: PathSettings | None = None, graph: KnowledgeGraph = GRAPH) -> LinkedPaths:
    return LinkedPaths(graph, ENCODER, settings)


def make_question(text: str, *options: str) -> Question:
    return Question("q", "own", "mcqa" if options else "kgqa", text, options)


def rank_by_brute_force(question: str, starts: set[int], settings: PathSettings) -> list[tuple[str, str, str]]:
    """Triples of all paths from the start nodes, ranked by the formula."""
    query = ENCODER.encode_sentences([question])[0]
    scored_paths = []
    for first in range(len(EDGES)):
        ends = {EDGES[first][0], EDGES[first][2]}
        if not ends & starts:
            continue
        scored_paths.append((float(VECTORS[first] @ query), (first,)))
        for second in range(len(EDGES)):
            second_ends = {EDGES[second][0], EDGES[second][2]}
            if (ends - starts) & second_ends and not ends & starts & second_ends:
                path_vector = VECTORS[first] + VECTORS[second]
                scored_paths.append(
                    (float(path_vector @ query / np.linalg.norm(path_vector)) - settings.penalty, (first, second))
                )
    distinct_edges: dict[str, int] = {}
    for _, edges in sorted(scored_paths, key=lambda item: (-round(item[0], 9), item[1])):
        for edge in edges:
            distinct_edges.setdefault(GRAPH.sentence(edge), edge)
    return [GRAPH.triple(edge) for edge in distinct_edges.values()][: settings.top_n]


@pytest.mark.parametrize("penalty", [0.0, 0.5])
def test_paths_equal_brute_force(penalty: float) -> None:
    settings = PathSettings(penalty=penalty)
    for question, starts in (
        ("What is the maker of a web skilled at?", {0}),
        ("Is a spider found at the attic?", {1, 3}),
    ):
        evidence = next(iter(make_selector(settings).select([make_question(question)])))
        assert evidence_triples(evidence) == rank_by_brute_force(question, starts, settings)


def test_the_two_triples_of_a_path_are_adjacent_and_name_their_path() -> None:
    evidence = next(iter(make_selector().select([make_question("What is the one who made the web skilled at?")])))
    triples = evidence_triples(evidence)
    assert {("web", "made by", "spider"), ("spider", "skilled at", "spinning")} <= set(triples[:3])
    details = json.loads(next(item for item in evidence if evidence_triples([item])[0][2] == "spinning").why or "")
    assert (details["stage"], details["step"]) == ("path", 2)
    assert details["path"] == ["web made by spider", "spider skilled at spinning"]
    assert len({item.text for item in evidence}) == len(evidence), "parallel edges give one piece of evidence"
    assert [item.score for item in evidence] == sorted((item.score for item in evidence), reverse=True)


def test_paths_between_question_and_option_rank_first() -> None:
    question = make_question("Where would you see a web?", "attic", "silk")
    settings = PathSettings(bridge=1.0, top_n=3)
    bridged = next(iter(make_selector(settings).select([question])))
    assert evidence_triples(bridged)[0] == ("web", "found at", "attic")
    for item in bridged:
        assert json.loads(item.why or "")["toward"] in ("attic", "silk")
    without_bridge = next(iter(make_selector(replace(settings, bridge=0.0)).select([question])))
    assert without_bridge[0].score <= 1.0 < bridged[0].score
