"""Declared knowledge bases, and the reader of a user's files (``nodes.jsonl`` and ``edges.tsv``)."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

import polars as pl
from pydantic import Field

from evidence_assets.benchmarks.declared_benchmarks import RawInput, declarations_of, validate_attributes
from evidence_assets.benchmarks.json_streams import jsonl_rows
from evidence_assets.benchmarks.line_streams import headed_rows
from evidence_assets.benchmarks.official.stark import ANSWER_TYPES, read_stark_edges, read_stark_nodes
from evidence_assets.benchmarks.records import UniqueIds
from evidence_assets.graphs.merge import NODE_SCHEMA, KnowledgeBaseTables
from evidence_assets.lake.errors import BadInput

BASE_FILES = ("nodes.jsonl", "edges.tsv")
NODE_FIELDS = ("node_id", "type", "name", "aliases", "document")
EDGE_FIELDS = ("head_id", "type", "tail_id")


def read_knowledge_base(folder: Path, answer_types: frozenset[str] = frozenset()) -> KnowledgeBaseTables:
    """Read ``nodes.jsonl`` and ``edges.tsv``; every answer type needs at least one node.

    A node is ``{"node_id": …, "type": …, "name": …, "aliases": […], "document": …}``; the last two are optional.
    ``edges.tsv`` has the columns head_id, type, tail_id, with or without a header. Duplicate edges are dropped.
    """
    nodes_file = folder / BASE_FILES[0]
    nodes = _read_nodes(nodes_file)
    types = nodes["type"].unique(maintain_order=True).to_list()
    if unknown_types := sorted(answer_types.difference(types)):
        message = f"no node has the answer type {unknown_types[0]!r}; the types are {', '.join(types)}"
        raise BadInput(message, file=nodes_file)
    return KnowledgeBaseTables(nodes, _read_edges(folder / BASE_FILES[1], frozenset(nodes["node_id"])))


def _read_nodes(file: Path) -> pl.DataFrame:
    ids = UniqueIds("node_id")
    nodes = []
    for row in jsonl_rows(file):
        row.check_field_names(NODE_FIELDS)
        node_id = row.label("node_id")
        ids.add(node_id, row)
        aliases = list(row.texts("aliases", optional=True))
        document = row.text_or_none("document") or ""
        nodes.append((node_id, row.text("name"), aliases, row.text("type"), document))
    if not nodes:
        raise BadInput("contains no nodes; a knowledge base needs at least one", file=file)
    return pl.DataFrame(nodes, schema=NODE_SCHEMA, orient="row")


def _read_edges(file: Path, node_ids: frozenset[str]) -> pl.DataFrame:
    """Read the distinct edges between these nodes, in the order of the file."""
    edges: dict[tuple[str, str, str], None] = {}
    for row in headed_rows(file, EDGE_FIELDS, "\t", quoted=False, header=False):
        if row.line == 1 and tuple(row.values.values()) == EDGE_FIELDS:
            continue
        for column in ("head_id", "tail_id"):
            if row.label(column) not in node_ids:
                raise row.error(f"{row.values[column]!r} is not a node of nodes.jsonl", column)
        edges[row.label("head_id"), row.text("type"), row.label("tail_id")] = None
    return pl.DataFrame(list(edges), schema=dict.fromkeys(("head_id", "relation", "tail_id"), pl.String), orient="row")


class KnowledgeBase(RawInput):
    """Declaration of a knowledge base: the assets ``knowledge/<name>/nodes``, ``edges`` and ``passages`` of a folder.

    A node's id in the lake is ``<name>:<node_id>``; gold answers of benchmarks with this graph get the same prefix.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    folder: str
    """Folder in the lake's raw folder."""
    layout: Literal["own", "stark_prime", "stark_mag", "stark_amazon"] = "own"
    """``own`` reads ``nodes.jsonl`` and ``edges.tsv``; the others read STaRK's processed layout."""
    licence: str = ""
    answer_types: tuple[str, ...] = ()
    """Node types that can be an answer; by default all types, or those that STaRK defines for its layout."""
    symmetric: tuple[str, ...] = ()
    """Edge types without a direction."""
    edge_names: Literal["short", "with_end_types"] = "short"
    """Names of MAG's edge types: ``writes``, or STaRK's ``author___writes___paper``."""
    forms: Literal["", "sample"] = ""
    """Question templates for profiles without a language model; only the sample has some."""

    @property
    def answers(self) -> tuple[str, ...]:
        """Node types that can be an answer."""
        return self.answer_types or ANSWER_TYPES.get(self.layout.removeprefix("stark_"), ())

    @property
    def sources(self) -> tuple[str, str]:
        """The files of nodes and edges in the lake's raw folder."""
        files = BASE_FILES if self.layout == "own" else ("node_info.jsonl", "edge_index.pt")
        return f"{self.folder}/{files[0]}", f"{self.folder}/{files[1]}"

    def read_nodes(self, folder: Path) -> pl.DataFrame:
        """Read the nodes from the base's files."""
        if self.layout != "own":
            return read_stark_nodes(folder, self.layout.removeprefix("stark_"))
        return read_knowledge_base(folder, frozenset(self.answer_types)).nodes

    def read_edges(self, folder: Path) -> pl.DataFrame:
        """Read the edges from the base's files."""
        if self.layout != "own":
            with_end_types = self.edge_names == "with_end_types"
            return read_stark_edges(folder, self.layout.removeprefix("stark_"), with_end_types=with_end_types)
        return read_knowledge_base(folder, frozenset(self.answer_types)).edges


@lru_cache
def knowledge_bases(folder: Path | None = None) -> dict[str, KnowledgeBase]:
    """Load the declared knowledge bases by name."""
    bases = (validate_attributes(KnowledgeBase, d) for d in declarations_of("KnowledgeBase", folder))
    return {base.name: base for base in bases}


def find_knowledge_base(name: str) -> KnowledgeBase:
    """Look up a declared knowledge base."""
    if name not in knowledge_bases():
        raise BadInput(f"no knowledge base {name!r} is declared; available: {', '.join(knowledge_bases()) or 'none'}")
    return knowledge_bases()[name]
