"""Attention over a graph's neighbourhoods: the stages of Attention2Query that need no trained model.

Attention is scaled dot product with identity projections: a head is a slice of the vector, nothing is trained.
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
from evidence_assets.models.vectors import unit_rows


def _split_heads(vectors: FloatArray, heads: int) -> NDArray[np.float64]:
    """Unit vectors cut into ``heads`` slices: heads × n × d/heads."""
    unit = unit_rows(np.asarray(vectors, dtype=np.float64))
    if heads < 1 or unit.shape[-1] % heads:
        raise ValueError(f"{heads} heads do not divide vectors of {unit.shape[-1]} dimensions")
    return unit.reshape(len(unit), heads, -1).transpose(1, 0, 2)


def attention_weights(queries: FloatArray, keys: FloatArray, heads: int = 4) -> NDArray[np.float64]:
    """``1/H · Σ_h softmax_j(q_h · k_hj / √d_h)`` on unit vectors: weight of each query on each key; rows sum to 1."""
    return np.asarray(
        _attention_by_head(_split_heads(queries, heads), _split_heads(keys, heads)).mean(axis=0), dtype=np.float64
    )


def _attention_by_head(q: NDArray[np.float64], k: NDArray[np.float64]) -> NDArray[np.float64]:
    logits = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[2])
    weights = np.exp(logits - logits.max(axis=2, keepdims=True, initial=-np.inf))
    return np.asarray(weights / weights.sum(axis=2, keepdims=True), dtype=np.float64)


def self_attention(vectors: FloatArray, heads: int = 4) -> NDArray[np.float64]:
    """The value matrix: each row becomes the attention-weighted mean of all rows, head by head."""
    x = _split_heads(vectors, heads)
    mixed = _attention_by_head(x, x) @ x
    return np.asarray(mixed.transpose(1, 0, 2).reshape(len(vectors), -1), dtype=np.float64)


def head_cosine(query: FloatArray, keys: FloatArray, heads: int = 4) -> NDArray[np.float64]:
    """Mean over heads of the cosine between the slices: attention before the softmax, on a scale from −1 to 1."""
    q, k = unit_rows(_split_heads(query[None, :], heads)), unit_rows(_split_heads(keys, heads))
    return np.asarray((k @ q.transpose(0, 2, 1))[:, :, 0].mean(axis=0), dtype=np.float64)


@dataclass(frozen=True)
class Neighbourhood:
    """Nodes reached from one start, with their scores, in the order in which they were reached."""

    nodes: IntArray
    score: FloatArray


@dataclass(frozen=True)
class ExpansionSettings:
    """How far a phrase's neighbourhood reaches: λ is ``penalty``, θ is ``theta``, counted in ``theta_counts``.

    θ ``layers`` end with the first node that lies θ steps from the start, so that λ decides how much of the nearer
    layers is seen before; θ ``nodes`` are expanded in all, the start among them.

    The score ``softmax`` takes α as the softmax over the neighbours seen in one step, as the formula reads; α then
    shrinks with the number of neighbours while λ·distance does not, so that nearness decides alone. ``cosine`` takes
    the mean cosine of the heads, on the scale for which λ = 0.1 to 0.3 was published.

    At most ``max_neighbours`` new neighbours of one node are kept, those of largest α.
    """

    penalty: float = 0.2
    theta: int = 3
    theta_counts: Literal["layers", "nodes"] = "layers"
    heads: int = 4
    score: Literal["softmax", "cosine"] = "cosine"
    max_neighbours: int = 200


def expand(
    graph: GraphArrays, start: int, phrase: FloatArray, node_vectors: FloatArray, settings: ExpansionSettings
) -> Neighbourhood:
    """Best-first expansion around the node of a phrase; ``node_vectors`` has one row a node of the graph.

    The start's neighbours are scored ``s = α − λ·distance``; then the best-scored node that was not expanded yet is
    expanded in turn, until θ is met. The start has score 1.
    """
    theta, most = settings.theta, settings.max_neighbours
    if theta < 1 or most < 1:
        raise ValueError("theta and max_neighbours must be at least 1")
    scores = {start: 1.0}
    waiting, expanded, farthest = [(-1.0, 0, start)], 0, 0
    while waiting and (farthest if settings.theta_counts == "layers" else expanded) < theta:
        _, distance, current = heapq.heappop(waiting)
        expanded += 1
        fresh = np.array([n for n in graph.neighbours_of(current).tolist() if n not in scores], dtype=np.int64)
        if not len(fresh):
            continue
        keys = np.asarray(node_vectors[fresh])
        if settings.score == "softmax":
            alpha = attention_weights(phrase[None, :], keys, settings.heads)[0]
        else:
            alpha = head_cosine(phrase, keys, settings.heads)
        if len(fresh) > most:
            best = np.sort(np.lexsort((fresh, -alpha))[:most])
            fresh, alpha = fresh[best], alpha[best]
        farthest = max(farthest, distance + 1)
        for node, weight in zip(fresh.tolist(), (alpha - settings.penalty * (distance + 1)).tolist(), strict=True):
            scores[node] = weight
            heapq.heappush(waiting, (-weight, distance + 1, node))
    size = len(scores)
    return Neighbourhood(np.fromiter(scores, np.int64, size), np.fromiter(scores.values(), np.float64, size))


def union_nodes(neighbourhoods: Sequence[Neighbourhood]) -> IntArray:
    """All nodes of the neighbourhoods, ascending."""
    if not neighbourhoods:
        return np.zeros(0, dtype=np.int64)
    return sorted_unique(np.concatenate([n.nodes for n in neighbourhoods]))


def node_attention(
    question: FloatArray,
    nodes: IntArray,
    node_vectors: FloatArray,
    *,
    options: Sequence[IntArray] = (),
    heads: int = 4,
) -> NDArray[np.float64]:
    """Weight of each node: how much the question, and the options jointly with it, attend to it; they sum to 1.

    The question's vectors pass through self-attention and attend to the nodes; so does each option's neighbourhood, so
    that a node gains where question and option meet. Question and all options together weigh half each.
    """
    if not len(nodes):
        return np.zeros(0)
    keys = np.asarray(node_vectors[nodes])
    weight = attention_weights(self_attention(question, heads), keys, heads).mean(axis=0)
    asked = [option for option in options if len(option)]
    if not asked:
        return np.asarray(weight, dtype=np.float64)
    by_option = [
        attention_weights(self_attention(np.asarray(node_vectors[option]), heads), keys, heads).mean(axis=0)
        for option in asked
    ]
    return np.asarray((weight + np.mean(by_option, axis=0)) / 2, dtype=np.float64)


def top_nodes(nodes: IntArray, weights: FloatArray, n: int) -> IntArray:
    """The n nodes of largest weight, ascending; equal weights go to the smaller node."""
    return np.sort(nodes[np.lexsort((nodes, -np.round(weights, 12)))[:n]])


def find_bridges(
    graph: GraphArrays, nodes: IntArray, *, max_length: int = 4, max_visited: int = 20_000
) -> list[list[int]]:
    """Edges of shortest paths that join the disconnected parts of the subgraph on ``nodes``, path by path.

    All parts grow at once, ring by ring. Where two parts touch there is a path of length d(u) + 1 + d(v); the shortest
    are taken first and only where they join parts not joined before, so that the kept ones form a minimum spanning
    tree over the parts (Mehlhorn 1988). Growth stops when everything is joined, when no path of at most ``max_length``
    edges can be left, or after ``max_visited`` nodes.
    """
    start = sorted_unique(np.asarray(nodes, dtype=np.int64))
    if len(start) < 2:
        return []

    from scipy.cluster.hierarchy import DisjointSet  # 0.3 s, which who joins nothing need not wait for

    parts = DisjointSet(start.tolist())
    for edge in graph.edges_among(start).tolist():
        parts.merge(int(graph.heads[edge]), int(graph.tails[edge]))
    part_of = {node: parts[node] for node in start.tolist()}
    depth = dict.fromkeys(part_of, 0)
    came_by: dict[int, tuple[int, int]] = {}
    kept: list[list[int]] = []
    ring, radius = start, 0
    while len(ring) and 2 * radius <= max_length and parts.n_subsets > 1:
        owner, slots = graph.slots_of(ring)
        meetings: list[tuple[int, int, int, int]] = []
        grown: list[int] = []
        for position, slot in zip(owner.tolist(), slots.tolist(), strict=True):
            u, v, edge = int(ring[position]), int(graph.neighbours[slot]), int(graph.slot_edges[slot])
            if v not in part_of:
                if len(part_of) >= max_visited:
                    return kept
                part_of[v], depth[v], came_by[v] = part_of[u], radius + 1, (u, edge)
                grown.append(v)
            elif part_of[u] != part_of[v] and depth[v] <= radius:
                meetings.append((depth[u] + depth[v] + 1, edge, u, v))
        # Every path of at most 2·radius + 1 edges has met by now; longer ones wait for the next ring.
        for length, edge, u, v in sorted(meetings):
            if length <= max_length and parts.merge(part_of[u], part_of[v]):
                kept.append([*_edges_to_start(u, came_by)[::-1], edge, *_edges_to_start(v, came_by)])
        ring, radius = np.array(sorted(grown), dtype=np.int64), radius + 1
    return kept


def _edges_to_start(node: int, came_by: dict[int, tuple[int, int]]) -> list[int]:
    edges = []
    while node in came_by:
        node, edge = came_by[node]
        edges.append(edge)
    return edges


def nearest_nodes(query: FloatArray, node_vectors: FloatArray, k: int) -> IntArray:
    """The k nodes of largest inner product with the query, best first, equal ones by node.

    For unit vectors that is the cosine. One matrix product: for a phrase that no node is named after.
    """
    similarity = np.round(node_vectors @ query, 6)
    if k < len(similarity):
        bar = np.partition(similarity, -k)[-k]
        nodes = np.flatnonzero(similarity >= bar)
    else:
        nodes = np.arange(len(similarity))
    return nodes[np.lexsort((nodes, -similarity[nodes]))[:k]]
