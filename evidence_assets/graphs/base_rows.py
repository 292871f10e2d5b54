"""Semi-structured knowledge bases as rows of ``kg_nodes`` and ``kg_edges``.

Ids of a base's own nodes are kept behind its name, such as ``sample_skb:n0217``, so that ids of two bases never meet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from evidence_assets.graphs.merge import EDGE, ENDS
from evidence_assets.lake.rows import content_ids, dictionary_encode
from evidence_assets.lake.schemas import TABLES
from evidence_assets.text.sentences import sentence_spans


def prefixed_node_id(base: str, source_id: str) -> str:
    """The lake's id of a node that its base calls ``source_id``."""
    return f"{base}:{source_id}"


NODE_SCHEMA = pl.Schema(
    {
        "node_id": pl.String(),
        "name": pl.String(),
        "aliases": pl.List(pl.String()),
        "type": pl.String(),
        "document": pl.String(),
    }
)


@dataclass(frozen=True)
class KnowledgeBaseTables:
    """What the files of a base state, under its own ids.

    ``nodes`` has the columns of `NODE_SCHEMA`, ``edges`` head_id, relation and tail_id, each edge once.
    """

    nodes: pl.DataFrame
    edges: pl.DataFrame


def node_rows(nodes: pl.DataFrame, name: str, source: str) -> pl.DataFrame:
    """Rows of ``kg_nodes`` of the nodes that the file ``source`` of a base states."""
    named = pl.concat_str(pl.lit(prefixed_node_id(name, "")), "node_id").alias("node_id")
    return nodes.with_columns(named, pl.lit(source).alias("source")).select(TABLES["kg_nodes"].names)


def edge_rows(edges: pl.DataFrame, name: str, source: str, licence: str = "") -> pa.Table:
    """Rows of ``kg_edges`` of the edges that the file ``source`` of a base states, as dictionary codes."""
    prefix = prefixed_node_id(name, "")
    columns = {c: _encode_with_prefix(edges[c], "" if c == "relation" else prefix) for c in ENDS}
    columns["edge_id"] = content_ids(EDGE, *columns.values())
    for column, text in (("triple_ids", ""), ("sources", source), ("licences", licence)):
        same = pa.array([[text] if text else []], pa.list_(pa.string()))
        columns[column] = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(edges), np.int8)), same)
    return pa.table(columns)


def _encode_with_prefix(values: pl.Series, prefix: str) -> pa.DictionaryArray:
    """Texts as codes with a dictionary, of which each has the prefix."""
    array = dictionary_encode(values)
    return pa.DictionaryArray.from_arrays(array.indices, pc.binary_join_element_wise(prefix, array.dictionary, ""))


def extract_definitions(nodes: pl.DataFrame) -> dict[str, str]:
    """What each name and alias means: the first sentence of its node's document; a name of several nodes has none."""
    found: dict[str, set[str]] = {}
    for name, aliases, document in nodes.select("name", "aliases", "document").iter_rows():
        spans = sentence_spans(document or "")
        if spans:
            for surface in (name, *aliases):
                found.setdefault(surface, set()).add(document[spans[0][0] : spans[0][1]])
    return {surface: next(iter(said)) for surface, said in found.items() if len(said) == 1}
