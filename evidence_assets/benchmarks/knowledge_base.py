"""A semi-structured knowledge base: typed nodes with names, aliases and a document each, joined by typed edges.

Belongs here: the shape that every such base is read into, and the reader of a user's own (``nodes.jsonl`` and
``edges.tsv``). STaRK's processed layout is read in ``stark``.
"""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np

from evidence_assets.benchmarks.reading import Row, delimited
from evidence_assets.benchmarks.reading_json import jsonl
from evidence_assets.graphs.knowledge_base import KnowledgeBase
from evidence_assets.lake.errors import BadInput

NODE_FIELDS = ("node_id", "type", "name", "aliases", "document")
EDGE_FIELDS = ("head_id", "type", "tail_id")


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
