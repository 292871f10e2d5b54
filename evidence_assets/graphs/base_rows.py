"""Knowledge bases and graphs as rows of ``kg_nodes`` and ``kg_edges``, and back.

The ids of a base's own nodes are kept: node ``n0217`` of the base ``sample_skb`` is ``sample_skb:n0217`` everywhere in
the lake, in gold answers as in predictions, so that equal ids of two bases never meet.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import polars as pl

from evidence_assets.graphs.facts import GraphFacts, Verbalise, plain_sentence
from evidence_assets.graphs.graph import Graph
from evidence_assets.graphs.knowledge_base import KnowledgeBase
from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.ids import content_id
from evidence_assets.text.sentences import sentence_spans


def node_id(base: str, source_id: str) -> str:
    """The lake's id of a node that its base calls ``source_id``.

    >>> node_id("sample_skb", "n0217")
    'sample_skb:n0217'
    """
    return f"{base}:{source_id}"


def source_id(base: str, lake_id: str) -> str:
    """What the base itself calls the node."""
    return lake_id.removeprefix(f"{base}:")


def node_rows(name: str, base: KnowledgeBase) -> list[dict[str, Any]]:
    """Rows of ``kg_nodes``."""
    return [
        {
            "node_id": node_id(name, own),
            "name": base.names[i],
            "aliases": list(base.aliases[i]),
            "type": base.node_type_names[int(base.node_types[i])],
            "document": base.documents[i],
        }
        for i, own in enumerate(base.node_ids)
    ]


def edge_rows(name: str, base: KnowledgeBase, source: str, licence: str = "") -> list[dict[str, Any]]:
    """Rows of ``kg_edges``: id of an edge is the hash of its ends' ids and its type."""
    made = []
    for head, kind, tail in zip(base.heads.tolist(), base.edge_types.tolist(), base.tails.tolist(), strict=True):
        ends = node_id(name, base.node_ids[head]), node_id(name, base.node_ids[tail])
        relation = base.edge_type_names[kind]
        made.append(
            {
                "edge_id": content_id("edge", ends[0], relation, ends[1]),
                "head_id": ends[0],
                "relation": relation,
                "tail_id": ends[1],
                "triple_ids": [],
                "sources": [source],
                "licences": [licence] if licence else [],
            }
        )
    return made


def base_of(nodes: pl.DataFrame, edges: pl.DataFrame, answer_types: Collection[str] = ()) -> KnowledgeBase:
    """The knowledge base that rows stand for, its nodes in the order of their ids; the lake's ids are its ids."""
    nodes, edges = nodes.sort("node_id"), edges.sort("head_id", "relation", "tail_id")
    ids = tuple(nodes["node_id"].to_list())
    types = tuple(sorted({t or "" for t in nodes["type"].to_list()}))
    relations = tuple(sorted(edges["relation"].unique().to_list()))
    return KnowledgeBase(
        node_ids=ids,
        node_types=_codes([t or "" for t in nodes["type"].to_list()], types),
        names=tuple(nodes["name"].to_list()),
        aliases=tuple(tuple(a) for a in nodes["aliases"].to_list()),
        documents=tuple(d or "" for d in nodes["document"].to_list()),
        heads=_codes(edges["head_id"].to_list(), ids),
        edge_types=_codes(edges["relation"].to_list(), relations),
        tails=_codes(edges["tail_id"].to_list(), ids),
        node_type_names=types,
        edge_type_names=relations,
        answer_types=frozenset(types.index(t) for t in answer_types if t in types),
    )


def definitions_of(nodes: pl.DataFrame) -> dict[str, str]:
    """What each name and alias means: the first sentence of its node's document; a name of several nodes has none."""
    found: dict[str, set[str]] = {}
    for name, aliases, document in nodes.select("name", "aliases", "document").iter_rows():
        spans = sentence_spans(document or "")
        if spans:
            for surface in (name, *aliases):
                found.setdefault(surface, set()).add(document[spans[0][0] : spans[0][1]])
    return {surface: next(iter(said)) for surface, said in found.items() if len(said) == 1}


def facts_of_rows(nodes: pl.DataFrame, edges: pl.DataFrame, verbalise: Verbalise = plain_sentence) -> GraphFacts:
    """The graph that rows stand for: nodes in the order of their ids, edges in the order of theirs."""
    nodes, edges = nodes.sort("node_id"), edges.sort("edge_id")
    ids = nodes["node_id"].to_list()
    relations = sorted(edges["relation"].unique().to_list())
    edge_ids = edges["edge_id"].to_list()
    graph = Graph.from_edges(
        len(ids),
        _codes(edges["head_id"].to_list(), ids),
        _codes(edges["relation"].to_list(), relations),
        _codes(edges["tail_id"].to_list(), ids),
    )
    names = nodes["name"].to_list()
    version = content_id("graph", ids, names, nodes["aliases"].to_list(), edge_ids)
    return GraphFacts(graph, names, relations, edge_ids, edge_ids, version, verbalise)


def _codes(values: Sequence[str], names: Sequence[str]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Positions of values among names."""
    position = {name: i for i, name in enumerate(names)}
    try:
        return np.array([position[value] for value in values], dtype=np.int64)
    except KeyError as error:
        raise StaleInput(f"an edge names the node {error}, which is not there: make the graph's nodes again") from error
