"""Node scorers from convolutions of torch-geometric: against a dense formula, relation types, reproducibility."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from evidence_assets.graphs.attention import scorer
from evidence_assets.graphs.attention.scorer import AttentionSettings, FeatureGraph, train_and_score, tuned_settings
from evidence_assets.lake.errors import BadInput

WIDTH = 8


def example(question_id: str, nodes: int, edges: int) -> tuple[FeatureGraph, np.ndarray]:
    rng = np.random.default_rng(len(question_id) + nodes)
    heads, tails = rng.integers(nodes, size=(2, edges)) if edges else np.empty((2, 0), np.int64)
    features = rng.normal(size=(nodes, WIDTH)).astype(np.float32)
    graph = FeatureGraph(question_id, features, heads, tails, rng.integers(5, 8, size=edges))
    return graph, rng.normal(size=WIDTH).astype(np.float32)


def settings_of(name: str, steps: int = 2) -> AttentionSettings:
    settings = tuned_settings(name)
    assert settings is not None
    return replace(settings, steps=steps)


def score(graph: FeatureGraph, query: np.ndarray, settings: AttentionSettings) -> np.ndarray:
    [results] = train_and_score([graph], [query], settings)
    return results.scores


@pytest.mark.parametrize("name", ["GCNConv", "GATv2Conv", "RGATConv", "SAGEConv"])
def test_scores_are_reproducible_and_do_not_depend_on_other_questions(name: str) -> None:
    problems = [example(f"q{n}", n, edges) for n, edges in ((12, 20), (3, 0), (1, 0), (7, 9))]
    graphs, queries = [graph for graph, _ in problems], [query for _, query in problems]
    joint_scores = train_and_score(graphs, queries, settings_of(name))
    for graph, query, results in zip(graphs, queries, joint_scores, strict=True):
        torch.manual_seed(len(graph.features))
        np.testing.assert_array_equal(results.scores, score(graph, query, settings_of(name)))


def test_an_untrained_gcn_is_the_normalised_adjacency() -> None:
    """h + ELU(D^−1/2 (A + I) D^−1/2 h Wᵀ + b) per layer, with the drawn weights in the order of the parameters."""
    graph, query = example("dense", 9, 14)
    is_edge = graph.heads != graph.tails  # the layer adds self-loops where there are none
    graph = replace(graph, heads=graph.heads[is_edge], tails=graph.tails[is_edge], relations=None)
    adjacency = torch.eye(9)
    for head, tail in zip(graph.heads.tolist(), graph.tails.tolist(), strict=True):
        adjacency[head, tail] += 1
        adjacency[tail, head] += 1
    scale = adjacency.sum(1).rsqrt()
    numbers = scorer.initial_weights("dense", WIDTH, 2 * (WIDTH + WIDTH**2) + WIDTH**2)
    *layers, projection = numbers.split([WIDTH, WIDTH**2] * 2 + [WIDTH**2])
    hidden = torch.from_numpy(graph.features)
    for bias, weight in zip(layers[::2], layers[1::2], strict=True):
        mixed = (scale[:, None] * adjacency * scale) @ hidden @ weight.view(WIDTH, WIDTH).T + bias
        hidden = hidden + torch.nn.functional.elu(mixed)
    expected = torch.cosine_similarity(hidden @ projection.view(WIDTH, WIDTH).T, torch.from_numpy(query)[None], dim=1)
    np.testing.assert_allclose(score(graph, query, settings_of("GCNConv", steps=0)), expected, atol=1e-5)


def test_relation_types_matter_to_convolutions_that_have_them() -> None:
    graph, query = example("typed", 9, 14)
    assert graph.relations is not None
    untyped = replace(graph, relations=np.zeros_like(graph.relations))
    assert not np.allclose(score(graph, query, settings_of("RGATConv")), score(untyped, query, settings_of("RGATConv")))
    np.testing.assert_array_equal(
        score(graph, query, settings_of("GATv2Conv")), score(untyped, query, settings_of("GATv2Conv"))
    )


@pytest.mark.parametrize(
    ("name", "message"), [("GATv3Conv", "did you mean 'GATv2Conv'"), ("PNAConv", "needs more than input and output")]
)
def test_a_convolution_that_cannot_be_used_is_rejected(name: str, message: str) -> None:
    graph, query = example("bad", 3, 2)
    with pytest.raises(BadInput, match=message):
        score(graph, query, settings_of(name))
