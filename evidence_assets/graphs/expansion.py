"""Attention over neighbourhoods of a graph: the stages of Attention2Query without a trained model.

Attention is the scaled dot product with identity projections; a head is a slice of the vector.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evidence_assets.graphs.arrays import FloatArray, GraphArrays, IntArray
from evidence_assets.lake.array_files import sorted_unique
from evidence_assets.models.vectors import softmax, unit_rows


def _split_heads(vectors: FloatArray, heads: int) -> NDArray[np.float64]:
    """Split unit vectors into ``heads`` slices: heads × n × d/heads; ``heads`` must divide d."""
    unit = unit_rows(np.asarray(vectors, dtype=np.float64))
    return unit.reshape(len(unit), heads, -1).transpose(1, 0, 2)


def attention_weights(queries: FloatArray, keys: FloatArray, heads: int = 4) -> NDArray[np.float64]:
    """Attention of each query to the keys: ``1/H · Σ_h softmax_j(q_h · k_hj / √d_h)`` on unit vectors."""
    return np.asarray(_attention_by_head(_split_heads(queries, heads), _split_heads(keys, heads)).mean(axis=0))


def _attention_by_head(q: NDArray[np.float64], k: NDArray[np.float64]) -> NDArray[np.float64]:
    return softmax(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[2]))


def self_attention(vectors: FloatArray, heads: int = 4) -> NDArray[np.float64]:
    """The value matrix: each row becomes the attention-weighted mean of all rows, head by head."""
    x = _split_heads(vectors, heads)
    mixed = _attention_by_head(x, x) @ x
    return np.asarray(mixed.transpose(1, 0, 2).reshape(len(vectors), -1), dtype=np.float64)


def head_cosine(query: FloatArray, keys: FloatArray, heads: int = 4) -> NDArray[np.float64]:
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
        keys = np.asarray(node_vectors[new_nodes])
        if settings.score == "softmax":
            alpha = attention_weights(phrase[None, :], keys, settings.heads)[0]
        else:
            alpha = head_cosine(phrase, keys, settings.heads)
        if len(new_nodes) > settings.max_neighbours:
            best = np.sort(np.lexsort((new_nodes, -alpha))[: settings.max_neighbours])
            new_nodes = new_nodes[best]
            alpha = alpha[best]
        max_distance = max(max_distance, distance + 1)
        for node, weight in zip(new_nodes.tolist(), (alpha - settings.penalty * (distance + 1)).tolist(), strict=True):
            scores[node] = weight
            heapq.heappush(queue, (-weight, distance + 1, node))
    return scores


def node_attention(
    question: FloatArray, nodes: IntArray, node_vectors: FloatArray, *, options: Sequence[IntArray] = (), heads: int = 4
) -> NDArray[np.float64]:
    """Attention weight of each node from the question and its options; weights sum to 1.

    The question's vectors and each option's neighbourhood pass through self-attention and attend to the nodes, so nodes
    relevant to both gain weight. The question weighs one half, all options together the other.
    """
    if not len(nodes):
        return np.zeros(0)
    keys = np.asarray(node_vectors[nodes])

    def mean_weights(vectors: FloatArray) -> NDArray[np.float64]:
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
    start = sorted_unique(np.asarray(nodes, dtype=np.int64))
    if len(start) < 2:
        return []

    from scipy.cluster.hierarchy import DisjointSet  # imports in 0.3 s; not needed for one node

    components = DisjointSet(start.tolist())
    for edge in graph.edges_among(start).tolist():
        components.merge(int(graph.heads[edge]), int(graph.tails[edge]))
    component_of = {node: components[node] for node in start.tolist()}
    depth = dict.fromkeys(component_of, 0)
    predecessors: dict[int, tuple[int, int]] = {}
    paths: list[list[int]] = []
    ring = start
    radius = 0
    while len(ring) and 2 * radius <= max_length and components.n_subsets > 1:
        owner, slots = graph.slots_of(ring)
        meetings: list[tuple[int, int, int, int]] = []
        next_ring: list[int] = []
        for position, slot in zip(owner.tolist(), slots.tolist(), strict=True):
            u = int(ring[position])
            v = int(graph.neighbours[slot])
            edge = int(graph.slot_edges[slot])
            if v not in component_of:
                if len(component_of) >= max_visited:
                    return paths
                component_of[v] = component_of[u]
                depth[v] = radius + 1
                predecessors[v] = (u, edge)
                next_ring.append(v)
            elif component_of[u] != component_of[v] and depth[v] <= radius:
                meetings.append((depth[u] + depth[v] + 1, edge, u, v))
        # Paths of at most 2·radius + 1 edges have met by now; the next ring finds longer ones.
        for length, edge, u, v in sorted(meetings):
            if length <= max_length and components.merge(component_of[u], component_of[v]):
                paths.append([*_edges_to_start(u, predecessors)[::-1], edge, *_edges_to_start(v, predecessors)])
        ring = np.array(sorted(next_ring), dtype=np.int64)
        radius = radius + 1
    return paths


def _edges_to_start(node: int, predecessors: dict[int, tuple[int, int]]) -> list[int]:
    edges = []
    while node in predecessors:
        node, edge = predecessors[node]
        edges.append(edge)
    return edges


def nearest_nodes(query: FloatArray, node_vectors: FloatArray, k: int) -> IntArray:
    """The k nodes with the largest inner products with the query, best first, ties by node.

    One matrix product, for phrases without a linked node; the cosine for unit vectors.
    """
    return np.argsort(-np.round(node_vectors @ query, 6), kind="stable")[:k]
