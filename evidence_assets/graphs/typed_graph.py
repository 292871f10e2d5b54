"""A graph by edge type: neighbours of a set of nodes for one edge type and direction.

Pairs are stored per type and direction, because the undirected rows of ``arrays`` need a filter in every step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evidence_assets.graphs.arrays import IntArray
from evidence_assets.lake.array_files import sorted_unique


@dataclass(frozen=True)
class EdgeRows:
    """Distinct pairs of a node and its neighbour, sorted."""

    sources: IntArray
    targets: IntArray

    @classmethod
    def build(cls, sources: IntArray, targets: IntArray, n_nodes: int) -> EdgeRows:
        """Build rows from an edge list, without parallel edges."""
        key = sources.astype(np.int64) * max(n_nodes, 1) + targets
        key.sort()
        if len(key):
            key = key[np.append(True, key[1:] != key[:-1])]
        return cls((key // max(n_nodes, 1)).astype(np.int32), (key % max(n_nodes, 1)).astype(np.int32))

    def pairs(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """All (source, target) pairs with a source in the sorted ``nodes``."""
        low = np.searchsorted(self.sources, nodes)
        lengths = np.searchsorted(self.sources, nodes, side="right") - low
        positions = np.arange(lengths.sum()) + np.repeat(low - (np.cumsum(lengths) - lengths), lengths)
        return np.repeat(nodes, lengths), self.targets[positions]


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
        self._rows: dict[tuple[int | None, bool], EdgeRows] = {}

    def rows(self, edge_type: int | None, *, outgoing: bool) -> EdgeRows:
        """Rows of one edge type (None: any type) by head (``outgoing``) or by tail."""
        if (edge_type, outgoing) not in self._rows:
            selection = slice(None) if edge_type is None else self._types == edge_type
            ends = self._heads[selection], self._tails[selection]
            self._rows[edge_type, outgoing] = EdgeRows.build(*(ends if outgoing else ends[::-1]), self.n_nodes)
        return self._rows[edge_type, outgoing]

    def of_type(self, node_type: int | None) -> IntArray:
        """All nodes of a type, or all nodes for None."""
        return np.arange(self.n_nodes) if node_type is None else np.flatnonzero(self.node_types == node_type)

    def as_set(self, nodes: IntArray) -> IntArray:
        """The distinct nodes, ascending."""
        is_member = np.zeros(self.n_nodes, dtype=bool)
        is_member[nodes] = True
        return np.flatnonzero(is_member)
