"""The graph in compressed rows: layout, storage, neighbourhoods, bad input."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.graphs.arrays import OVER_BUDGET, GraphArrays
from evidence_assets.graphs.paths import shortest_paths
from evidence_assets.lake.errors import StaleInput


def graph_of(n_nodes: int, edges: list[tuple[int, int, int]]) -> GraphArrays:
    rows = np.array(edges, dtype=np.int64).reshape(-1, 3)
    return GraphArrays.from_edges(n_nodes, rows[:, 0], rows[:, 1], rows[:, 2])


@st.composite
def edge_lists(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, int]]]:
    n = draw(st.integers(1, 12))
    node = st.integers(0, n - 1)
    return n, draw(st.lists(st.tuples(node, st.integers(0, 3), node), max_size=30))


@given(edge_lists(), st.data())
@settings(max_examples=60)
def test_a_cap_keeps_the_best_new_neighbours_and_records_the_rest(
    case: tuple[int, list[tuple[int, int, int]]], data: st.DataObject
) -> None:
    n, edges = case
    graph = graph_of(n, edges)
    seeds = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=3))
    cap = data.draw(st.integers(1, 6))
    score = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=n, max_size=n)))
    part = graph.neighbourhood(seeds, 2, cap=cap, score=score.take)
    visited = set(seeds)
    frontier = visited
    dropped = []
    for _ in range(2):
        new = set()
        for node in sorted(frontier):
            fresh = sorted(set(graph.neighbours_of(node).tolist()) - visited, key=lambda v: (-score[v], v))
            new |= set(fresh[:cap])
            dropped += [(node, v) for v in fresh[cap:]]
        visited, frontier = visited | new, new
    assert set(part.nodes.tolist()) == visited
    assert sorted(map(tuple, part.dropped.tolist())) == sorted(dropped)


def test_the_cap_on_all_nodes_keeps_near_and_good_ones() -> None:
    graph = graph_of(6, [(0, 0, 1), (0, 0, 2), (1, 0, 3), (2, 0, 4), (4, 0, 5)])
    part = graph.neighbourhood([0], 3, score=np.array([0, 0, 0, 0.1, 0.9, 1.0]).take, max_nodes=4)
    assert part.nodes.tolist() == [0, 1, 2, 4]
    assert part.dropped.tolist() == [[OVER_BUDGET, 3]]


def test_a_broken_folder_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(StaleInput, match=r"heads\.npy is missing"):
        GraphArrays.open(tmp_path / "g")
    graph_of(2, [(0, 0, 1)]).save(tmp_path / "g")
    tails = tmp_path / "g" / "tails.npy"
    full = tails.read_bytes()
    tails.write_bytes(full[: len(full) // 2])
    with pytest.raises(StaleInput, match=r"tails\.npy is truncated or damaged .*materialize"):
        GraphArrays.open(tmp_path / "g")


@given(edge_lists(), st.data())
def test_the_nearer_part_is_the_smaller_neighbourhood(
    case: tuple[int, list[tuple[int, int, int]]], data: st.DataObject
) -> None:
    n, edges = case
    graph, hops = graph_of(n, edges), data.draw(st.integers(0, 3))
    seeds = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=2))
    cap, node_limit = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 12))
    wide, near = (graph.neighbourhood(seeds, steps, cap, max_nodes=node_limit) for steps in (4, hops))
    for field in ("nodes", "hop", "edges", "heads", "tails"):
        assert np.array_equal(getattr(wide.limit_hops(hops), field), getattr(near, field)), field


def test_the_best_of_very_many_paths_are_found_without_listing_them() -> None:
    # 12 layers of 3 nodes: 3^12 shortest paths.
    edges = [(0, 0, 1 + i) for i in range(3)]
    edges += [(1 + 3 * layer + i, 0, 4 + 3 * layer + j) for layer in range(11) for i in range(3) for j in range(3)]
    edges += [(34 + i, 0, 37) for i in range(3)]
    relevance = np.tile([0.0, 1.0, 0.5], 13)[:38]
    paths = shortest_paths(graph_of(38, edges), [0], [37], 13, 3, relevance)
    assert len(paths) == 3
    inner = [sum(relevance[v] for v in path.nodes[1:-1]) for path in paths]
    assert inner == [12.0, 11.5, 11.5]
