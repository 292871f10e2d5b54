"""Vectors of a graph's nodes: from its edges, or from the words of their names, or joined, for Attention2Query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from evidence_assets.graphs.arrays import GraphArrays
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.array_files import ArrayWriter, open_array
from evidence_assets.lake.atomic import temporary_folder
from evidence_assets.models.protocols import FloatArray
from evidence_assets.models.vectors import unit_rows
from evidence_assets.systems.a2q.selection import link_text
from evidence_assets.systems.a2q.word_vectors import TextVectors, WordVectors

NODES_PER_BLOCK = 1 << 15


def factorize_graph(graph: GraphArrays, dimensions: int = 128) -> FloatArray:
    """Unit vectors of the nodes: truncated SVD of the pointwise mutual information of neighbours.

    With ``A`` the adjacency including the nodes themselves, ``M = max(0, log(A · ΣA / (d dᵀ)))`` and ``M ≈ U S Vᵀ``, a
    node's vector is its row of ``U √S``. Numberbatch starts from the same factorization of ConceptNet. If the graph
    has few nodes, the last dimensions are 0.
    """
    from scipy import sparse  # imports slowly, and only this embedding needs it

    n = graph.n_nodes
    vectors = np.zeros((n, dimensions), dtype=np.float32)
    if not n:
        return vectors
    nodes = np.arange(n)
    rows = np.concatenate([graph.heads, graph.tails, nodes])
    columns = np.concatenate([graph.tails, graph.heads, nodes])
    matrix = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(n, n)).tocoo()
    degrees = np.asarray(matrix.sum(axis=1)).ravel()
    matrix.data = np.maximum(np.log(matrix.data * degrees.sum() / (degrees[matrix.row] * degrees[matrix.col])), 0)
    if n <= 10 * dimensions:  # exact, and the sparse solver needs fewer dimensions than nodes
        left, values, _ = np.linalg.svd(matrix.toarray())
    else:  # the first guess is given, so that each run has the same vectors
        guess = np.random.default_rng(0).normal(size=n)
        left, values, _ = sparse.linalg.svds(matrix.tocsr(), k=dimensions, v0=guess)
    rank = min(dimensions, n)
    vectors[:, :rank] = unit_rows(left[:, :rank] * np.sqrt(values[:rank]))
    return vectors


class NodeMeanVectors:
    """Encodes a text as the mean vector of the graph's nodes that it names; without any, as a zero vector."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._graph = graph
        self.nodes = factorize_graph(graph.arrays)
        self.model_id = "graph-ppmi-svd"
        self.revision = graph.version

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        rows = np.zeros((len(texts), self.nodes.shape[1]), dtype=np.float32)
        for row, text in enumerate(texts):
            nodes = link_text(text, self._graph.linker)
            if len(nodes):
                rows[row] = self.nodes[nodes].mean(axis=0)
        return unit_rows(rows)


@dataclass(frozen=True)
class NodeVectors:
    """Vectors of one kind: an encoder of texts, and those of a graph's nodes from one number to another."""

    encoder: TextVectors
    read: Callable[[int, int], FloatArray]

    @classmethod
    def of_passages(cls, encoder: TextVectors, graph: KnowledgeGraph) -> NodeVectors:
        """Vectors of each node's first passage by the encoder of the graph."""
        return cls(encoder, lambda start, end: graph.node_passage_vectors[start:end])

    @classmethod
    def of_names(cls, words: WordVectors, graph: KnowledgeGraph) -> NodeVectors:
        """Vectors of the words of each node's name."""
        words.look_up(graph.names)
        return cls(words, lambda start, end: words.encode_sentences(graph.names[start:end].to_list()))

    @classmethod
    def of_edges(cls, graph: KnowledgeGraph) -> NodeVectors:
        """Vectors of the graph itself."""
        vectors = NodeMeanVectors(graph)
        return cls(vectors, lambda start, end: vectors.nodes[start:end])


def map_nodes(kinds: Sequence[NodeVectors], n_nodes: int, folder: Path) -> FloatArray:
    """Vectors of the nodes in a memory-mapped file without a name, joined if there are two kinds. Memory: one block."""
    blocks = _read_blocks(kinds, n_nodes)
    first = next(blocks)
    with temporary_folder(folder) as temporary:
        path = temporary / "vectors.npy"
        with ArrayWriter(path, np.float32, first.shape[1:]) as file:
            for block in chain([first], blocks):
                file.add(block)
        return open_array(path)


def _read_blocks(kinds: Sequence[NodeVectors], n_nodes: int) -> Iterator[FloatArray]:
    """Blocks of rows in order; a graph without nodes has one empty block."""
    for start in range(0, max(n_nodes, 1), NODES_PER_BLOCK):
        parts = [kind.read(start, start + NODES_PER_BLOCK) for kind in kinds]
        yield join_vectors(*parts) if len(parts) > 1 else parts[0]


class JoinedVectors:
    """Encodes a text with two kinds of vectors, side by side: its cosine is the mean of theirs."""

    def __init__(self, first: TextVectors, second: TextVectors) -> None:
        self._both = (first, second)
        self.model_id = f"{first.model_id}+{second.model_id}"
        self.revision = f"{first.revision}+{second.revision}"

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        return join_vectors(*(vectors.encode_sentences(texts) for vectors in self._both))


def join_vectors(first: FloatArray, second: FloatArray) -> FloatArray:
    """Unit vectors of both side by side; where one is zero, the other alone counts."""
    return unit_rows(np.concatenate([unit_rows(first), unit_rows(second)], axis=1)).astype(np.float32)
