"""What shortest paths are in odd graphs; random ones are held against networkx in ``test_knowledge_graph``."""

from __future__ import annotations

import numpy as np

from evidence_assets.graphs.paths import shortest_paths
from evidence_assets_tests.graphs.test_arrays import graph_of


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
