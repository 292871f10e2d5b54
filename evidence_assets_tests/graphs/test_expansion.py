"""Attention against torch, expansion by hand, bridges against minimum spanning trees of networkx."""

import itertools
import tracemalloc
from dataclasses import replace

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.graphs import expansion
from evidence_assets.graphs.arrays import GraphArrays
from evidence_assets.graphs.expansion import ExpansionSettings


def graph_of(n: int, edges: list[tuple[int, int]]) -> GraphArrays:
    heads, tails = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    return GraphArrays.from_edges(n, heads, np.zeros(len(heads), dtype=np.int64), tails)


def torch_attention(queries: np.ndarray, keys: np.ndarray, heads: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean weights and values of torch's multi-head attention with identity projections."""
    d = queries.shape[1]
    layer = torch.nn.MultiheadAttention(d, heads, bias=False, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.eye(d, dtype=torch.float64).repeat(3, 1))
        layer.out_proj.weight.copy_(torch.eye(d, dtype=torch.float64))
        unit = [torch.from_numpy(x / np.linalg.norm(x, axis=1, keepdims=True))[None] for x in (queries, keys)]
        values, weights = layer(unit[0], unit[1], unit[1])
    return weights[0].numpy(), values[0].numpy()


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_attention_equals_torch_with_identity_projections(heads: int) -> None:
    generator = np.random.default_rng(heads)
    queries, keys = generator.normal(size=(3, 8)), generator.normal(size=(5, 8))
    assert expansion.attention_weights(queries, keys, heads) == pytest.approx(torch_attention(queries, keys, heads)[0])
    assert expansion.self_attention(keys, heads) == pytest.approx(torch_attention(keys, keys, heads)[1])


# 0 - 1 - 3 - 5, 0 - 2 - 4; vectors favour 1, then 3, and the far 5 most of all.
LINE = graph_of(6, [(0, 1), (2, 0), (1, 3), (2, 4), (3, 5)])
PHRASE = np.array([1.0, 0.0])
ANGLES = np.arccos([1.0, 0.8, 0.5, 0.7, 0.9, 1.0])
VECTORS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)


def test_expansion_follows_the_best_score_and_pays_for_distance() -> None:
    results = expansion.expand(LINE, 0, PHRASE, VECTORS, ExpansionSettings(penalty=0.1, theta=3, heads=1))
    assert results == pytest.approx({0: 1.0, 1: 0.7, 2: 0.4, 3: 0.5, 5: 0.7})
    assert expansion.expand(LINE, 0, PHRASE, VECTORS, ExpansionSettings(theta=1, heads=1)).keys() == {0, 1, 2}


def test_theta_counts_layers_or_expanded_nodes() -> None:
    """With λ = 0.3 the nearer node 2 comes before 3: three nodes are expanded, none three steps away is seen yet."""
    by = {
        counts: expansion.expand(
            LINE, 0, PHRASE, VECTORS, ExpansionSettings(penalty=0.3, theta=3, theta_counts=counts, heads=1)
        )
        for counts in ("nodes", "layers")
    }
    assert by["nodes"].keys() == {0, 1, 2, 3, 4}
    assert by["layers"].keys() == {0, 1, 2, 3, 4, 5}


def test_softmax_scores_are_attention_over_the_step() -> None:
    results = expansion.expand(
        LINE, 0, PHRASE, VECTORS, ExpansionSettings(penalty=0.1, theta=1, heads=1, score="softmax")
    )
    weights = np.exp(np.array([0.8, 0.5]) / np.sqrt(2))
    assert [*results.values()][1:] == pytest.approx(weights / weights.sum() - 0.1)


class RecordedRows:
    """Vectors that record how many rows are read at a time."""

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors = vectors
        self.counts: list[int] = []

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        self.counts.append(len(rows))
        return np.asarray(self.vectors[rows])


