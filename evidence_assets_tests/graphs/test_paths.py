"""Shortest paths against networkx on random graphs, and what is defined for odd ones."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.graphs.graph import Graph
from evidence_assets.graphs.paths import shortest_paths


def graph_of(n_nodes: int, edges: list[tuple[int, int, int]]) -> Graph:
    rows = np.array(edges, dtype=np.int64).reshape(-1, 3)
    return Graph.from_edges(n_nodes, rows[:, 0], rows[:, 1], rows[:, 2])


@st.composite
def searches(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, int]], list[int], list[int], int, list[float]]:
    n = draw(st.integers(2, 14))
    node = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(node, st.integers(0, 3), node), max_size=40))
    ends = st.lists(node, max_size=4)
    # Quarters add up without rounding, so that ranks can be compared exactly.
    relevance = draw(st.lists(st.integers(0, 4).map(lambda x: x / 4), min_size=n, max_size=n))
    return n, edges, draw(ends), draw(ends), draw(st.integers(1, 6)), relevance


@given(searches())
@settings(max_examples=300, deadline=None)
def test_all_shortest_paths_are_those_of_networkx(
    case: tuple[int, list[tuple[int, int, int]], list[int], list[int], int, list[float]],
) -> None:
    n, edges, sources, targets, max_length, relevance = case
    graph = graph_of(n, edges)
    reference = nx.Graph()
    reference.add_nodes_from(range(n))
    reference.add_edges_from((h, t) for h, _, t in edges)
    expected: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for source in set(sources):
        for target in set(targets) - {source}:
            if nx.has_path(reference, source, target):
                paths = [tuple(path) for path in nx.all_shortest_paths(reference, source, target)]
                if len(paths[0]) - 1 <= max_length:
                    paths.sort(key=lambda path: (-sum(relevance[v] for v in path), path))
                    expected[source, target] = paths
    every = shortest_paths(graph, sources, targets, max_length, 10_000, np.array(relevance))
    found: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for path in every:
        found.setdefault((path.nodes[0], path.nodes[-1]), []).append(path.nodes)
        assert path.score == pytest.approx(np.mean([relevance[v] for v in path.nodes]))
        for a, b, step in zip(path.nodes[:-1], path.nodes[1:], path.steps, strict=True):
            assert list(step) == [(e, h == a) for e, (h, _, t) in enumerate(edges) if (h, t) in ((a, b), (b, a))], (
                "each step keeps every edge of its pair with its direction"
            )
    assert found == expected
    assert [path.score for path in every] == sorted((path.score for path in every), reverse=True)
    capped = shortest_paths(graph, sources, targets, max_length, 2, np.array(relevance))
    kept = {pair: [p.nodes for p in capped if (p.nodes[0], p.nodes[-1]) == pair] for pair in expected}
    assert kept == {pair: paths[:2] for pair, paths in expected.items()}


def test_the_best_of_very_many_paths_are_found_without_listing_them() -> None:
    # 12 layers of 3 nodes: 3^12 shortest paths.
    edges = [(0, 0, 1 + i) for i in range(3)]
    edges += [(1 + 3 * layer + i, 0, 4 + 3 * layer + j) for layer in range(11) for i in range(3) for j in range(3)]
    edges += [(34 + i, 0, 37) for i in range(3)]
    relevance = np.tile([0.0, 1.0, 0.5], 13)[:38]
    paths = shortest_paths(graph_of(38, edges), [0], [37], max_length=13, max_paths=3, relevance=relevance)
    assert len(paths) == 3
    inner = [sum(relevance[v] for v in path.nodes[1:-1]) for path in paths]
    assert inner == [12.0, 11.5, 11.5]


def test_paths_without_relevance_come_in_order_of_nodes() -> None:
    graph = graph_of(5, [(0, 0, 1), (0, 0, 2), (3, 0, 1), (2, 0, 3), (3, 1, 2)])
    paths = shortest_paths(graph, [0], [3], 4)
    assert [path.nodes for path in paths] == [(0, 1, 3), (0, 2, 3)]
    assert paths[0].steps == (((0, True),), ((2, False),))
    assert paths[1].steps == (((1, True),), ((3, True), (4, False)))


def test_what_cannot_be_joined_has_no_path() -> None:
    graph = graph_of(6, [(0, 0, 1), (1, 0, 2), (3, 0, 4), (5, 0, 5)])
    assert shortest_paths(graph, [0], [4], 5) == [], "another part of the graph"
    assert shortest_paths(graph, [0], [2], 1) == [], "too far"
    assert shortest_paths(graph, [5], [5], 3) == [], "a node and itself, although it has a self-loop"
    assert shortest_paths(graph, [], [2], 3) == []
    assert shortest_paths(graph, [0], [], 3) == []
    assert [path.nodes for path in shortest_paths(graph, [0, 0, 2], [1, 1], 3)] == [(0, 1), (2, 1)]


def test_bad_input_is_named() -> None:
    graph = graph_of(3, [(0, 0, 1)])
    with pytest.raises(ValueError, match="targets must be node ids from 0 to 2"):
        shortest_paths(graph, [0], [9])
    with pytest.raises(ValueError, match="max_length"):
        shortest_paths(graph, [0], [1], 0)
    with pytest.raises(ValueError, match="relevance has 1 entries for 3 nodes"):
        shortest_paths(graph, [0], [1], relevance=np.zeros(1))
