"""The published layer and its training against plain loops and torch-geometric; the relevance rule; bad input."""

import math

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.nn import TransformerConv

from evidence_assets.graphs.attention import scorer
from evidence_assets.graphs.attention.neighbours import NeighbourPattern, neighbour_attention
from evidence_assets.graphs.attention.scorer import (
    AttentionSettings,
    FeatureGraph,
    NodeScores,
    random_walk_scores,
    train_and_score,
)

WIDTH = 8


def train(graph: FeatureGraph, query: np.ndarray, settings: AttentionSettings = AttentionSettings()) -> NodeScores:
    return train_and_score([graph], [query], settings)[0]


def problem(name: str, nodes: int, edges: int, width: int = WIDTH) -> tuple[FeatureGraph, np.ndarray]:
    rng = np.random.default_rng([ord(letter) for letter in name])
    heads, tails = rng.integers(0, max(nodes, 1), (2, edges if nodes else 0))
    features = rng.standard_normal((nodes, width)).astype(np.float32)
    query = rng.standard_normal(width).astype(np.float32)
    return FeatureGraph(name, features, heads, tails), query


def neighbour_sets(graph: FeatureGraph) -> list[list[int]]:
    around = [{node} for node in range(len(graph.features))]
    for head, tail in zip(graph.heads.tolist(), graph.tails.tolist(), strict=True):
        around[head].add(tail)
        around[tail].add(head)
    return [sorted(nodes) for nodes in around]


def pattern_of(graph: FeatureGraph, heads: int) -> NeighbourPattern:
    return NeighbourPattern.of(len(graph.features), (graph.heads, graph.tails), heads, torch.device("cpu"))


