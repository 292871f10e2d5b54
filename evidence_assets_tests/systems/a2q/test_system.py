"""Attention2Query on a small graph: phrases, ablations, bridges, and questions without linked nodes."""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from evidence_assets.experiment.evidence.selection import QUESTIONS_PER_GROUP, SelectedEvidence
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph, plain_sentence
from evidence_assets.reasoning.questions import Question
from evidence_assets.systems.a2q import selection
from evidence_assets.systems.a2q.selection import (
    A2Q,
    A2QSettings,
    NearestTriples,
    TripleSettings,
    attend_to_grades,
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
    evidence = next(make_selector().select([make_question("Where is a pizzeria while shopping?")]))
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
    with_options = evidence_triples(next(make_selector(replace(SETTINGS, kept_nodes=6, top_n=9)).select([question])))
    assert ("chicago", "PartOf", "city") in with_options
    without_options = evidence_triples(
        next(make_selector(replace(SETTINGS, kept_nodes=6, top_n=9, options=False)).select([question]))
    )
    assert ("chicago", "PartOf", "city") not in without_options


def test_disconnected_parts_are_bridged_unless_switched_off() -> None:
    question = make_question("chicago pizzeria")
    narrow = replace(SETTINGS, kept_nodes=1, theta=1, top_n=9)
    bridged = next(make_selector(narrow).select([question]))
    assert {"street", "city"} <= {end for head, _, tail in evidence_triples(bridged) for end in (head, tail)}
    assert any(json.loads(item.why or "")["stage"] == "bridge" for item in bridged)
    without_bridges = next(make_selector(replace(narrow, paths=False)).select([question]))
    assert not any(json.loads(item.why or "")["stage"] == "bridge" for item in without_bridges)
    assert len(without_bridges) < len(bridged)


def test_a_missing_phrase_takes_its_nearest_nodes_and_a_definition_takes_its_place() -> None:
    question = make_question("Where is a trattoria?")
    unbounded = next(make_selector(replace(SETTINGS, theta=1, least_similarity=-1.0)).select([question]))
    assert unbounded, "without a bound a phrase starts at its nearest nodes"
    assert next(make_selector(replace(SETTINGS, theta=1)).select([question])) == []
    defined = {"Trattoria": "pizzeria"}
    narrow = replace(SETTINGS, theta=1, starts_per_phrase=1)
    with_definition = next(make_selector(narrow, definitions=defined).select([question]))
    assert {"pizzeria"} <= {end for head, _, tail in evidence_triples(with_definition) for end in (head, tail)}


def test_a_grade_depends_on_its_triple_only() -> None:
    """As published: grades are not scaled over the triples of the question."""
    scores = np.array([-9.0, 0.0, 2.0], np.float32)
    assert grade_scores(scores) == pytest.approx((1 + 9 * expit(scores)).tolist())
    assert grade_scores(scores[1:2]) == pytest.approx([5.5]) and grade_scores(scores[:0]) == []
    evidence = next(make_selector().select([make_question("Where is a pizzeria?")]))
    scores_of_evidence = SharedWordReranker().score([("Where is a pizzeria?", item.text) for item in evidence])
    grades = [json.loads(item.why or "")["grade"] for item in evidence]
    assert grades == pytest.approx((1 + 9 * expit(scores_of_evidence)).tolist(), abs=1e-6)


def test_baselines_equal_brute_force() -> None:
    sentences = [GRAPH.sentence(edge) for edge in range(len(EDGES))]
    vectors = ENCODER.encode_sentences(sentences)
    question = make_question("pizzeria in the food court")
    cosine = vectors @ ENCODER.encode_sentences([question.text])[0]
    nearest = next(iter(NearestTriples(GRAPH, ENCODER, TripleSettings(top_n=3)).select([question])))
    assert [p.text for p in nearest] == [sentences[i] for i in np.argsort(-cosine, kind="stable")[:3]]
    linked = list(NearestTriples(GRAPH, ENCODER, TripleSettings(linked=True)).select([question, make_question("?")]))
    touching = [i for i, (h, _, t) in enumerate(EDGES) if {h, t} & {0, 1}]
    assert [p.text for p in linked[0]] == [sentences[i] for i in sorted(touching, key=lambda i: -cosine[i])]
    assert linked[1] == []


@pytest.mark.parametrize("top_n", [1, 2, 4, 99])
def test_few_candidates_give_the_same_triples(top_n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parallel edges have the same text: when they are all candidates, all edges are searched."""
    graph = with_vectors(graph_of(NAMES, RELATIONS, [(0, 0, 1)] * 5 + EDGES))
    question = make_question("pizzeria in the food court")
    (expected,) = NearestTriples(graph, ENCODER, TripleSettings(top_n=top_n)).select([question])
    assert len(expected) == min(top_n, len(EDGES))
    monkeypatch.setattr(selection, "CANDIDATES_PER_TRIPLE", 1)
    assert list(NearestTriples(graph, ENCODER, TripleSettings(top_n=top_n)).select([question])) == [expected]


def test_topic_entities_of_the_dataset_are_start_nodes() -> None:
    with_topics = replace(make_question("Where is it?"), topic_entities=("oven", "unknown"))
    selector = NearestTriples(GRAPH, ENCODER, TripleSettings(topics=True))
    first, second = selector.select([with_topics, make_question("Where is the oven?")])
    assert {("oven", "UsedFor", "hot oven fire"), ("oven", "AtLocation", "pizzeria")} == set(evidence_triples(first))
    assert second == [], "the second question has no topic entities"


def test_a_taxonomy_from_the_graph_itself() -> None:
    definitions = define_nodes(GRAPH, "AtLocation")
    assert set(definitions) == {"pizzeria", "food court", "oven"}
    arrays = GRAPH.arrays
    ends = [(int(arrays.heads[edge]), int(arrays.tails[edge])) for edge in range(arrays.n_edges)]
    assert definitions["oven"] == GRAPH.sentence(ends.index((NAMES.index("oven"), 0)))
    assert define_nodes(GRAPH, "IsA") == {}


@given(st.lists(st.floats(1, 10), min_size=1, max_size=12))
def test_the_published_attention_over_grades_keeps_their_order(grades: list[float]) -> None:
    """Equals torch's attention of one dimension; a weighted average of grades by relevance reorders nothing."""
    shares = torch.tensor(grades, dtype=torch.float64)[None, :, None] / 10
    expected = 10 * torch.nn.functional.scaled_dot_product_attention(shares, shares, shares)[0, :, 0]
    scores = attend_to_grades(np.array(grades))
    assert scores == pytest.approx(expected.numpy())
    order = np.argsort(grades, kind="stable")
    assert (np.diff(scores[order]) >= -1e-12).all()


def test_the_final_score_is_the_product_or_the_attention_over_the_grades() -> None:
    question = make_question("Where is a pizzeria while shopping in the city?")
    wide = replace(SETTINGS, kept_nodes=8, top_n=9)
    for final_score in ("product", "attention"):
        evidence = next(make_selector(replace(wide, final_score=final_score)).select([question]))
        details = [json.loads(item.why or "") for item in evidence]
        grades, attention = (np.array([d[name] for d in details]) for name in ("grade", "attention"))
        expected = grades * attention if final_score == "product" else attend_to_grades(grades)
        assert [item.score for item in evidence] == pytest.approx(expected.tolist(), abs=1e-4)


class CountingReranker(SharedWordReranker):
    """Counts the calls, and rejects every triple with an oven."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        self.calls.append(len(pairs))
        return super().score(pairs) - np.array([10.0 * ("oven" in text) for _, text in pairs], dtype=np.float32)


def test_the_classifier_prunes_after_each_pass_or_ranks_after_the_last() -> None:
    question = make_question("Where is a pizzeria?", "chicago")
    wide = replace(SETTINGS, kept_nodes=8, top_n=9, paths=False, pass_triples=2)
    last, each = CountingReranker(), CountingReranker()
    every_triple = evidence_triples(next(make_selector(wide, reranker=last).select([question])))
    pruned = evidence_triples(next(make_selector(replace(wide, passes="each"), reranker=each).select([question])))
    assert len(last.calls) == 1
    assert len(each.calls) == 4, "the question's phrase, its subgraph, the option's phrase, and the ranking"
    assert any("oven" in triple for triple in every_triple)
    assert pruned and not any("oven" in triple for triple in pruned)
    without = replace(wide, classifier="none")
    assert evidence_triples(next(make_selector(without, reranker=None).select([question]))) == evidence_triples(
        next(make_selector(replace(without, passes="each"), reranker=None).select([question]))
    )


def test_bridges_connect_the_final_triples_and_follow_them() -> None:
    question = make_question("Does the oven of a pizzeria heat the city of chicago?")
    final = replace(SETTINGS, kept_nodes=1, theta=1, top_n=2, bridges="triples")
    unconnected = next(make_selector(replace(final, paths=False)).select([question]))
    assert {frozenset(t[::2]) for t in evidence_triples(unconnected)} == {
        frozenset(("oven", "pizzeria")),
        frozenset(("chicago", "city")),
    }
    evidence = next(make_selector(final).select([question]))
    assert evidence[:2] == unconnected
    bridge = evidence[2:]
    assert {end for triple in evidence_triples(bridge) for end in triple[::2]} == {"pizzeria", "street", "city"}
    assert all(json.loads(item.why or "")["stage"] == "bridge" and item.score == 0 for item in bridge)


def test_rows_of_the_first_questions_come_before_the_others_are_ranked() -> None:
    questions = [make_question(f"Where is pizzeria {i}?") for i in range(2 * QUESTIONS_PER_GROUP)]
    reranker = CountingReranker()
    rows = make_selector(reranker=reranker).select(questions)
    first = next(rows)
    assert len(reranker.calls) == 1
    assert len([first, *rows]) == len(questions) and len(reranker.calls) == 2
