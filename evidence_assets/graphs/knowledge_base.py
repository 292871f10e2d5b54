"""A semi-structured knowledge base: typed nodes with names, aliases and a document each, joined by typed edges."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evidence_assets.graphs.graph import Graph
from evidence_assets.graphs.typed_graph import TypedGraph
from evidence_assets.lake.ids import content_id

IntArray = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class KnowledgeBase:
    """Nodes and edges by position; types are codes into ``node_type_names`` and ``edge_type_names``.

    ``answer_types`` are the codes of the node types that can be an answer; empty means all.
    """

    node_ids: tuple[str, ...]
    node_types: IntArray
    names: tuple[str, ...]
    aliases: tuple[tuple[str, ...], ...]
    documents: tuple[str, ...]
    heads: IntArray
    edge_types: IntArray
    tails: IntArray
    node_type_names: tuple[str, ...]
    edge_type_names: tuple[str, ...]
    answer_types: frozenset[int] = field(default=frozenset())

    def __len__(self) -> int:
        return len(self.node_ids)

    @cached_property
    def typed_graph(self) -> TypedGraph:
        """For set-at-a-time neighbour queries."""
        return TypedGraph(self.node_types, self.heads, self.edge_types, self.tails)

    @cached_property
    def graph(self) -> Graph:
        """For neighbourhoods and paths."""
        return Graph.from_edges(len(self), self.heads, self.edge_types, self.tails)

    def triple(self, head: int, edge_type: int, tail: int) -> tuple[str, str, str]:
        """An edge in words."""
        return self.names[head], self.edge_type_names[edge_type], self.names[tail]

    def edge_id(self, head: int, edge_type: int, tail: int) -> str:
        """Id of an edge: the same fact has the same id in every base that holds it under the same node ids."""
        return content_id("edge", self.node_ids[head], self.edge_type_names[edge_type], self.node_ids[tail])

    def relations_of(self, node: int, limit: int = 20) -> list[tuple[str, str, str]]:
        """The first ``limit`` edges of a node, in words, in the order in which they were read."""
        graph = self.graph
        edges = np.sort(graph.slot_edges[graph.offsets[node] : graph.offsets[node + 1]])[:limit]
        return [self.triple(int(self.heads[e]), int(self.edge_types[e]), int(self.tails[e])) for e in edges]

    @cached_property
    def content_hash(self) -> str:
        """Hash of everything in the base."""
        arrays = (self.node_types, self.heads, self.edge_types, self.tails)
        digests = [hashlib.blake2b(np.asarray(a, dtype="<i8").tobytes(), digest_size=16).hexdigest() for a in arrays]
        return content_id(
            "knowledge_base", self.node_ids, self.names, self.aliases, self.documents, self.node_type_names,
            self.edge_type_names, sorted(self.answer_types), digests,
        )  # fmt: skip
