"""Shortest paths between two sets of nodes, the most relevant first.

Paths ignore the direction of edges; a step lists all edges between its two nodes.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from evidence_assets.graphs.arrays import FloatArray, GraphArrays, IntArray, Subgraph
from evidence_assets.lake.array_files import sorted_unique

UNREACHED = np.iinfo(np.int16).max


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
    max_length: int = 3,
    max_paths: int = 5,
    relevance: FloatArray | None = None,
    top: int | None = None,
) -> list[GraphPath]:
    """Find the best shortest paths of each pair of source and target, the most relevant first.

    ``max_length``: Maximum number of edges. A source that is also the target has no path.
    ``max_paths``: Maximum paths per pair, by the mean ``relevance`` of their nodes; ties go to the smaller node ids.
    ``top``: Maximum paths in all; pairs whose best path cannot be among them are skipped.

    The search is bidirectional and expands the side with fewer edges; each source then follows decreasing distances.
    """
    starts = sorted_unique(np.asarray(sources, dtype=np.int64))
    pairs: list[tuple[float, int, int, IntArray, dict[int, float]]] = []
    for target in sorted_unique(np.asarray(targets, dtype=np.int64)).tolist() if len(starts) else ():
        distance = _distances_to_target(graph, starts, target, max_length)
        reachable_sources = starts[(distance[starts] > 0) & (distance[starts] <= max_length)]
        best = _best_completion(graph, distance, reachable_sources, relevance)
        for source in reachable_sources.tolist():
            n_nodes = int(distance[source]) + 1
            pairs.append((-best[source] / n_nodes, n_nodes, source, distance, best))
    # The last bits of a sum depend on its order.
    slack = 1e-6 if relevance is not None and relevance.any() else 0.0
    paths: list[GraphPath] = []
    ranks: list[tuple[float, int]] = []  # of the paths: negative score and number of nodes, ascending
    for bound, n_nodes, source, distance, best in sorted(pairs, key=lambda pair: pair[:3]):
        if top is not None and len(ranks) >= top and ranks[top - 1] < (bound - slack, n_nodes):
            break
        for path in _iterate_paths(graph, distance, best, source, max_paths, relevance):
            paths.append(path)
            insort(ranks, (-path.score, n_nodes))
    return sorted(paths, key=lambda path: (-path.score, len(path.nodes), path.nodes))[:top]


class SubgraphPaths:
    """Searches paths that do not leave a subgraph; nodes and edges keep their ids in the whole graph."""

    def __init__(self, subgraph: Subgraph) -> None:
        relations = np.zeros(len(subgraph.edges), dtype=np.int32)
        self._nodes, self._edges = subgraph.nodes, subgraph.edges
        self._arrays = GraphArrays.from_edges(len(subgraph.nodes), subgraph.heads, relations, subgraph.tails)

    def shortest_paths(
        self,
        sources: Sequence[int] | IntArray,
        targets: Sequence[int] | IntArray,
        max_length: int,
        max_paths: int,
        relevance: FloatArray,
        top: int,
    ) -> list[GraphPath]:
        """As the function of this name; sources and targets outside the subgraph have no paths."""
        starts, ends = self._positions(sources), self._positions(targets)
        paths = shortest_paths(self._arrays, starts, ends, max_length, max_paths, relevance[self._nodes], top)
        return [
            GraphPath(
                tuple(self._nodes[list(path.nodes)].tolist()),
                tuple(tuple((int(self._edges[edge]), along) for edge, along in step) for step in path.steps),
                path.score,
            )
            for path in paths
        ]

    def _positions(self, nodes: Sequence[int] | IntArray) -> IntArray:
        return np.flatnonzero(np.isin(self._nodes, np.asarray(nodes, dtype=np.int64)))


class _SearchFrontier:
    """Breadth-first search from one side, level by level."""

    def __init__(self, graph: GraphArrays, centre: IntArray) -> None:
        self.graph, self.frontier, self.depth = graph, centre, 0
        self.distance = np.full(graph.n_nodes, UNREACHED, dtype=np.int16)
        self.distance[centre] = 0
        self.edges: list[tuple[IntArray, IntArray]] = []

    def cost(self) -> int:
        """Number of edges of the next level."""
        return int(self.graph.degree(self.frontier).sum())

    def grow(self) -> None:
        """Expand by one level."""
        owner, slots = self.graph.slots_of(self.frontier)
        others = self.graph.neighbours[slots]
        self.edges.append((self.frontier[owner], others))
        self.depth += 1
        new_nodes = sorted_unique(others[self.distance[others] == UNREACHED])
        self.distance[new_nodes] = self.depth
        self.frontier = new_nodes


def _distances_to_target(graph: GraphArrays, sources: IntArray, target: int, max_length: int) -> IntArray:
    """Distances to the target of all nodes on shortest paths of at most `max_length` edges."""
    near, far = _SearchFrontier(graph, np.array([target])), _SearchFrontier(graph, sources)
    while near.depth + far.depth < max_length:
        (near if near.cost() <= far.cost() else far).grow()
    distance = near.distance
    # Nodes that only the sources' search visited get their distance from a neighbour.
    for _ in range(far.depth):
        for owners, others in reversed(far.edges):
            np.minimum.at(distance, owners, np.where(distance[others] < UNREACHED, distance[others] + 1, UNREACHED))
    return distance


def _descents(graph: GraphArrays, distance: IntArray, nodes: IntArray) -> tuple[IntArray, IntArray]:
    """(position in `nodes`, next node) of all steps towards the target, without parallel edges."""
    owner, slots = graph.slots_of(nodes)
    others = graph.neighbours[slots].astype(np.int64)
    is_descent = distance[others] == distance[nodes][owner] - 1
    is_descent[1:] &= (others[1:] != others[:-1]) | (owner[1:] != owner[:-1])
    return owner[is_descent], others[is_descent]


def _best_completion(
    graph: GraphArrays, distance: IntArray, sources: IntArray, relevance: FloatArray | None
) -> dict[int, float]:
    """Maximum sum of relevance from each node to the target, including itself."""
    levels: list[tuple[IntArray, IntArray, IntArray]] = []
    nodes: IntArray = np.empty(0, dtype=np.int64)
    for depth in range(int(distance[sources].max()) if len(sources) else 0, 0, -1):
        nodes = np.union1d(nodes, sources[distance[sources] == depth]).astype(np.int64)
        owner, others = _descents(graph, distance, nodes)
        levels.append((nodes, owner, others))
        nodes = sorted_unique(others)
    relevance_of = (lambda ids: np.zeros(len(ids))) if relevance is None else (lambda ids: relevance[ids].astype(float))
    best = dict(zip(nodes.tolist(), relevance_of(nodes).tolist(), strict=True))
    lower_nodes, lower_values = nodes, relevance_of(nodes)
    for nodes, owner, others in reversed(levels):
        top = np.full(len(nodes), -np.inf)
        np.maximum.at(top, owner, lower_values[np.searchsorted(lower_nodes, others)])
        lower_nodes, lower_values = nodes, top + relevance_of(nodes)
        best.update(zip(lower_nodes.tolist(), lower_values.tolist(), strict=True))
    return best


def _iterate_paths(
    graph: GraphArrays, distance: IntArray, best: dict[int, float], start: int, limit: int, relevance: FloatArray | None
) -> Iterator[GraphPath]:
    """Yield the shortest paths of one pair by relevance: best-first search with exact completion scores."""
    heap: list[tuple[float, tuple[int, ...], float]] = [(-best[start], (start,), 0.0)]
    n_yielded = 0
    while heap and n_yielded < limit:
        _, nodes, relevance_sum = heapq.heappop(heap)
        last = nodes[-1]
        relevance_sum += 0.0 if relevance is None else float(relevance[last])
        if distance[last] == 0:
            steps = tuple(tuple(graph.edges_between(a, b)) for a, b in pairwise(nodes))
            yield GraphPath(nodes, steps, relevance_sum / len(nodes))
            n_yielded += 1
            continue
        for next_node in _descents(graph, distance, np.array([last]))[1].tolist():
            heapq.heappush(heap, (-(relevance_sum + best[next_node]), (*nodes, next_node), relevance_sum))
