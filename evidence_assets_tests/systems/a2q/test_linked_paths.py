"""Paths of one and two triples from a question's entities: against a slow version, with options, with none linked."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from evidence_assets.experiment.evidence.selection import Question, SelectedEvidence
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.systems.a2q.linked_paths import LinkedPaths, PathSettings
from evidence_assets_tests.graphs.small_graph import graph_of, with_vectors
from evidence_assets_tests.systems.small_models import WordEncoder

NAMES = ["web", "spider", "spinning", "attic", "larva", "silk", "dust"]
RELATIONS = ["made by", "skilled at", "found at", "eats"]
EDGES = [(0, 0, 1), (1, 1, 2), (0, 2, 3), (4, 3, 5), (3, 2, 6), (1, 3, 4), (0, 0, 1)]
ENCODER = WordEncoder()


def graph_over(edges: list[tuple[int, int, int]]) -> KnowledgeGraph:
    return with_vectors(graph_of(NAMES, RELATIONS, edges), ENCODER)


GRAPH = graph_over(EDGES)
VECTORS = ENCODER.encode_sentences([GRAPH.sentence(edge) for edge in range(len(EDGES))])


def paths(settings: PathSettings | None = None, graph: KnowledgeGraph = GRAPH) -> LinkedPaths:
    return LinkedPaths(graph, ENCODER, settings)


def asked(text: str, *options: str) -> Question:
    return Question("q", "own", "mcqa" if options else "kgqa", text, options)


def triples(picks: list[SelectedEvidence]) -> list[tuple[str, str, str]]:
    return [tuple(json.loads(pick.why or "")["triple"]) for pick in picks]


def slow(question: str, starts: set[int], settings: PathSettings) -> list[tuple[str, str, str]]:
    """All paths from the starts, each weighed by the formula, their triples in order."""
    query = ENCODER.encode_sentences([question])[0]
    weighed = []
    for first in range(len(EDGES)):
        ends = {EDGES[first][0], EDGES[first][2]}
        if not ends & starts:
            continue
        weighed.append((float(VECTORS[first] @ query), (first,)))
        for second in range(len(EDGES)):
            others = {EDGES[second][0], EDGES[second][2]}
            if (ends - starts) & others and not ends & starts & others:
                joint = VECTORS[first] + VECTORS[second]
                weighed.append((float(joint @ query / np.linalg.norm(joint)) - settings.penalty, (first, second)))
    told: dict[str, int] = {}
    for _, edges in sorted(weighed, key=lambda item: (-round(item[0], 9), item[1])):
        for edge in edges:
            told.setdefault(GRAPH.sentence(edge), edge)
    return [GRAPH.triple(edge) for edge in told.values()][: settings.top_n]


@pytest.mark.parametrize("penalty", [0.0, 0.5])
def test_equals_a_slow_version(penalty: float) -> None:
    settings = PathSettings(penalty=penalty)
    for question, starts in (
        ("What is the maker of a web skilled at?", {0}),
        ("Is a spider found at the attic?", {1, 3}),
    ):
        assert triples(paths(settings).select([asked(question)])[0]) == slow(question, starts, settings)


def test_the_two_triples_of_a_path_come_together_and_say_so() -> None:
    picks = paths().select([asked("What is the one who made the web skilled at?")])[0]
    found = triples(picks)
    assert {("web", "made by", "spider"), ("spider", "skilled at", "spinning")} <= set(found[:3])
    why = json.loads(next(p for p in picks if triples([p])[0][2] == "spinning").why or "")
    assert (why["stage"], why["step"]) == ("path", 2)
    assert why["path"] == ["web made by spider", "spider skilled at spinning"]
    assert len({p.text for p in picks}) == len(picks), "parallel edges are told once"
    assert [p.score for p in picks] == sorted((p.score for p in picks), reverse=True)


def test_paths_that_join_question_and_option_come_first() -> None:
    question = asked("Where would you see a web?", "attic", "silk")
    settings = PathSettings(bridge=1.0, top_n=3)
    assert triples(paths(settings).select([question])[0])[0] == ("web", "found at", "attic")
    for pick in paths(settings).select([question])[0]:
        assert json.loads(pick.why or "")["toward"] in ("attic", "silk")
    without = paths(replace(settings, bridge=0.0)).select([question])[0]
    assert without[0].score <= 1.0 < paths(settings).select([question])[0][0].score
