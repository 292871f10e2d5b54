"""Vectors from a graph's edges against a dense decomposition; two kinds of vectors joined."""

import numpy as np
import pytest

from evidence_assets.systems.a2q.graph_vectors import JoinedVectors, NodeMeanVectors, factorize_graph, join_vectors
from evidence_assets_tests.systems.a2q.test_system import EDGES, ENCODER, GRAPH, NAMES, graph_over


@pytest.mark.parametrize(("n", "dimensions"), [(8, 16), (60, 4)], ids=["dense", "sparse"])
def test_node_vectors_equal_a_dense_decomposition(n: int, dimensions: int) -> None:
    generator = np.random.default_rng(n)
    edges = EDGES if n == len(NAMES) else [(int(h), 0, int(t)) for h, t in generator.integers(0, n, (150, 2))]
    counts = np.eye(n)
    for head, _, tail in edges:
        counts[head, tail] += 1
        counts[tail, head] += 1
    degrees = counts.sum(axis=1)
    with np.errstate(divide="ignore"):
        information = np.maximum(np.log(counts * degrees.sum() / np.outer(degrees, degrees)), 0)
    left, values, _ = np.linalg.svd(information)
    expected = (left * np.sqrt(values))[:, :dimensions]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    arrays = graph_over(edges, NAMES if n == len(NAMES) else [f"node {i}" for i in range(n)]).arrays
    vectors = factorize_graph(arrays, dimensions)
    assert vectors.shape == (n, dimensions) and not vectors[:, n:].any()
    assert vectors @ vectors.T == pytest.approx(expected @ expected.T, abs=1e-5)
    assert vectors == pytest.approx(factorize_graph(arrays, dimensions), abs=1e-6)


def test_a_text_has_the_vectors_of_the_nodes_that_it_names() -> None:
    vectors = NodeMeanVectors(GRAPH)
    one, both, none = vectors.encode_sentences(["the pizzeria", "pizzeria in the city", "unheard of"])
    assert one == pytest.approx(vectors.nodes[0])
    mean = vectors.nodes[0] + vectors.nodes[NAMES.index("city")]
    assert both == pytest.approx(mean / np.linalg.norm(mean))
    assert not none.any()


def test_a_cosine_of_joined_vectors_is_the_mean_of_both() -> None:
    joined = JoinedVectors(ENCODER, NodeMeanVectors(GRAPH))
    texts = ["pizzeria", "food court", "unheard of"]
    first, second = ENCODER.encode_sentences(texts), NodeMeanVectors(GRAPH).encode_sentences(texts)
    vectors = joined.encode_sentences(texts)
    assert vectors[0] @ vectors[1] == pytest.approx((first[0] @ first[1] + second[0] @ second[1]) / 2, abs=1e-6)
    assert vectors[2] == pytest.approx(np.concatenate([first[2], np.zeros_like(second[2])]), abs=1e-6)
    assert vectors == pytest.approx(join_vectors(first, second), abs=1e-6)
    assert joined.model_id == "words+graph-ppmi-svd" and joined.revision == f"1+{GRAPH.version}"
