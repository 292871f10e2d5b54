"""Edges of a knowledge graph in compressed sparse rows, neighbourhoods of nodes, and neighbours by edge type.

Parallel edges, contradictory edges and self-loops have separate edge ids: their rows in the input arrays. The adjacency
is symmetric: both ends of an edge list it, a self-loop is listed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from evidence_assets.lake.array_files import open_asset_file, sorted_unique
from evidence_assets.models.vectors import row_positions

IntArray = npt.NDArray[np.integer[Any]]
FloatArray = npt.NDArray[np.floating[Any]]
BoolArray = npt.NDArray[np.bool_]
ScoreNodes = Callable[[IntArray], FloatArray]

FORMAT = 3
"""Version of the file format."""
NO_NODES = np.empty((0, 2), dtype=np.int64)
OVER_BUDGET = -1
"""First column of `Subgraph.dropped` for nodes dropped by the limit on all nodes instead of a hub cap."""


@dataclass(frozen=True)
class Subgraph:
    """Induced subgraph: some nodes and all edges between them.

    ``nodes``: Node ids, ascending.
    ``hop``: Steps from the nearest seed, aligned with `nodes`.
    ``edges``: Edge ids, ascending.
    ``heads``, ``tails``: Positions in `nodes` of the ends of each edge.
    ``dropped``: A row (hub, node) for each node dropped by a cap; the hub is `OVER_BUDGET` for the limit on all nodes.
    """

    nodes: IntArray
    hop: IntArray
    edges: IntArray
    heads: IntArray
    tails: IntArray
    dropped: IntArray

    def limit_hops(self, hops: int) -> Subgraph:
        """The subgraph of the nodes within ``hops`` steps, without dropped nodes."""
        is_near: BoolArray = self.hop <= hops
        kept_edges = is_near[self.heads] & is_near[self.tails]
        positions = np.cumsum(is_near) - 1
        heads = positions[self.heads[kept_edges]]
        tails = positions[self.tails[kept_edges]]
        return Subgraph(self.nodes[is_near], self.hop[is_near], self.edges[kept_edges], heads, tails, NO_NODES)


@dataclass(frozen=True)
class GraphArrays:
    """A directed multigraph with a symmetric adjacency; arrays may be memory-mapped.

    ``heads``, ``tails``, ``relations``: Edge `e` runs from `heads[e]` to `tails[e]` with relation code `relations[e]`.
    ``offsets``: The slots (adjacency entries) of node `v` are `offsets[v] : offsets[v + 1]`.
    ``neighbours``, ``slot_edges``, ``outgoing``: Other end, edge id and direction of each slot. The slots of a node are
        sorted by neighbour, then by edge id.
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
        """Number of nodes, including isolated ones."""
        return len(self.offsets) - 1

    @property
    def n_edges(self) -> int:
        """Number of edges, including parallel edges and self-loops."""
        return len(self.heads)

    @classmethod
    def from_edges(cls, n_nodes: int, heads: IntArray, relations: IntArray, tails: IntArray) -> GraphArrays:
        """Build a graph from aligned edge arrays."""
        index_type = np.int32 if max(n_nodes, 2 * len(heads)) < 2**31 else np.int64
        heads = heads.astype(index_type, copy=False)
        tails = tails.astype(index_type, copy=False)
        # Each edge is listed by its head, then by its tail (a self-loop once). Edge ids ascend in this order, and
        # the stable sort keeps it.
        is_listed = np.column_stack([np.ones(len(heads), np.bool_), heads != tails])
        owners = np.column_stack([heads, tails])[is_listed]
        neighbours = np.column_stack([tails, heads])[is_listed]
        slots: IntArray = np.flatnonzero(is_listed).astype(index_type)
        del is_listed
        order = np.lexsort((neighbours, owners))
        slots = slots[order]
        neighbours = neighbours[order]
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
        """Memory-map a saved graph; raises StaleInput if files are missing or damaged."""
        mapped = partial(np.load, mmap_mode="r", allow_pickle=False)
        return cls(**{field.name: open_asset_file(folder / f"{field.name}.npy", mapped) for field in fields(cls)})

    def degree(self, nodes: IntArray) -> IntArray:
        """Number of slots of each node: its edges, self-loops counted once."""
        degrees: IntArray = self.offsets[nodes + 1] - self.offsets[nodes]
        return degrees

    def neighbours_of(self, node: int) -> IntArray:
        """Distinct neighbours of a node in both directions, ascending."""
        return sorted_unique(self.neighbours[self.offsets[node] : self.offsets[node + 1]])

    def slots_of(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """All slots of nodes: for each slot, the position of its node in `nodes`, and its number."""
        return np.repeat(np.arange(len(nodes)), self.degree(nodes)), row_positions(self.offsets, nodes)

    def neighbour_pairs(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """(position in `nodes`, neighbour) of each node's distinct neighbours, ascending."""
        owner, slots = self.slots_of(nodes)
        others = self.neighbours[slots].astype(np.int64)
        is_first = np.ones(len(others), dtype=np.bool_)
        is_first[1:] = (others[1:] != others[:-1]) | (owner[1:] != owner[:-1])
        return owner[is_first], others[is_first]

    def edges_between(self, a: int, b: int) -> list[tuple[int, bool]]:
        """Edges between two nodes as (edge id, whether it runs from a to b), by id."""
        row = self.neighbours[self.offsets[a] : self.offsets[a + 1]]
        first, last = np.searchsorted(row, [b, b + 1]) + self.offsets[a]
        return list(zip(self.slot_edges[first:last].tolist(), self.outgoing[first:last].tolist(), strict=True))

    def edges_from(self, head: int, relation: int, tail: int) -> list[int]:
        """Edges of a relation from one node to another, by id."""
        edges = self.edges_between(head, tail)
        return [edge for edge, outgoing in edges if outgoing and self.relations[edge] == relation]

    def neighbourhood(
        self,
        seeds: Sequence[int] | IntArray,
        hops: int,
        cap: int | None = None,
        score: ScoreNodes = lambda nodes: np.zeros(len(nodes)),
        max_nodes: int | None = None,
    ) -> Subgraph:
        """Build the subgraph of all nodes within `hops` steps of the seeds.

        ``cap``: Hub cap: maximum new nodes per node, the best by `score`.
        ``score``: Relevance of nodes; ties go to the smaller node id.
        ``max_nodes``: Maximum nodes in all; the hop that exceeds it keeps the best by `score`.
        """
        frontier: IntArray = sorted_unique(np.asarray(seeds, dtype=np.int64))
        is_visited = np.zeros(self.n_nodes, dtype=np.bool_)
        budget = self.n_nodes if max_nodes is None else max_nodes
        levels: list[IntArray] = []
        dropped: list[IntArray] = [NO_NODES]
        for hop in range(hops + 1):
            if hop:
                frontier, dropped_pairs = self._expand(frontier, is_visited, cap, score)
                dropped.append(dropped_pairs)
            if len(frontier) > budget:
                frontier, dropped_pairs = _apply_cap(np.full(len(frontier), OVER_BUDGET), frontier, budget, score)
                dropped.append(dropped_pairs)
            is_visited[frontier] = True
            levels.append(frontier)
            budget -= len(frontier)
            if not budget:
                break
        hop_of = np.repeat(np.arange(len(levels)), [len(level) for level in levels])
        return self.induced_subgraph(np.concatenate(levels), hop_of, np.concatenate(dropped))

    def _expand(
        self, frontier: IntArray, is_visited: BoolArray, cap: int | None, score: ScoreNodes
    ) -> tuple[IntArray, IntArray]:
        """New neighbours of the frontier under the hub cap, and the dropped (hub, node) pairs."""
        owner, nodes = self.neighbour_pairs(frontier)
        is_new = ~is_visited[nodes]
        if cap is None:
            return sorted_unique(nodes[is_new]), NO_NODES
        kept_nodes, dropped = _apply_cap(frontier[owner[is_new]], nodes[is_new], cap, score)
        return sorted_unique(kept_nodes), dropped

    def edges_at(self, nodes: IntArray) -> IntArray:
        """Ids of all edges with at least one end in `nodes`, ascending."""
        return sorted_unique(self.slot_edges[row_positions(self.offsets, nodes)]).astype(np.int64)

    def edges_among(self, nodes: IntArray) -> IntArray:
        """Ids of all edges with both ends in `nodes`, ascending."""
        is_member = np.zeros(self.n_nodes, dtype=np.bool_)
        is_member[nodes] = True
        slots = row_positions(self.offsets, nodes)
        return sorted_unique(self.slot_edges[slots[is_member[self.neighbours[slots]]]]).astype(np.int64)

    def induced_subgraph(self, nodes: IntArray, hop: IntArray, dropped: IntArray) -> Subgraph:
        """Build the subgraph of distinct nodes in any order, and of all edges between them."""
        order = np.argsort(nodes, kind="stable")
        nodes = nodes[order]
        return self.subgraph(nodes, hop[order], self.edges_among(nodes), dropped)

    def subgraph(self, nodes: IntArray, hop: IntArray, edges: IntArray, dropped: IntArray = NO_NODES) -> Subgraph:
        """Build a subgraph from ascending nodes, their distances and the edges between them."""
        heads, tails = (np.searchsorted(nodes, ends[edges]) for ends in (self.heads, self.tails))
        return Subgraph(nodes, hop, edges, heads, tails, dropped)


def _apply_cap(hubs: IntArray, nodes: IntArray, cap: int, score: ScoreNodes) -> tuple[IntArray, IntArray]:
    """The `cap` best nodes of each hub, and the dropped (hub, node) pairs, for ascending pairs of hubs and nodes."""
    hubs_over_cap = hubs[cap:][hubs[cap:] == hubs[: max(0, len(hubs) - cap)]]
    rows = np.flatnonzero(np.isin(hubs, hubs_over_cap))
    order = np.lexsort((-score(nodes[rows]), hubs[rows]))
    ranks = np.arange(len(rows)) - np.searchsorted(hubs[rows], hubs[rows])
    dropped = np.sort(rows[order[ranks >= cap]])
    return np.delete(nodes, dropped), np.column_stack([hubs[dropped], nodes[dropped]])


class TypedGraph:
    """Node types and typed edges, for neighbour queries of node sets.

    ``node_types``: Type code of each node.
    ``heads``, ``edge_types``, ``tails``: The edges; duplicates are dropped.
    """

    def __init__(self, node_types: ArrayLike, heads: ArrayLike, edge_types: ArrayLike, tails: ArrayLike) -> None:
        self.node_types = np.asarray(node_types, dtype=np.int32)
        self.n_nodes = len(self.node_types)
        self._heads, self._types, self._tails = (np.asarray(a, dtype=np.int32) for a in (heads, edge_types, tails))
        self.edge_types = tuple(sorted_unique(self._types).tolist())
        self._matrices: dict[tuple[int | None, bool], csr_array] = {}

    def pairs(self, edge_type: int | None, nodes: IntArray, *, outgoing: bool) -> tuple[IntArray, IntArray]:
        """Distinct pairs of one of the ascending ``nodes`` and a node to which it has an edge, or from which.

        ``edge_type``: Type of the edges; None for any.
        """
        if (edge_type, outgoing) not in self._matrices:
            selection = slice(None) if edge_type is None else self._types == edge_type
            ends = self._heads[selection], self._tails[selection]
            matrix = csr_array((np.ones(len(ends[0]), np.bool_), ends if outgoing else ends[::-1]), [self.n_nodes] * 2)
            self._matrices[edge_type, outgoing] = matrix
        rows = self._matrices[edge_type, outgoing][nodes]
        return np.repeat(nodes, np.diff(rows.indptr)), rows.indices

    def of_type(self, node_type: int | None) -> IntArray:
        """All nodes of a type, or all nodes for None."""
        return np.arange(self.n_nodes) if node_type is None else np.flatnonzero(self.node_types == node_type)


def find_positions(ascending: pl.Series, values: pl.Series) -> IntArray:
    """Position of each value in an ascending series; −1 for absent values."""
    if not len(ascending) or not len(values):
        return np.full(len(values), -1, np.int64)
    positions = ascending.search_sorted(values).to_numpy().astype(np.int64)
    is_equal = ascending.gather(np.minimum(positions, len(ascending) - 1)) == values
    return np.where(is_equal.to_numpy(), positions, -1)