def test_the_layer_and_its_gradient_are_those_of_a_dense_layer() -> None:
    graph, _ = problem("g", 6, 9)
    around = torch.zeros(6, 6, dtype=torch.bool)
    for i, nodes in enumerate(neighbour_sets(graph)):
        around[i, nodes] = True
    mixed = torch.randn(6, 3 * WIDTH, generator=torch.Generator().manual_seed(1))
    own_result, dense = mixed.clone().requires_grad_(), mixed.clone().requires_grad_()
    goal = torch.randn(6, WIDTH, generator=torch.Generator().manual_seed(2))
    z, alpha = neighbour_attention(own_result, pattern_of(graph, 2), 0.7)
    (z * goal).sum().backward()
    q, k, v = dense.view(6, 3, 2, WIDTH // 2).permute(1, 2, 0, 3)
    scores = (0.7 * q @ k.mT).masked_fill(~around, -torch.inf).softmax(-1)
    expected = (scores @ v).transpose(0, 1).reshape(6, WIDTH)
    (expected * goal).sum().backward()
    torch.testing.assert_close(z, expected, atol=1e-5, rtol=1e-4)
    weights = pattern_of(graph, 2).of_edges(alpha, graph.heads, graph.tails)
    mean = scores.mean(0).detach().numpy()
    np.testing.assert_allclose(weights[:, 0], mean[graph.heads, graph.tails], atol=1e-5)
    np.testing.assert_allclose(weights[:, 1], mean[graph.tails, graph.heads], atol=1e-5)
    assert dense.grad is not None and own_result.grad is not None
    torch.testing.assert_close(own_result.grad, dense.grad, atol=1e-5, rtol=1e-4)


def reference_scores(graph: FeatureGraph, query: np.ndarray, heads: int, steps: int) -> np.ndarray:
    """The whole training with torch-geometric; TransformerConv divides by √(d / K), hence queries from h / √K."""
    pairs = [(j, i) for i, around in enumerate(neighbour_sets(graph)) for j in around]
    edges = torch.tensor(pairs).T
    values = scorer.initial_weights(graph.question_id, WIDTH, 7 * WIDTH**2).view(7, WIDTH, WIDTH)
    layers = []
    for layer in range(2):
        conv = TransformerConv(WIDTH, WIDTH // heads, heads=heads, bias=False, root_weight=False)
        for part, linear in enumerate((conv.lin_query, conv.lin_key, conv.lin_value)):
            linear.bias = None
            linear.weight = torch.nn.Parameter(values[3 * layer + part].T.clone())
        layers.append(conv)
    projection = torch.nn.Parameter(values[6].clone())
    optimiser = torch.optim.Adam([projection, *(p for conv in layers for p in conv.parameters())], lr=1e-3)

    def forward() -> torch.Tensor:
        hidden = torch.from_numpy(graph.features)
        for conv in layers:
            hidden = hidden + torch.nn.functional.elu(conv((hidden, hidden / math.sqrt(heads)), edges))
        return torch.cosine_similarity(hidden @ projection.T, torch.from_numpy(query)[None], dim=1)

    for _ in range(steps):
        optimiser.zero_grad()
        (1 - forward()).mean().backward()
        optimiser.step()
    return forward().detach().numpy()


@pytest.mark.parametrize("heads", [1, 4])
def test_training_is_that_of_torch_geometric(heads: int) -> None:
    graph, query = problem("reference", 12, 20)
    results = train(graph, query, AttentionSettings(heads=heads, steps=50))
    np.testing.assert_allclose(results.scores, reference_scores(graph, query, heads, 50), atol=1e-4)
    untrained = train(graph, query, AttentionSettings(heads=heads, steps=0))
    assert results.scores.mean() > untrained.scores.mean() + 0.05, "training raises the cosine"


def test_gcn_weighs_all_neighbours_alike() -> None:
    graph = FeatureGraph("mean", np.eye(4, dtype=np.float32), np.array([0, 0]), np.array([1, 2]))
    results = train(graph, np.ones(4, np.float32), AttentionSettings(variant="gcn", steps=1, heads=1))
    np.testing.assert_allclose(results.attention, [[1 / 3, 1 / 2], [1 / 3, 1 / 2]], atol=1e-6)


def test_relevance_is_a_threshold_unless_the_scores_have_collapsed() -> None:
    settings = AttentionSettings(threshold=0.5, least_spread=0.05, top=2)
    nodes, spread, rule = scorer.relevant_nodes(np.array([0.9, 0.5, 0.1, 0.6], np.float32), settings)
    assert (nodes.tolist(), rule) == ([0, 3], "threshold") and spread == pytest.approx(np.std([0.9, 0.5, 0.1, 0.6]))
    nodes, _, rule = scorer.relevant_nodes(np.array([0.90, 0.92, 0.91, 0.92], np.float32), settings)
    assert (nodes.tolist(), rule) == ([1, 3], "top")


def test_small_and_odd_graphs() -> None:
    one, query = problem("one", 1, 0)
    results = train(one, query)
    assert results.rule == "top" and results.relevant.tolist() == [0] and results.scores.shape == (1,)
    empty, query = problem("none", 0, 0)
    results = train(empty, query)
    assert results.scores.shape == (0,) and results.relevant.shape == (0,) and results.attention.shape == (0, 2)
    assert train_and_score([], [], AttentionSettings()) == []
    nameless = FeatureGraph("zero", np.zeros((3, WIDTH), np.float32), np.array([0]), np.array([1]))
    assert np.isfinite(train(nameless, query).scores).all()


Case = tuple[np.ndarray, np.ndarray, np.ndarray]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    n = draw(st.integers(1, 10))
    node = st.integers(0, n - 1)
    ends = draw(st.lists(st.tuples(node, node), max_size=20))
    scores = draw(st.lists(st.floats(-1, 1), min_size=n, max_size=n))
    pairs = np.array(ends, dtype=np.int64).reshape(-1, 2)
    return np.array(scores), pairs[:, 0], pairs[:, 1]


@given(cases(), st.sampled_from([0.1, 0.2, 1.0]), st.sampled_from([0.0, 0.5, 0.85]))
@settings(max_examples=30)
def test_the_walk_is_the_personalized_page_rank_of_networkx(case: Case, temperature: float, follow: float) -> None:
    scores, heads, tails = case
    graph = networkx.MultiGraph()
    graph.add_nodes_from(range(len(scores)))
    graph.add_edges_from((a, b) for a, b in zip(heads.tolist(), tails.tolist(), strict=True) if a != b)
    restart = dict(enumerate(np.exp(scores / temperature)))
    ranks = networkx.pagerank(graph, follow, restart, max_iter=1000, tol=1e-12)
    expected = np.array([ranks[node] for node in range(len(scores))])
    visits = random_walk_scores(*case, temperature, follow)
    np.testing.assert_allclose(visits, expected / expected.max(), atol=1e-6)
