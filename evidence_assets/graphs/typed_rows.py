"""The typed view of a graph: neighbours of a *set* of nodes under *one* edge type and direction.

Rows are kept for each edge type and direction and hold only nodes that have such an edge: in the undirected rows of
``arrays``, which paths and neighbourhoods need, every step would cost a filter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Rows:
    """Neighbour lists of the nodes that have any: ``targets[starts[i]:starts[i+1]]`` belong to ``sources[i]``."""

    sources: IntArray
    starts: IntArray
    targets: IntArray

    @classmethod
    def build(cls, sources: IntArray, targets: IntArray, n_nodes: int) -> Rows:
        """Rows of an edge list; parallel edges are kept once."""
        key = sources.astype(np.int64) * max(n_nodes, 1) + targets
        key.sort()
        if len(key):
            key = key[np.append(True, key[1:] != key[:-1])]
        owners = (key // max(n_nodes, 1)).astype(np.int32)
        first = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]]) if len(key) else np.zeros(0, np.int64)
        return cls(owners[first], np.append(first, len(key)), (key % max(n_nodes, 1)).astype(np.int32))

    def _found(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        if not len(self.sources):
            return nodes[:0], nodes[:0].astype(np.int64)
        place = np.minimum(np.searchsorted(self.sources, nodes), len(self.sources) - 1)
        hit = self.sources[place] == nodes
        return nodes[hit], place[hit]

    def degree(self, nodes: IntArray) -> int:
        """Number of neighbours of all ``nodes`` together."""
        _, place = self._found(nodes)
        return int((self.starts[place + 1] - self.starts[place]).sum())

    def pairs(self, nodes: IntArray | None) -> tuple[IntArray, IntArray]:
        """All (source, target) pairs whose source is among the sorted ``nodes``; all pairs for None."""
        if nodes is None:
            return np.repeat(self.sources, np.diff(self.starts)), self.targets
        found, place = self._found(nodes)
        starts, lengths = self.starts[place], self.starts[place + 1] - self.starts[place]
        offsets = np.repeat(starts - np.append(0, np.cumsum(lengths)[:-1]), lengths) if len(found) else lengths
        return np.repeat(found, lengths), self.targets[offsets + np.arange(len(offsets))]


class TypedRows:
    """Nodes and edges with integer types, for set-at-a-time neighbour queries.

    Parameters
    ----------
    node_types
        Type code of each node.
    heads, edge_types, tails
        The edges; equal edges count once.
    """

    def __init__(self, node_types: ArrayLike, heads: ArrayLike, edge_types: ArrayLike, tails: ArrayLike) -> None:
        self.node_types = np.asarray(node_types, dtype=np.int32)
        self.n_nodes = len(self.node_types)
        head, kind, tail = (np.asarray(a, dtype=np.int32) for a in (heads, edge_types, tails))
        if not len(head) == len(kind) == len(tail):
            raise ValueError(
                f"{len(head)} heads, {len(kind)} edge types and {len(tail)} tails: give one of each an edge"
            )
        for name, ends in (("head", head), ("tail", tail)):
            if len(ends) and not 0 <= ends.min() <= ends.max() < self.n_nodes:
                raise ValueError(f"an edge has a {name} outside of the {self.n_nodes} nodes")
        self._out, self._in = {}, {}
        order = np.argsort(kind, kind="stable")
        codes, first = np.unique(kind[order], return_index=True)
        for code, start, stop in zip(codes.tolist(), first, np.append(first, len(order))[1:], strict=True):
            edges = order[start:stop]
            self._out[code] = Rows.build(head[edges], tail[edges], self.n_nodes)
            self._in[code] = Rows.build(tail[edges], head[edges], self.n_nodes)
        self.edge_types = tuple(codes.tolist())
        self._nothing = Rows.build(head[:0], tail[:0], self.n_nodes)

    @cached_property
    def _any_out(self) -> Rows:
        pairs = [rows.pairs(None) for rows in self._out.values()] or [self._nothing.pairs(None)]
        return Rows.build(np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs]), self.n_nodes)

    @cached_property
    def _any_in(self) -> Rows:
        sources, targets = self._any_out.pairs(None)
        return Rows.build(targets, sources, self.n_nodes)

    def rows(self, edge_type: int | None, *, outgoing: bool) -> Rows:
        """Rows of one edge type (None: of any type), seen from the head (``outgoing``) or the tail."""
        if edge_type is None:
            return self._any_out if outgoing else self._any_in
        return (self._out if outgoing else self._in).get(edge_type, self._nothing)

    def of_type(self, node_type: int | None) -> IntArray:
        """All nodes of a type, or all nodes for None."""
        return np.arange(self.n_nodes) if node_type is None else np.flatnonzero(self.node_types == node_type)

    def as_set(self, nodes: IntArray) -> IntArray:
        """The distinct nodes, ascending."""
        present = np.zeros(self.n_nodes, dtype=bool)
        present[nodes] = True
        return np.flatnonzero(present)
