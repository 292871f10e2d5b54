"""A semi-structured knowledge base: typed nodes with names, aliases and a document each, joined by typed edges.

Belongs here: the shape that every such base is read into, and the reader of a user's own (``nodes.jsonl`` and
``edges.tsv``). STaRK's processed layout is read in ``stark``.
"""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evidence_assets.datasets.reading import Row, delimited
from evidence_assets.datasets.reading_json import jsonl
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.methods.graph import Graph
from evidence_assets.methods.typed_graph import TypedGraph

NODE_FIELDS = ("node_id", "type", "name", "aliases", "document")
EDGE_FIELDS = ("head_id", "type", "tail_id")
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


class Codes:
    """Names numbered in the order of their first appearance."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        return self.of.setdefault(name, len(self.of))


def read_knowledge_base(folder: Path, answer_types: frozenset[str] = frozenset()) -> KnowledgeBase:
    """Read ``nodes.jsonl`` and ``edges.tsv``.

    A node is ``{"node_id": …, "type": …, "name": …, "aliases": […], "document": …}``, the last two optional.
    ``edges.tsv`` has the columns head_id, type, tail_id; its first row may name them. Equal edges count once.
    """
    positions: dict[str, int] = {}
    names: list[str] = []
    aliases: list[tuple[str, ...]] = []
    documents: list[str] = []
    kinds = array("i")
    node_type, edge_type = Codes(), Codes()
    nodes_file, edges_file = folder / "nodes.jsonl", folder / "edges.tsv"
    for row in jsonl(nodes_file):
        row.only(NODE_FIELDS)
        node_id = row.label("node_id")
        if positions.setdefault(node_id, len(names)) != len(names):
            raise row.bad(f"{node_id!r} occurs twice; each id stands for one node", "node_id")
        names.append(row.text("name"))
        kinds.append(node_type(row.text("type")))
        aliases.append(row.texts("aliases") if row.values.get("aliases") is not None else ())
        documents.append(row.text_or_none("document") or "")
    if not names:
        raise BadInput("holds no node; a knowledge base needs at least one", file=nodes_file)
    unknown = sorted(answer_types - node_type.of.keys())
    if unknown:
        raise BadInput(
            f"no node has the answer type {unknown[0]!r}; the types are {', '.join(node_type.of)}", file=nodes_file
        )
    ends = array("i")
    for line, cells in delimited(edges_file, columns=len(EDGE_FIELDS)):
        if line == 1 and tuple(cells) == EDGE_FIELDS:
            continue
        row = Row(dict(zip(EDGE_FIELDS, cells, strict=True)), edges_file, line)
        ends.extend((_known(row, "head_id", positions), edge_type(row.text("type")), _known(row, "tail_id", positions)))
    heads, types, tails = np.unique(np.array(ends, dtype=np.int64).reshape(-1, 3), axis=0).T
    return KnowledgeBase(
        node_ids=tuple(positions),
        node_types=np.array(kinds, dtype=np.int64),
        names=tuple(names),
        aliases=tuple(aliases),
        documents=tuple(documents),
        heads=heads,
        edge_types=types,
        tails=tails,
        node_type_names=tuple(node_type.of),
        edge_type_names=tuple(edge_type.of),
        answer_types=frozenset(node_type.of[name] for name in answer_types),
    )


def _known(row: Row, column: str, positions: dict[str, int]) -> int:
    node_id = row.label(column)
    if node_id not in positions:
        raise row.bad(f"{node_id!r} is no node of nodes.jsonl", column)
    return positions[node_id]
