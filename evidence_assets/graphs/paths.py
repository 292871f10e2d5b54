"""Shortest paths between two sets of nodes, the most relevant first.

Paths ignore the direction of edges; a step lists all edges between its two nodes.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np

from evidence_assets.graphs.arrays import FloatArray, GraphArrays, IntArray
from evidence_assets.lake.array_files import sorted_unique

UNREACHED = np.iinfo(np.int16).max
EXCLUDED = -2


@dataclass(frozen=True)
class GraphPath:
    """A path through the graph.

    ``nodes``: Node ids from the source to the target.
    ``steps``: All edges of each step as (edge id, whether it runs along the path), by id.
    ``score``: Mean relevance of the nodes.
    """

    nodes: tuple[int, ...]
    steps: tuple[tuple[tuple[int, bool], ...], ...]
    score: float

    @property
    def edges(self) -> list[int]:
        return [edge for step in self.steps for edge, _ in step]


def shortest_paths(
    graph: GraphArrays,
    sources: Sequence[int] | IntArray,
    targets: Sequence[int] | IntArray,
    max_length: int,
    max_paths: int,
    relevance: FloatArray,
    top: int | None = None,
    within: IntArray | None = None,
) -> list[GraphPath]:
    """Find the best shortest paths of each pair of source and target, the most relevant first.

    ``max_length``: Maximum number of edges. A source that is also the target has no path.
    ``max_paths``: Maximum paths per pair, by the mean ``relevance`` of their nodes; ties go to the smaller node ids.
    ``top``: Maximum paths in all.
    ``within``: Nodes that paths may use; all by default.
    """
    initial = np.full(graph.n_nodes, UNREACHED if within is None else EXCLUDED, dtype=np.int16)
    if within is not None:
        initial[within] = UNREACHED
    starts, ends = (sorted_unique(np.asarray(nodes, dtype=np.int64)) for nodes in (sources, targets))
    paths: list[GraphPath] = []
    for target in ends[initial[ends] != EXCLUDED].tolist():
        distance = _distances_to(graph, target, initial, max_length)
        reachable = starts[(distance[starts] > 0) & (distance[starts] <= max_length)].tolist()
        paths += islice(_iterate_paths(graph, distance, reachable, relevance, max_paths), top)
    return sorted(paths, key=lambda path: (-path.score, len(path.nodes), path.nodes))[:top]


def _distances_to(graph: GraphArrays, target: int, initial: IntArray, max_length: int) -> IntArray:
    """Distance of each node to the target; ``UNREACHED`` if it is longer than `max_length`."""
    distance = initial.copy()
    distance[target] = 0
    frontier: IntArray = np.array([target])
    for depth in range(1, max_length + 1):
        others = graph.neighbours[graph.slots_of(frontier)[1]]
        frontier = sorted_unique(others[distance[others] == UNREACHED])
        distance[frontier] = depth
    return distance


def _descents(graph: GraphArrays, distance: IntArray, nodes: IntArray) -> tuple[IntArray, IntArray]:
    """(position in `nodes`, next node) of all steps towards the target, without parallel edges."""
    owner, slots = graph.slots_of(nodes)
    others = graph.neighbours[slots].astype(np.int64)
    is_descent = distance[others] == distance[nodes][owner] - 1
    is_descent[1:] &= (others[1:] != others[:-1]) | (owner[1:] != owner[:-1])
    return owner[is_descent], others[is_descent]


def _best_completions(graph: GraphArrays, distance: IntArray, longest: int, relevance: FloatArray) -> FloatArray:
    """Maximum sum of relevance from each node to the target, including both."""
    best = np.where(distance == 0, relevance, 0).astype(np.float64)
    for depth in range(1, longest + 1):
        nodes = np.flatnonzero(distance == depth)
        owner, others = _descents(graph, distance, nodes)
        top = np.full(len(nodes), -np.inf)
        np.maximum.at(top, owner, best[others])
        best[nodes] = top + relevance[nodes]
    return best


def _iterate_paths(
    graph: GraphArrays, distance: IntArray, sources: Sequence[int], relevance: FloatArray, max_paths: int
) -> Iterator[GraphPath]:
    """Yield the shortest paths of all sources by relevance: best-first search with exact completion scores."""
    best = _best_completions(graph, distance, max((int(distance[source]) for source in sources), default=0), relevance)
    queue: list[tuple[float, int, tuple[int, ...], float]] = []
    for source in sources:
        n_nodes = int(distance[source]) + 1
        queue.append((-best[source] / n_nodes, n_nodes, (source,), 0.0))
    heapq.heapify(queue)
    counts: Counter[int] = Counter()
    while queue:
        _, n_nodes, nodes, relevance_sum = heapq.heappop(queue)
        last = nodes[-1]
        if counts[nodes[0]] == max_paths:
            continue
        relevance_sum += float(relevance[last])
        if distance[last] == 0:
            counts[nodes[0]] += 1
            steps = tuple(tuple(graph.edges_between(a, b)) for a, b in pairwise(nodes))
            yield GraphPath(nodes, steps, relevance_sum / n_nodes)
            continue
        for node in _descents(graph, distance, np.array([last]))[1].tolist():
            heapq.heappush(queue, (-(relevance_sum + best[node]) / n_nodes, n_nodes, (*nodes, node), relevance_sum))
