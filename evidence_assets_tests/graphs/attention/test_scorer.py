"""The published layer and its training against plain loops and torch-geometric; the relevance rule; bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch_geometric.nn import TransformerConv

from evidence_assets.graphs.attention import scorer as ga
from evidence_assets.graphs.attention.neighbours import Pattern, attend, average
from evidence_assets.graphs.attention.scorer import AttentionSettings, FeatureGraph, NodeScores, train_batch

WIDTH = 8


def train(graph: FeatureGraph, query: np.ndarray, settings: AttentionSettings | None = None) -> NodeScores:
    return train_batch([graph], [query], settings)[0]


def problem(name: str, nodes: int, edges: int, width: int = WIDTH) -> tuple[FeatureGraph, np.ndarray]:
    rng = np.random.default_rng([ord(letter) for letter in name])
    heads, tails = rng.integers(0, max(nodes, 1), (2, edges if nodes else 0))
    features = rng.standard_normal((nodes, width)).astype(np.float32)
    return FeatureGraph(name, features, heads, tails), rng.standard_normal(width).astype(np.float32)


def neighbour_sets(graph: FeatureGraph) -> list[list[int]]:
    around = [{node} for node in range(len(graph.features))]
    for head, tail in zip(graph.heads.tolist(), graph.tails.tolist(), strict=True):
        around[head].add(tail)
        around[tail].add(head)
    return [sorted(nodes) for nodes in around]


def layer_by_hand(
    graph: FeatureGraph, weight: np.ndarray, heads: int, scale: float
) -> tuple[np.ndarray, dict[tuple[int, int], float]]:
    """Formulas 6.1 to 6.4, one sum at a time, in float64."""
    x = graph.features.astype(np.float64)
    width = x.shape[1]
    part = width // heads
    q, k, v = (x @ weight.astype(np.float64)[:, i * width : (i + 1) * width] for i in range(3))
    z = np.zeros_like(x)
    mean: dict[tuple[int, int], float] = {}
    for i, around in enumerate(neighbour_sets(graph)):
        for head in range(heads):
            cut = slice(head * part, (head + 1) * part)
            scores = [float(q[i, cut] @ k[j, cut]) * scale for j in around]
            total = sum(math.exp(score) for score in scores)
            for j, score in zip(around, scores, strict=True):
                alpha = math.exp(score) / total
                z[i, cut] += alpha * v[j, cut]
                mean[i, j] = mean.get((i, j), 0.0) + alpha / heads
    return z, mean


def pattern_of(graph: FeatureGraph, heads: int) -> Pattern:
    return Pattern.of(len(graph.features), (graph.heads, graph.tails), heads, torch.device("cpu"))


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize(("nodes", "edges"), [(7, 12), (1, 1)])
def test_the_layer_is_the_published_formula(heads: int, nodes: int, edges: int) -> None:
    graph, _ = problem("a", nodes, edges)
    weight = np.random.default_rng(0).standard_normal((WIDTH, 3 * WIDTH)).astype(np.float32)
    pattern = pattern_of(graph, heads)
    z, alpha = attend(torch.from_numpy(graph.features @ weight), pattern, 1 / math.sqrt(WIDTH))
    expected, mean = layer_by_hand(graph, weight, heads, 1 / math.sqrt(WIDTH))
    np.testing.assert_allclose(z.numpy(), expected, atol=1e-5)
    weights = pattern.of_edges(alpha, graph.heads, graph.tails).tolist()
    ends = list(zip(graph.heads.tolist(), graph.tails.tolist(), strict=True))
    assert [there for there, _ in weights] == pytest.approx([mean[head, tail] for head, tail in ends], abs=1e-5)
    assert [back for _, back in weights] == pytest.approx([mean[tail, head] for head, tail in ends], abs=1e-5)


def test_the_gradient_is_that_of_a_dense_layer() -> None:
    graph, _ = problem("g", 6, 9)
    around = torch.zeros(6, 6, dtype=torch.bool)
    for i, nodes in enumerate(neighbour_sets(graph)):
        around[i, nodes] = True
    mixed = torch.randn(6, 3 * WIDTH, generator=torch.Generator().manual_seed(1))
    ours, dense = mixed.clone().requires_grad_(), mixed.clone().requires_grad_()
    goal = torch.randn(6, WIDTH, generator=torch.Generator().manual_seed(2))
    z, _ = attend(ours, pattern_of(graph, 2), 0.7)
    (z * goal).sum().backward()
    q, k, v = dense.view(6, 3, 2, WIDTH // 2).permute(1, 2, 0, 3)
    scores = (0.7 * q @ k.mT).masked_fill(~around, -torch.inf).softmax(-1)
    (((scores @ v).transpose(0, 1).reshape(6, WIDTH)) * goal).sum().backward()
    assert dense.grad is not None and ours.grad is not None
    torch.testing.assert_close(ours.grad, dense.grad, atol=1e-5, rtol=1e-4)


def test_the_gradient_of_the_mean_is_that_of_a_dense_mean() -> None:
    graph, _ = problem("g", 6, 9)
    around = torch.zeros(6, 6)
    for i, nodes in enumerate(neighbour_sets(graph)):
        around[i, nodes] = 1 / len(nodes)
    mixed, goal = torch.randn(2, 6, WIDTH, generator=torch.Generator().manual_seed(1))
    ours, dense = mixed.clone().requires_grad_(), mixed.clone().requires_grad_()
    (average(ours, pattern_of(graph, 2))[0] * goal).sum().backward()
    ((around @ dense) * goal).sum().backward()
    assert dense.grad is not None and ours.grad is not None
    torch.testing.assert_close(ours.grad, dense.grad, atol=1e-5, rtol=1e-4)


def reference_scores(graph: FeatureGraph, query: np.ndarray, heads: int, steps: int) -> np.ndarray:
    """The whole training with torch-geometric; TransformerConv divides by √(d / K), hence queries from h / √K."""
    pairs = [(j, i) for i, around in enumerate(neighbour_sets(graph)) for j in around]
    edges = torch.tensor(pairs).T
    values = ga.first_values(graph.question_id, WIDTH, 7)
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
    found = train(graph, query, AttentionSettings(heads=heads, steps=50))
    np.testing.assert_allclose(found.scores, reference_scores(graph, query, heads, 50), atol=1e-4)
    untrained = train(graph, query, AttentionSettings(heads=heads, steps=0))
    assert found.scores.mean() > untrained.scores.mean() + 0.05, "training raises the cosine"


@pytest.mark.parametrize("variant", ["gat", "walk"])
def test_scores_do_not_hang_on_which_others_are_asked(variant: ga.Variant) -> None:
    settings = AttentionSettings(variant=variant, steps=5)
    problems = [problem(f"q{i}", n, edges, 16) for i, (n, edges) in enumerate([(1, 0), (30, 60), (9, 4), (0, 0)])]
    graphs, queries = [graph for graph, _ in problems], [query for _, query in problems]
    for graph, query, found in zip(graphs, queries, train_batch(graphs, queries, settings), strict=True):
        np.testing.assert_array_equal(found.scores, train(graph, query, settings).scores)


def test_the_question_id_alone_decides_the_first_values() -> None:
    graph, query = problem("same", 10, 15)
    twin = FeatureGraph("other", graph.features, graph.heads, graph.tails)
    first, again, other = train(graph, query), train(graph, query), train(twin, query)
    np.testing.assert_array_equal(first.scores, again.scores)
    assert np.abs(first.scores - other.scores).max() > 1e-3


def test_direction_and_repetition_of_edges_make_no_difference() -> None:
    graph, query = problem("edges", 8, 6)
    turned = FeatureGraph(
        "edges",
        graph.features,
        np.concatenate([graph.tails, graph.heads, [0]]),
        np.concatenate([graph.heads, graph.heads, [0]]),
    )
    plain = FeatureGraph("edges", graph.features, graph.heads, graph.tails)
    np.testing.assert_allclose(train(turned, query).scores, train(plain, query).scores, atol=1e-6)


def test_gcn_weighs_all_neighbours_alike() -> None:
    graph = FeatureGraph("mean", np.eye(4, dtype=np.float32), np.array([0, 0]), np.array([1, 2]))
    found = train(graph, np.ones(4, np.float32), AttentionSettings(variant="gcn", steps=1, heads=1))
    np.testing.assert_allclose(found.attention, [[1 / 3, 1 / 2], [1 / 3, 1 / 2]], atol=1e-6)


def test_cosine_is_the_cosine() -> None:
    graph, query = problem("cosine", 5, 4)
    found = train(graph, query, AttentionSettings(variant="cosine"))
    norms = np.linalg.norm(graph.features, axis=1) * np.linalg.norm(query)
    np.testing.assert_allclose(found.scores, graph.features @ query / norms, atol=1e-6)
    assert found.attention.shape == (0, 2)


def test_relevance_is_a_threshold_unless_the_scores_have_collapsed() -> None:
    settings = AttentionSettings(threshold=0.5, least_spread=0.05, top=2)
    nodes, spread, rule = ga.relevant_nodes(np.array([0.9, 0.5, 0.1, 0.6], np.float32), settings)
    assert (nodes.tolist(), rule) == ([0, 3], "threshold") and spread == pytest.approx(np.std([0.9, 0.5, 0.1, 0.6]))
    nodes, _, rule = ga.relevant_nodes(np.array([0.90, 0.92, 0.91, 0.92], np.float32), settings)
    assert (nodes.tolist(), rule) == ([1, 3], "top")


def test_small_and_odd_graphs() -> None:
    one, query = problem("one", 1, 0)
    found = train(one, query)
    assert found.rule == "top" and found.relevant.tolist() == [0] and found.scores.shape == (1,)
    empty, query = problem("none", 0, 0)
    found = train(empty, query)
    assert found.scores.shape == (0,) and found.relevant.shape == (0,) and found.attention.shape == (0, 2)
    assert train_batch([], []) == []
    nameless = FeatureGraph("zero", np.zeros((3, WIDTH), np.float32), np.array([0]), np.array([1]))
    assert np.isfinite(train(nameless, query).scores).all()


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ValueError, match="8 columns cannot be shared by 3 heads"):
        train(*problem("bad", 4, 3), AttentionSettings(heads=3))


def test_golden_scores() -> None:
    """Fails when the method gives other scores: then the version of UGAT must change with these numbers."""
    graph, query = problem("golden", 5, 6)
    np.testing.assert_allclose(train(graph, query).scores, GOLDEN, atol=1e-4)


GOLDEN = [0.644738, 0.732927, 0.837926, 0.901460, 0.552005]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("variant", ["gat", "gcn", "contrastive", "walk"])
def test_cuda_gives_the_scores_of_the_cpu(variant: ga.Variant) -> None:
    problems = [problem(f"cuda{i}", 20 + i, 30) for i in range(6)]
    graphs, queries = [graph for graph, _ in problems], [query for _, query in problems]
    settings = AttentionSettings(variant=variant)
    for ours, theirs in zip(
        train_batch(graphs, queries, settings, "cuda"), train_batch(graphs, queries, settings), strict=True
    ):
        np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-3)
