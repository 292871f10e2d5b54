"""Attention over neighbourhoods of a graph: the stages of Attention2Query without a trained model.

Attention is the scaled dot product with identity projections; a head is a slice of the vector.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Literal

import numpy as np

from evidence_assets.graphs.arrays import FloatArray, GraphArrays, IntArray
from evidence_assets.lake.array_files import sorted_unique
from evidence_assets.models.vectors import Array, softmax, unit_rows

NODES_PER_BLOCK = 8192
SLOTS_PER_BLOCK = 8192


def _split_heads(vectors: FloatArray, heads: int) -> Array:
    """Split unit vectors into ``heads`` slices: heads × n × d/heads; ``heads`` must divide d."""
    unit = unit_rows(np.asarray(vectors, dtype=np.float64))
    return unit.reshape(len(unit), heads, -1).transpose(1, 0, 2)


def attention_weights(queries: FloatArray, keys: FloatArray, heads: int = 4) -> Array:
    """Attention of each query to the keys: ``1/H · Σ_h softmax_j(q_h · k_hj / √d_h)`` on unit vectors."""
    return np.asarray(_attention_by_head(_split_heads(queries, heads), _split_heads(keys, heads)).mean(axis=0))


def _attention_by_head(q: Array, k: Array) -> Array:
    return softmax(_scaled_products(q, k))


def _scaled_products(q: Array, k: Array) -> Array:
    return np.asarray(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[2]))


def self_attention(vectors: FloatArray, heads: int = 4) -> Array:
    """The value matrix: each row becomes the attention-weighted mean of all rows, head by head."""
    x = _split_heads(vectors, heads)
    mixed = _attention_by_head(x, x) @ x
    return np.asarray(mixed.transpose(1, 0, 2).reshape(len(vectors), -1), dtype=np.float64)


def head_cosine(query: FloatArray, keys: FloatArray, heads: int = 4) -> Array:
    """Mean cosine between the slices over all heads: attention before the softmax, from −1 to 1."""
    q = unit_rows(_split_heads(query[None, :], heads))
    k = unit_rows(_split_heads(keys, heads))
    return np.asarray((k @ q.transpose(0, 2, 1))[:, :, 0].mean(axis=0), dtype=np.float64)


@dataclass(frozen=True)
class ExpansionSettings:
    """Parameters of the expansion: ``penalty`` is λ, ``theta`` is θ, ``theta_counts`` its unit.

    With θ ``layers``, the search ends at the first node θ steps from the start, so λ decides how much of nearer layers
    it visits. With θ ``nodes``, it expands θ nodes, including the start.

    ``softmax`` computes α as the softmax over the neighbours of one step, as in the paper; α then shrinks with the
    number of neighbours while λ·distance does not, so only the distance matters. ``cosine`` is the mean cosine of the
    heads, the scale of the published λ = 0.1 to 0.3.

    ``max_neighbours`` limits the new neighbours of one node to those with the largest α.
    """

    penalty: float = 0.2
    theta: int = 3
    theta_counts: Literal["layers", "nodes"] = "layers"
    heads: int = 4
    score: Literal["softmax", "cosine"] = "cosine"
    max_neighbours: int = 200


def expand(
    graph: GraphArrays, start: int, phrase: FloatArray, node_vectors: FloatArray, settings: ExpansionSettings
) -> dict[int, float]:
    """Score of each node of a best-first expansion around the node of a phrase, in the order of the search.

    ``node_vectors`` has one row per graph node.

    Neighbours are scored ``s = α − λ·distance``; the best node that is not expanded yet is next, until θ is reached.
    The start has score 1.
    """
    scores = {start: 1.0}
    queue = [(-1.0, 0, start)]
    n_expanded = 0
    max_distance = 0
    while queue and (max_distance if settings.theta_counts == "layers" else n_expanded) < settings.theta:
        _, distance, current = heapq.heappop(queue)
        n_expanded += 1
        new_nodes = np.array([n for n in graph.neighbours_of(current).tolist() if n not in scores], dtype=np.int64)
        if not len(new_nodes):
            continue
        alpha = _attend_to_nodes(phrase, node_vectors, new_nodes, settings)
        best = np.sort(np.argsort(-alpha, kind="stable")[: settings.max_neighbours])
        max_distance = max(max_distance, distance + 1)
        weights = alpha - settings.penalty * (distance + 1)
        for node, weight in zip(new_nodes[best].tolist(), weights[best].tolist(), strict=True):
            scores[node] = weight
            heapq.heappush(queue, (-weight, distance + 1, node))
    return scores


def _attend_to_nodes(
    phrase: FloatArray, node_vectors: FloatArray, nodes: IntArray, settings: ExpansionSettings
) -> Array:
    """α of nodes, whose vectors are read in blocks: a hub may have a hundred thousand neighbours."""
    blocks = (node_vectors[nodes[start : start + NODES_PER_BLOCK]] for start in range(0, len(nodes), NODES_PER_BLOCK))
    if settings.score == "cosine":
        return np.concatenate([head_cosine(phrase, keys, settings.heads) for keys in blocks])
    query = _split_heads(phrase[None, :], settings.heads)
    scores = np.concatenate([_scaled_products(query, _split_heads(keys, settings.heads)) for keys in blocks], axis=2)
    return np.asarray(softmax(scores).mean(axis=0)).ravel()


def node_attention(
    question: FloatArray, nodes: IntArray, node_vectors: FloatArray, *, options: Sequence[IntArray] = (), heads: int = 4
) -> Array:
    """Attention weight of each node from the question and its options; weights sum to 1.

    The question's vectors and each option's neighbourhood pass through self-attention and attend to the nodes, so nodes
    relevant to both gain weight. The question weighs one half, all options together the other.
    """
    if not len(nodes):
        return np.zeros(0)
    keys = np.asarray(node_vectors[nodes])

    def mean_weights(vectors: FloatArray) -> Array:
        return np.asarray(attention_weights(self_attention(vectors, heads), keys, heads).mean(axis=0))

    weights = mean_weights(question)
    by_option = [mean_weights(np.asarray(node_vectors[option])) for option in options if len(option)]
    return np.asarray((weights + np.mean(by_option, axis=0)) / 2) if by_option else weights


def find_bridges(
    graph: GraphArrays, nodes: IntArray, *, max_length: int = 4, max_visited: int = 20_000
) -> list[list[int]]:
    """Find shortest paths that connect the components of the subgraph on ``nodes``; returns their edges.

    All components grow in parallel, ring by ring. Where two meet, there is a path of length d(u) + 1 + d(v). Shorter
    paths are added first, and only between separate components: a minimum spanning tree (Mehlhorn 1988). The search
    ends when all components are connected, when paths exceed ``max_length`` edges, or after ``max_visited`` nodes.
    """
    ring = sorted_unique(np.asarray(nodes, dtype=np.int64))
    if len(ring) < 2:
        return []
    search = _BridgeSearch(graph, ring, max_visited)
    bridges: list[list[int]] = []
    for _ in range(max_length // 2 + 1):
        if search.components.n_subsets == 1:
            break
        ring, meetings = search.grow(ring)
        if len(search.component_of) > max_visited:
            break
        # Paths of at most 2·radius + 1 edges have met by now; the next ring finds longer ones.
        for length, _, u, v, path in sorted(meetings):
            if length <= max_length and search.components.merge(search.component_of[u], search.component_of[v]):
                bridges.append(path)
    return bridges


_Meeting = tuple[int, int, int, int, list[int]]
"""Length of a path, its edge between nodes u and v of two components, u, v, and all its edges."""


class _BridgeSearch:
    """The components of a subgraph, which grow ring by ring.

    ``component_of``: A node of the component that has reached each visited node.
    """

    def __init__(self, graph: GraphArrays, nodes: IntArray, max_visited: int) -> None:
        from scipy.cluster.hierarchy import DisjointSet  # imports in 0.3 s; not needed for one node

        self._graph = graph
        self._max_visited = max_visited
        self.components = DisjointSet(nodes.tolist())
        for edge in graph.edges_among(nodes).tolist():
            self.components.merge(int(graph.heads[edge]), int(graph.tails[edge]))
        self.component_of = {node: self.components[node] for node in nodes.tolist()}
        self._trails: dict[int, tuple[int, ...]] = dict.fromkeys(self.component_of, ())
        """Edges from the component to each visited node."""

    def grow(self, ring: IntArray) -> tuple[IntArray, list[_Meeting]]:
        """The next ring, and where two components meet."""
        next_ring: list[int] = []
        meetings: list[_Meeting] = []
        for u, edge, v in self._slots(ring):
            trail = self._trails[u]
            if v not in self._trails:
                self._trails[v] = (*trail, edge)
                self.component_of[v] = self.component_of[u]
                next_ring.append(v)
                if len(self.component_of) > self._max_visited:
                    break
            elif self.component_of[u] != self.component_of[v] and len(self._trails[v]) <= len(trail):
                path = [*trail, edge, *reversed(self._trails[v])]
                meetings.append((len(path), edge, u, v, path))
        return np.array(sorted(next_ring), dtype=np.int64), meetings

    def _slots(self, ring: IntArray) -> Iterator[tuple[int, int, int]]:
        """Node, edge and neighbour of each slot of a ring; of a hub, few are in memory at a time."""
        graph = self._graph
        for node in ring.tolist():
            end = int(graph.offsets[node + 1])
            for start in range(int(graph.offsets[node]), end, SLOTS_PER_BLOCK):
                block = slice(start, min(start + SLOTS_PER_BLOCK, end))
                yield from zip(
                    repeat(node), graph.slot_edges[block].tolist(), graph.neighbours[block].tolist(), strict=False
                )


def nearest_nodes(query: FloatArray, node_vectors: FloatArray, k: int) -> IntArray:
    """The k nodes with the largest inner products with the query, best first, ties by node.

    One matrix product, for phrases without a linked node; the cosine for unit vectors.
    """
    return np.argsort(-np.round(node_vectors @ query, 6), kind="stable")[:k]
