"""The arrays of a knowledge graph: its edges as compressed sparse rows, and neighbourhoods cut out of them.

Parallel, contradictory and self-joining edges keep their own edge id, their row in the given arrays. The adjacency is
symmetrised: an edge is seen from both of its ends, a self-loop once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from evidence_assets.lake.array_files import open_asset_file, sorted_unique
from evidence_assets.lake.errors import StaleInput

IntArray = npt.NDArray[np.integer[Any]]
FloatArray = npt.NDArray[np.floating[Any]]
BoolArray = npt.NDArray[np.bool_]
NodeScore = Callable[[IntArray], FloatArray]

FORMAT = 3
"""Changes with the files."""
NO_DROPPED_NODES = np.empty((0, 2), dtype=np.int64)
OVER_BUDGET = -1
"""Stands in the first column of `Subgraph.dropped` where the cap on all nodes, and not a hub, left a node out."""


@dataclass(frozen=True)
class Subgraph:
    """Part of a graph: its nodes, and every edge of the graph that has both ends among them.

    ``nodes``: Node ids, ascending.
    ``hop``: Steps from the nearest seed, aligned with `nodes`.
    ``edges``: Edge ids, ascending.
    ``heads``, ``tails``: Positions in `nodes` of the ends of each edge.
    ``dropped``: A row (hub, node) for each node that a cap cut off; `OVER_BUDGET` is the hub where the cap on all nodes
        did it.
    """

    nodes: IntArray
    hop: IntArray
    edges: IntArray
    heads: IntArray
    tails: IntArray
    dropped: IntArray

    def limit_hops(self, hops: int) -> Subgraph:
        """The nodes at most so many steps away, without what caps left out."""
        near: BoolArray = self.hop <= hops
        kept, place = near[self.heads] & near[self.tails], np.cumsum(near) - 1
        heads, tails = place[self.heads[kept]], place[self.tails[kept]]
        return Subgraph(self.nodes[near], self.hop[near], self.edges[kept], heads, tails, NO_DROPPED_NODES)


@dataclass(frozen=True)
class GraphArrays:
    """A directed multigraph with a symmetrised adjacency; all arrays may be memory-mapped.

    ``heads``, ``tails``, ``relations``: The edges as given: edge `e` runs from `heads[e]` to `tails[e]` under the code
        `relations[e]`.
    ``offsets``: The slots of node `v` are `offsets[v] : offsets[v + 1]`.
    ``neighbours``, ``slot_edges``, ``outgoing``: Per slot: the other end, the edge id, and whether the edge leaves the
        node. The slots of a node are sorted by neighbour, then by edge id.
    """

    heads: IntArray
    tails: IntArray
    relations: IntArray
    offsets: IntArray
    neighbours: IntArray
    slot_edges: IntArray
    outgoing: BoolArray

    @property
    def n_nodes(self) -> int:
        """Number of nodes, isolated ones included."""
        return len(self.offsets) - 1

    @property
    def n_edges(self) -> int:
        """Number of edges, parallel ones and self-loops included."""
        return len(self.heads)

    @classmethod
    def from_edges(cls, n_nodes: int, heads: IntArray, relations: IntArray, tails: IntArray) -> GraphArrays:
        """Build a graph from aligned edge arrays."""
        index = np.int32 if max(n_nodes, 2 * len(heads)) < 2**31 else np.int64
        heads, tails = heads.astype(index, copy=False), tails.astype(index, copy=False)
        # An edge is seen from its head, then from its tail, a self-loop once: in this order edge ids ascend, and a
        # stable sort by neighbour, then by node leaves them so.
        seen = np.column_stack([np.ones(len(heads), np.bool_), heads != tails])
        owners, neighbours = np.column_stack([heads, tails])[seen], np.column_stack([tails, heads])[seen]
        slots: IntArray = np.flatnonzero(seen).astype(index)
        del seen
        order = counting_argsort(neighbours, n_nodes)
        order = order[counting_argsort(owners[order], n_nodes)]
        slots, neighbours = slots[order], neighbours[order]
        offsets = np.zeros(n_nodes + 1, dtype=np.int64)
        np.cumsum(np.bincount(owners, minlength=n_nodes), out=offsets[1:])
        return cls(heads, tails, relations.astype(np.int32), offsets, neighbours, slots >> 1, slots & 1 == 0)

    def save(self, folder: Path) -> None:
        """Write one .npy file per array into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        for field in fields(self):
            np.save(folder / f"{field.name}.npy", getattr(self, field.name), allow_pickle=False)

    @classmethod
    def open(cls, folder: Path) -> GraphArrays:
        """Open a saved graph memory-mapped; raises StaleInput where its files are absent, cut or of two graphs."""
        mapped = partial(np.load, mmap_mode="r", allow_pickle=False)
        graph = cls(**{field.name: open_asset_file(folder / f"{field.name}.npy", mapped) for field in fields(cls)})
        edges, slots = {len(graph.heads), len(graph.tails), len(graph.relations)}, len(graph.neighbours)
        if len(edges) > 1 or {len(graph.slot_edges), len(graph.outgoing), int(graph.offsets[-1])} != {slots}:
            raise StaleInput(f"the files of graph {folder.name} do not belong together: build it again")
        return graph

    def degree(self, nodes: IntArray) -> IntArray:
        """Number of slots of each node: edges that touch it, a self-loop counted once."""
        degrees: IntArray = self.offsets[nodes + 1] - self.offsets[nodes]
        return degrees

    def neighbours_of(self, node: int) -> IntArray:
        """Distinct neighbours of a node in either direction, ascending."""
        return sorted_unique(self.neighbours[self.offsets[node] : self.offsets[node + 1]])

    def slots_of(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """All slots of the given nodes: the position in `nodes` that owns each slot, and the slot numbers."""
        return np.repeat(np.arange(len(nodes)), self.degree(nodes)), row_positions(self.offsets, nodes)

    def edges_between(self, a: int, b: int) -> list[tuple[int, bool]]:
        """Every edge between two nodes as (edge id, runs from a to b), ascending by id."""
        row = self.neighbours[self.offsets[a] : self.offsets[a + 1]]
        first, last = np.searchsorted(row, [b, b + 1]) + self.offsets[a]
        return list(zip(self.slot_edges[first:last].tolist(), self.outgoing[first:last].tolist(), strict=True))

    def edges_from(self, head: int, relation: int, tail: int) -> list[int]:
        """Every edge from one node to another under a relation, ascending by id."""
        between = self.edges_between(head, tail)
        return [edge for edge, outgoing in between if outgoing and self.relations[edge] == relation]

    def neighbourhood(
        self,
        seeds: Sequence[int] | IntArray,
        hops: int,
        cap: int | None = None,
        score: NodeScore | None = None,
        max_nodes: int | None = None,
    ) -> Subgraph:
        """All nodes within `hops` steps of the seeds, with the edges among them.

        ``cap``: Most new nodes that one node may bring in; beyond it the best by `score` stay.
        ``score``: Relevance of nodes, ties go to the smaller node id; by default nodes with fewer edges are preferred.
        ``max_nodes``: Most nodes in all; within the hop that overflows the best by `score` stay.
        """
        frontier: IntArray = sorted_unique(np.asarray(seeds, dtype=np.int64))
        seen = np.zeros(self.n_nodes, dtype=np.bool_)
        budget = self.n_nodes if max_nodes is None else max_nodes
        levels: list[IntArray] = []
        dropped: list[IntArray] = []
        for hop in range(hops + 1):
            if hop:
                frontier, cut = self._expand(frontier, seen, cap, score)
                dropped.append(cut)
            if len(frontier) > budget:
                # The frontier ascends: a stable sort gives equal ones to the smaller id.
                best = np.argsort(-self._worth(frontier, score), kind="stable")
                cut_off = np.sort(frontier[best[budget:]])
                dropped.append(np.column_stack([np.full(len(cut_off), OVER_BUDGET), cut_off]))
                frontier = np.sort(frontier[best[:budget]])
            seen[frontier] = True
            levels.append(frontier)
            budget -= len(frontier)
            if not len(frontier) or not budget:
                break
        nodes = np.concatenate(levels)
        hop_of = np.repeat(np.arange(len(levels)), [len(level) for level in levels])
        order = np.argsort(nodes, kind="stable")
        nodes = nodes[order]
        return self.subgraph(
            nodes, hop_of[order], self.edges_among(nodes), np.concatenate([NO_DROPPED_NODES, *dropped])
        )

    def _worth(self, nodes: IntArray, score: NodeScore | None) -> FloatArray | IntArray:
        """What nodes are ranked by; larger is better."""
        if score is None:
            return -self.degree(nodes)
        return score(nodes)

    def _expand(
        self, frontier: IntArray, seen: BoolArray, cap: int | None, score: NodeScore | None
    ) -> tuple[IntArray, IntArray]:
        """New neighbours of the frontier under the hub cap, and the (hub, node) pairs that the cap cut."""
        owner = np.repeat(np.arange(len(frontier), dtype=np.int32), self.degree(frontier))
        nodes = self.neighbours[row_positions(self.offsets, frontier)].astype(np.int64)
        fresh = ~seen[nodes]
        # Slots are sorted by neighbour within their owner, so parallel edges lie side by side.
        fresh[1:] &= (nodes[1:] != nodes[:-1]) | (owner[1:] != owner[:-1])
        owner, nodes = owner[fresh], nodes[fresh]
        if cap is None:
            return sorted_unique(nodes), NO_DROPPED_NODES
        counts = np.bincount(owner, minlength=len(frontier))
        crowded = (counts > cap)[owner]
        small, owner, nodes = nodes[~crowded], owner[crowded], nodes[crowded]
        order = np.lexsort((-self._worth(nodes, score), owner))  # stable: of equal ones the first
        owner, nodes = owner[order], nodes[order]
        cut = np.arange(len(owner)) - np.searchsorted(owner, owner) >= cap
        dropped = np.column_stack([frontier[owner[cut]], nodes[cut]])
        return sorted_unique(np.concatenate([small, nodes[~cut]])), dropped[np.lexsort(dropped.T[::-1])]

    def edges_at(self, nodes: IntArray) -> IntArray:
        """Ids of all edges that touch any of the given nodes, ascending."""
        edges: IntArray = sorted_unique(self.slot_edges[row_positions(self.offsets, nodes)]).astype(np.int64)
        return edges

    def edges_among(self, nodes: IntArray) -> IntArray:
        """Ids of all edges that have both ends among the given nodes, ascending."""
        inside = np.zeros(self.n_nodes, dtype=np.bool_)
        inside[nodes] = True
        places = row_positions(self.offsets, nodes)
        return sorted_unique(self.slot_edges[places[inside[self.neighbours[places]]]]).astype(np.int64)

    def subgraph(
        self, nodes: IntArray, hop: IntArray, edges: IntArray, dropped: IntArray = NO_DROPPED_NODES
    ) -> Subgraph:
        """The part of these nodes, which ascend, with their distances and the edges among them."""
        heads, tails = (np.searchsorted(nodes, ends[edges]) for ends in (self.heads, self.tails))
        return Subgraph(nodes, hop, edges, heads, tails, dropped)


def counting_argsort(values: IntArray, below: int) -> IntArray:
    """Where the values stand in ascending order, equal ones as they came: counted and not compared."""
    places = np.arange(len(values), dtype=values.dtype)
    counted = csr_array((np.ones(len(values), np.bool_), (values, places)), shape=(below, len(values)))
    order: IntArray = counted.indices
    return order


def row_positions(offsets: IntArray, nodes: IntArray) -> IntArray:
    """Where the rows of the given nodes stand in compressed rows, one after another."""
    starts = offsets[nodes]
    counts = offsets[nodes + 1] - starts
    ends = np.cumsum(counts)
    places: IntArray = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)
    return places