@pytest.mark.parametrize("score", ["cosine", "softmax"])
def test_a_hub_is_read_in_blocks_and_keeps_its_best_neighbours(score: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = graph_of(31, [(0, i) for i in range(1, 31)])
    vectors = RecordedRows(np.random.default_rng(0).normal(size=(31, 4)))
    chosen = ExpansionSettings(theta=1, heads=2, score=score)  # type: ignore[arg-type]
    whole = expansion.expand(hub, 0, np.ones(4), vectors, chosen)  # type: ignore[arg-type]
    monkeypatch.setattr(expansion, "NODES_PER_BLOCK", 7)
    vectors.counts.clear()
    in_blocks = expansion.expand(hub, 0, np.ones(4), vectors, chosen)  # type: ignore[arg-type]
    assert in_blocks == pytest.approx(whole) and vectors.counts == [7, 7, 7, 7, 2]
    capped = expansion.expand(hub, 0, np.ones(4), vectors, replace(chosen, max_neighbours=5))  # type: ignore[arg-type]
    assert capped.keys() == {0, *sorted(range(1, 31), key=lambda node: -whole[node])[:5]}


def test_question_and_options_attend_jointly() -> None:
    nodes = np.arange(6)
    alone = expansion.node_attention(PHRASE[None], nodes, VECTORS, heads=1)
    assert alone == pytest.approx(torch_attention(PHRASE[None], VECTORS, 1)[0][0])
    option = np.array([2, 4])
    values = torch_attention(VECTORS[option], VECTORS[option], 1)[1]
    expected = (alone + torch_attention(values, VECTORS, 1)[0].mean(axis=0)) / 2
    joint = expansion.node_attention(PHRASE[None], nodes, VECTORS, options=[option, nodes[:0]], heads=1)
    assert joint == pytest.approx(expected)
    assert joint.sum() == pytest.approx(1.0)


@st.composite
def graphs_and_nodes(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]], list[int]]:
    n = draw(st.integers(2, 14))
    node = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=2 * n))
    return n, edges, draw(st.lists(node, min_size=2, max_size=5, unique=True))


@given(graphs_and_nodes(), st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_bridges_are_a_minimum_spanning_tree_of_the_parts(
    world: tuple[int, list[tuple[int, int]], list[int]], max_length: int
) -> None:
    n, edges, nodes = world
    graph = graph_of(n, edges)
    full = networkx.Graph()
    full.add_nodes_from(range(n))
    full.add_edges_from(edges)
    parts = list(networkx.connected_components(full.subgraph(nodes)))
    closure = networkx.Graph()
    closure.add_nodes_from(range(len(parts)))
    for i, j in itertools.combinations(range(len(parts)), 2):
        lengths = [
            networkx.shortest_path_length(full, u, v)
            for u in parts[i]
            for v in parts[j]
            if networkx.has_path(full, u, v)
        ]
        if lengths and min(lengths) <= max_length:
            closure.add_edge(i, j, weight=min(lengths))
    expected = sorted(d["weight"] for _, _, d in networkx.minimum_spanning_edges(closure))
    results = expansion.find_bridges(graph, np.array(nodes), max_length=max_length)
    assert sorted(map(len, results)) == expected
    for bridge in results:
        path = networkx.Graph([(int(graph.heads[edge]), int(graph.tails[edge])) for edge in bridge])
        ends = [node for node, degree in path.degree() if degree == 1]
        assert len(ends) == 2 and set(ends) <= set(nodes) and networkx.is_connected(path)


def test_a_search_is_limited_by_length_and_nodes() -> None:
    chain = graph_of(9, [(i, i + 1) for i in range(8)])
    assert expansion.find_bridges(chain, np.array([0, 8]), max_length=8, max_visited=4) == []
    assert expansion.find_bridges(chain, np.array([0, 8]), max_length=7) == []
    assert expansion.find_bridges(chain, np.array([0, 8]), max_length=8) == [list(range(8))]


def test_bridges_do_not_depend_on_the_blocks_of_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    graph = graph_of(60, [(int(a), int(b)) for a, b in generator.integers(0, 60, (90, 2))])
    nodes = generator.choice(60, 8, replace=False)
    results = []
    for size in (1, 3, 8192):
        monkeypatch.setattr(expansion, "SLOTS_PER_BLOCK", size)
        results.append([expansion.find_bridges(graph, nodes, max_visited=limit) for limit in (12, 20_000)])
    assert results[0] == results[1] == results[2] and results[0][1]


def test_a_hub_beyond_the_limit_of_bridges_is_not_read_whole() -> None:
    """Nodes 1 and 2 are at a hub of 300,000 nodes; its adjacency had 40 MB as lists."""
    leaves = np.arange(1, 300_001)
    hub = GraphArrays.from_edges(300_001, np.zeros_like(leaves), np.zeros_like(leaves), leaves)
    expansion.find_bridges(LINE, np.array([0, 5]))  # imports
    tracemalloc.start()
    assert expansion.find_bridges(hub, np.array([299_998, 299_999]), max_visited=1000) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
