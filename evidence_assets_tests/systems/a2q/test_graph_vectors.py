"""Vectors from a graph's edges against a dense decomposition; two kinds of vectors joined."""

from pathlib import Path

import numpy as np
import pytest

from evidence_assets.systems.a2q import graph_vectors, word_vectors
from evidence_assets.systems.a2q.graph_vectors import (
    JoinedVectors,
    NodeMeanVectors,
    NodeVectors,
    factorize_graph,
    join_vectors,
    map_nodes,
)
from evidence_assets.systems.a2q.word_vectors import WordVectors
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


@pytest.mark.parametrize("n_nodes", [0, 1, 3, len(NAMES)])
def test_vectors_of_nodes_are_joined_by_blocks_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_nodes: int
) -> None:
    monkeypatch.setattr(graph_vectors, "NODES_PER_BLOCK", 3)
    vectors = NodeMeanVectors(GRAPH).nodes[:n_nodes]
    kinds = [NodeVectors(ENCODER, lambda a, b: vectors[a:b]), NodeVectors(ENCODER, lambda a, b: 2 * vectors[a:b, :5])]
    nodes = map_nodes(kinds, n_nodes, tmp_path)
    assert nodes == pytest.approx(join_vectors(vectors, vectors[:, :5]))
    assert isinstance(nodes.base, np.memmap) and not nodes.flags.writeable
    assert map_nodes(kinds[:1], n_nodes, tmp_path) == pytest.approx(vectors) and not [*tmp_path.iterdir()]


def test_a_file_of_word_vectors_is_read_once_for_all_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "words.txt"
    file.write_text("city 1 0\npizzeria 0.6 0.8\nitaly 0 1\n", encoding="utf-8")
    read_words, n_reads = word_vectors._read_text_vectors, []
    monkeypatch.setattr(word_vectors, "_read_text_vectors", lambda *args: n_reads.append(1) or read_words(*args))
    monkeypatch.setattr(graph_vectors, "NODES_PER_BLOCK", 2)
    nodes = map_nodes([NodeVectors.of_names(WordVectors(file), GRAPH)], len(NAMES), tmp_path)
    assert nodes == pytest.approx(WordVectors(file).encode_sentences(NAMES)) and len(n_reads) == 2
    assert nodes[NAMES.index("city")].tolist() == [1, 0]
