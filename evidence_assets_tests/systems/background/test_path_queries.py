"""Queries of one or two relations, compared with an enumeration of all paths."""

from __future__ import annotations

import json
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.experiment.evidence.selection import Question, SelectedEvidence
from evidence_assets.systems.background.path_queries import PathQueries, PathQuerySettings, Step
from evidence_assets_tests.graphs.small_graph import graph_of
from evidence_assets_tests.systems.small_models import WordEncoder

NAMES = ["web", "spider", "spinning", "attic", "dust"]
RELATIONS = ["CreatedBy", "is_skilled_at", "AtLocation"]
Edge = tuple[int, int, int]
edges = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=12)


def make_selector(triples: list[Edge], settings: PathQuerySettings | None = None) -> PathQueries:
    return PathQueries(graph_of(NAMES, RELATIONS, triples), WordEncoder(), settings or PathQuerySettings())


def enumerate_paths(triples: list[Edge], start: int) -> dict[tuple[Step, ...], set[tuple[int, ...]]]:
    """The edges of all paths of one or two triples that do not return to their start, by relations and directions."""
    steps = [(n, (r, True), h, t) for n, (h, r, t) in enumerate(triples)]
    steps += [(n, (r, False), t, h) for n, (h, r, t) in enumerate(triples) if h != t]
    paths = defaultdict(set)
    for first, first_step, origin, middle in steps:
        if origin == start != middle:
            paths[(first_step,)].add((first,))
            for second, second_step, source, end in steps:
                if source == middle and end != start:
                    paths[first_step, second_step].add((first, second))
    return dict(paths)


def select(selector: PathQueries, text: str) -> list[SelectedEvidence]:
    return next(iter(selector.select([Question("q", "own", "kgqa", text)])))


@given(edges)
def test_queries_and_their_paths_equal_an_enumeration(triples: list[Edge]) -> None:
    selector, used = make_selector(triples), sorted({RELATIONS[relation] for _, relation, _ in triples})
    queries = list(selector.find_queries("Who made the web?"))
    coded = [(head, used.index(RELATIONS[relation]), tail) for head, relation, tail in triples]
    assert {query.steps: set(selector.find_paths(query)) for query in queries} == enumerate_paths(coded, 0)
    assert len({query.steps for query in queries}) == len(queries)


def test_the_text_of_a_query_names_its_start_and_its_relations_only() -> None:
    queries = make_selector([(0, 0, 1), (1, 1, 2)]).find_queries("Who made the web?")
    assert [query.text for query in queries] == [
        "web created by what",
        "web created by something, and something is skilled at what",
    ]


def test_the_triples_of_all_paths_of_the_nearest_query_are_selected() -> None:
    triples = [(0, 0, 1), (1, 1, 2), (0, 2, 3), (1, 2, 4), (1, 1, 4)]
    evidence = select(make_selector(triples), "The web was created by something that is skilled at what?")
    details = [json.loads(item.why or "") for item in evidence]
    assert [each["triple"] for each in details] == [
        ["web", "CreatedBy", "spider"],
        ["spider", "is_skilled_at", "spinning"],
        ["spider", "is_skilled_at", "dust"],
    ]
    assert details[2]["path"] == ["web created by spider", "spider is skilled at dust"]
    assert details[2]["query"] == "web created by something, and something is skilled at what"


def test_a_relation_with_many_ends_is_not_followed_by_a_second_one() -> None:
    triples = [(0, 0, 1), (0, 0, 2), (1, 1, 3)]
    for max_ends, length in ((2, 2), (1, 1)):
        queries = make_selector(triples, PathQuerySettings(max_ends)).find_queries("Who made the web?")
        assert max(len(query.steps) for query in queries) == length


def test_a_question_without_an_entity_has_no_evidence() -> None:
    assert select(make_selector([(0, 0, 1)]), "Why?") == []
