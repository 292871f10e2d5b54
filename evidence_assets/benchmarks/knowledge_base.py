"""A user's own semi-structured knowledge base: ``nodes.jsonl`` and ``edges.tsv``.

STaRK's processed layout is read in ``stark``.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

import polars as pl

from evidence_assets.benchmarks.reading import Row, delimited
from evidence_assets.benchmarks.reading_json import jsonl
from evidence_assets.graphs.base_rows import NODE_SCHEMA, BaseFiles
from evidence_assets.lake.errors import BadInput

NODE_FIELDS = ("node_id", "type", "name", "aliases", "document")
EDGE_FIELDS = ("head_id", "type", "tail_id")


def read_knowledge_base(folder: Path, answer_types: frozenset[str] = frozenset()) -> BaseFiles:
    """Read ``nodes.jsonl`` and ``edges.tsv``; a node of each answer type must be there.

    A node is ``{"node_id": …, "type": …, "name": …, "aliases": […], "document": …}``, the last two optional.
    ``edges.tsv`` has the columns head_id, type, tail_id; its first row may name them. Equal edges count once.
    """
    nodes: dict[str, tuple[str, str, list[str], str, str]] = {}
    nodes_file, edges_file = folder / "nodes.jsonl", folder / "edges.tsv"
    for row in jsonl(nodes_file):
        row.only(NODE_FIELDS)
        node_id = row.label("node_id")
        if node_id in nodes:
            raise row.bad(f"{node_id!r} occurs twice; each id stands for one node", "node_id")
        name, kind = row.text("name"), row.text("type")
        aliases = row.texts("aliases") if row.values.get("aliases") is not None else ()
        nodes[node_id] = node_id, name, list(aliases), kind, row.text_or_none("document") or ""
    if not nodes:
        raise BadInput("holds no node; a knowledge base needs at least one", file=nodes_file)
    types = list(dict.fromkeys(kind for _, _, _, kind, _ in nodes.values()))
    unknown = sorted(answer_types - set(types))
    if unknown:
        raise BadInput(f"no node has the answer type {unknown[0]!r}; the types are {', '.join(types)}", file=nodes_file)
    edges: dict[tuple[str, str, str], None] = {}
    for line, cells in delimited(edges_file, columns=len(EDGE_FIELDS)):
        if line == 1 and tuple(cells) == EDGE_FIELDS:
            continue
        row = Row(dict(zip(EDGE_FIELDS, cells, strict=True)), edges_file, line)
        edges[_known(row, "head_id", nodes), row.text("type"), _known(row, "tail_id", nodes)] = None
    return BaseFiles(
        pl.DataFrame(list(nodes.values()), schema=NODE_SCHEMA, orient="row"),
        pl.DataFrame(list(edges), schema=dict.fromkeys(("head_id", "relation", "tail_id"), pl.String), orient="row"),
    )


def _known(row: Row, column: str, nodes: Container[str]) -> str:
    node_id = row.label(column)
    if node_id not in nodes:
        raise row.bad(f"{node_id!r} is no node of nodes.jsonl", column)
    return node_id
