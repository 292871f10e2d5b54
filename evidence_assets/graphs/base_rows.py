"""Semi-structured knowledge bases as rows of ``kg_nodes`` and ``kg_edges``.

The ids of a base's own nodes are kept: node ``n0217`` of the base ``sample_skb`` is ``sample_skb:n0217`` everywhere in
the lake, in gold answers as in predictions, so that equal ids of two bases never meet.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from evidence_assets.graphs.merge import with_edge_ids
from evidence_assets.lake.schemas import TABLES
from evidence_assets.text.sentences import sentence_spans


def node_id(base: str, source_id: str) -> str:
    """The lake's id of a node that its base calls ``source_id``.

    >>> node_id("sample_skb", "n0217")
    'sample_skb:n0217'
    """
    return f"{base}:{source_id}"


@dataclass(frozen=True)
class BaseFiles:
    """What the files of a base state, under its own ids.

    ``nodes`` has the columns node_id, name, aliases, type and document, ``edges`` head_id, relation and tail_id, each
    edge once.
    """

    nodes: pl.DataFrame
    edges: pl.DataFrame


def node_rows(nodes: pl.DataFrame, name: str) -> pl.DataFrame:
    """Rows of ``kg_nodes`` of the nodes that the files of a base state."""
    return nodes.with_columns(_named(name, "node_id")).select(TABLES["kg_nodes"].names)


def edge_rows(edges: pl.DataFrame, name: str, source: str, licence: str = "") -> pl.DataFrame:
    """Rows of ``kg_edges`` of the edges that the files of a base state."""
    texts, none = pl.List(pl.String), pl.lit([], dtype=pl.List(pl.String))
    return with_edge_ids(edges.with_columns(_named(name, "head_id"), _named(name, "tail_id"))).with_columns(
        none.alias("triple_ids"),
        pl.lit([source], dtype=texts).alias("sources"),
        pl.lit([licence] if licence else [], dtype=texts).alias("licences"),
    )


def _named(base: str, column: str) -> pl.Expr:
    return pl.concat_str(pl.lit(node_id(base, "")), column).alias(column)


def definitions_of(nodes: pl.DataFrame) -> dict[str, str]:
    """What each name and alias means: the first sentence of its node's document; a name of several nodes has none."""
    found: dict[str, set[str]] = {}
    for name, aliases, document in nodes.select("name", "aliases", "document").iter_rows():
        spans = sentence_spans(document or "")
        if spans:
            for surface in (name, *aliases):
                found.setdefault(surface, set()).add(document[spans[0][0] : spans[0][1]])
    return {surface: next(iter(said)) for surface, said in found.items() if len(said) == 1}
