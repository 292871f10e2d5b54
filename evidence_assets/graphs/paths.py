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
        paths += islice(_PathsToTarget(graph, distance, relevance).iterate(reachable, max_paths), top)
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


_Entry = tuple[float, int, tuple[int, ...], float]
"""Negative bound of a path's score, its number of nodes, its first nodes, and their relevance without the last one."""


@dataclass(frozen=True)
class _PathsToTarget:
    """The shortest paths to a target, from the distance of each node to it."""

    graph: GraphArrays
    distance: IntArray
    relevance: FloatArray

    def _steps(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """(position in `nodes`, next node) of all steps towards the target, without parallel edges."""
        owner, others = self.graph.neighbour_pairs(nodes)
        is_nearer = self.distance[others] == self.distance[nodes][owner] - 1
        return owner[is_nearer], others[is_nearer]

    def _best_completions(self, longest: int) -> FloatArray:
        """Maximum sum of relevance from each node to the target, including both."""
        best = np.where(self.distance == 0, self.relevance, 0).astype(np.float64)
        for depth in range(1, longest + 1):
            nodes = np.flatnonzero(self.distance == depth)
            owner, others = self._steps(nodes)
            top = np.full(len(nodes), -np.inf)
            np.maximum.at(top, owner, best[others])
            best[nodes] = top + self.relevance[nodes]
        return best

    def _entry(self, nodes: tuple[int, ...], relevance_before: float, best: FloatArray) -> _Entry:
        n_nodes = len(nodes) + int(self.distance[nodes[-1]])
        return -(relevance_before + best[nodes[-1]]) / n_nodes, n_nodes, nodes, relevance_before

    def iterate(self, sources: Sequence[int], max_paths: int) -> Iterator[GraphPath]:
        """Yield the paths of all sources by relevance: best-first search with exact completion scores."""
        best = self._best_completions(max((int(self.distance[source]) for source in sources), default=0))
        queue = [self._entry((source,), 0.0, best) for source in sources]
        heapq.heapify(queue)
        counts: Counter[int] = Counter()
        while queue:
            _, n_nodes, nodes, relevance_before = heapq.heappop(queue)
            if counts[nodes[0]] == max_paths:
                continue
            relevance_sum = relevance_before + float(self.relevance[nodes[-1]])
            if self.distance[nodes[-1]] == 0:
                counts[nodes[0]] += 1
                steps = tuple(tuple(self.graph.edges_between(a, b)) for a, b in pairwise(nodes))
                yield GraphPath(nodes, steps, relevance_sum / n_nodes)
                continue
            for node in self._steps(np.array(nodes[-1:]))[1].tolist():
                heapq.heappush(queue, self._entry((*nodes, node), relevance_sum, best))
