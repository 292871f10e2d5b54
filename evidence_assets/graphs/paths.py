"""Shortest paths between two sets of nodes of a graph, the most relevant first.

A path follows edges of either direction; a step keeps every edge between its two nodes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from evidence_assets.graphs.arrays import FloatArray, GraphArrays, IntArray
from evidence_assets.lake.array_files import sorted_unique

UNREACHED = np.iinfo(np.int16).max


@dataclass(frozen=True)
class GraphPath:
    """One path.

    ``nodes``: Node ids from the source to the target.
    ``steps``: For each step every edge between its two nodes as (edge id, runs along the path), ascending by id.
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
    max_length: int = 3,
    max_paths: int = 5,
    relevance: FloatArray | None = None,
) -> list[GraphPath]:
    """For each pair of a source and a target, its best shortest paths; over all pairs the most relevant first.

    ``max_length``: Longest path looked for, in edges. A source that is itself the target has no path.
    ``max_paths``: Most paths for a pair, by the mean ``relevance`` of their nodes; ties go to the smaller node ids.

    Both ends are grown towards each other, the one with fewer edges to look at first; each source walks down the
    distances to the target.
    """
    starts = sorted_unique(np.asarray(sources, dtype=np.int64))
    found: list[GraphPath] = []
    if len(starts):
        for target in sorted_unique(np.asarray(targets, dtype=np.int64)).tolist():
            distance = _distances_to_target(graph, starts, target, max_length)
            reached = starts[(distance[starts] > 0) & (distance[starts] <= max_length)]
            best = _best_completion(graph, distance, reached, relevance)
            for source in reached.tolist():
                found.extend(_iterate_paths(graph, distance, best, source, max_paths, relevance))
    return sorted(found, key=lambda path: (-path.score, len(path.nodes), path.nodes))


class _SearchFrontier:
    """Breadth-first search from one side, a level at a time."""

    def __init__(self, graph: GraphArrays, centre: IntArray) -> None:
        self.graph, self.frontier, self.depth = graph, centre, 0
        self.distance = np.full(graph.n_nodes, UNREACHED, dtype=np.int16)
        self.distance[centre] = 0
        self.edges: list[tuple[IntArray, IntArray]] = []

    def cost(self) -> int:
        """Edges that the next level would look at."""
        return int(self.graph.degree(self.frontier).sum())

    def grow(self) -> None:
        """Take one more step outwards."""
        owner, slots = self.graph.slots_of(self.frontier)
        others = self.graph.neighbours[slots]
        self.edges.append((self.frontier[owner], others))
        self.depth += 1
        fresh = sorted_unique(others[self.distance[others] == UNREACHED])
        self.distance[fresh] = self.depth
        self.frontier = fresh


def _distances_to_target(graph: GraphArrays, sources: IntArray, target: int, max_length: int) -> IntArray:
    """Distance to the target of every node on a shortest path of at most `max_length` from a source."""
    near, far = _SearchFrontier(graph, np.array([target])), _SearchFrontier(graph, sources)
    while near.depth + far.depth < max_length:
        (near if near.cost() <= far.cost() else far).grow()
    distance = near.distance
    # A node that the sources' ball looked at, but the target's did not reach, learns its distance from a neighbour.
    for _ in range(far.depth):
        for owners, others in reversed(far.edges):
            np.minimum.at(distance, owners, np.where(distance[others] < UNREACHED, distance[others] + 1, UNREACHED))
    return distance


def _descents(graph: GraphArrays, distance: IntArray, nodes: IntArray) -> tuple[IntArray, IntArray]:
    """(position in `nodes`, next node) for every step that comes one nearer to the target; parallel edges once."""
    owner, slots = graph.slots_of(nodes)
    others = graph.neighbours[slots].astype(np.int64)
    down = distance[others] == distance[nodes][owner] - 1
    down[1:] &= (others[1:] != others[:-1]) | (owner[1:] != owner[:-1])
    return owner[down], others[down]


def _best_completion(
    graph: GraphArrays, distance: IntArray, sources: IntArray, relevance: FloatArray | None
) -> dict[int, float]:
    """Greatest sum of relevance from each node down to the target, itself included."""
    levels: list[tuple[IntArray, IntArray, IntArray]] = []
    nodes: IntArray = np.empty(0, dtype=np.int64)
    for depth in range(int(distance[sources].max()) if len(sources) else 0, 0, -1):
        nodes = np.union1d(nodes, sources[distance[sources] == depth]).astype(np.int64)
        owner, others = _descents(graph, distance, nodes)
        levels.append((nodes, owner, others))
        nodes = sorted_unique(others)
    worth = (lambda ids: np.zeros(len(ids))) if relevance is None else (lambda ids: relevance[ids].astype(np.float64))
    best = dict(zip(nodes.tolist(), worth(nodes).tolist(), strict=True))
    below, value = nodes, worth(nodes)
    for nodes, owner, others in reversed(levels):
        top = np.full(len(nodes), -np.inf)
        np.maximum.at(top, owner, value[np.searchsorted(below, others)])
        below, value = nodes, top + worth(nodes)
        best.update(zip(below.tolist(), value.tolist(), strict=True))
    return best


def _iterate_paths(
    graph: GraphArrays,
    distance: IntArray,
    best: dict[int, float],
    source: int,
    max_paths: int,
    relevance: FloatArray | None,
) -> Iterator[GraphPath]:
    """Shortest paths of one pair in order of relevance: best-first search with the exact rest of each path known."""
    heap: list[tuple[float, tuple[int, ...], float]] = [(-best[source], (source,), 0.0)]
    given = 0
    while heap and given < max_paths:
        _, nodes, gathered = heapq.heappop(heap)
        last = nodes[-1]
        gathered += 0.0 if relevance is None else float(relevance[last])
        if distance[last] == 0:
            steps = tuple(tuple(graph.edges_between(a, b)) for a, b in pairwise(nodes))
            yield GraphPath(nodes, steps, gathered / len(nodes))
            given += 1
            continue
        for following in _descents(graph, distance, np.array([last]))[1].tolist():
            heapq.heappush(heap, (-(gathered + best[following]), (*nodes, following), gathered))
