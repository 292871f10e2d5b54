"""Semi-structured knowledge bases as rows of ``kg_nodes`` and ``kg_edges``.

Node ids get the name of their base as prefix, such as ``sample_skb:n0217``, so ids of two bases never collide.
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
    """Id in the lake of a node of a knowledge base."""
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
    """Nodes and edges of a knowledge base with the ids of its files.

    ``nodes`` has the columns of `NODE_SCHEMA`; ``edges`` has head_id, relation and tail_id without duplicates.
    """

    nodes: pl.DataFrame
    edges: pl.DataFrame


def node_rows(nodes: pl.DataFrame, name: str, source: str) -> pl.DataFrame:
    """Rows of ``kg_nodes`` for the nodes of a base; ``source`` is their file."""
    lake_ids = pl.concat_str(pl.lit(prefixed_node_id(name, "")), "node_id").alias("node_id")
    return nodes.with_columns(lake_ids, pl.lit(source).alias("source")).select(TABLES["kg_nodes"].names)


def edge_rows(edges: pl.DataFrame, name: str, source: str, licence: str = "") -> pa.Table:
    """Dictionary-encoded rows of ``kg_edges`` for the edges of a base; ``source`` is their file."""
    prefix = prefixed_node_id(name, "")
    columns = {c: _encode_with_prefix(edges[c], "" if c == "relation" else prefix) for c in ENDS}
    columns["edge_id"] = content_ids(EDGE, *columns.values())
    for column, text in (("triple_ids", ""), ("sources", source), ("licences", licence)):
        dictionary = pa.array([[text] if text else []], pa.list_(pa.string()))
        columns[column] = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(edges), np.int8)), dictionary)
    return pa.table(columns)


def _encode_with_prefix(values: pl.Series, prefix: str) -> pa.DictionaryArray:
    """Dictionary-encode texts and add a prefix to each."""
    array = dictionary_encode(values)
    return pa.DictionaryArray.from_arrays(array.indices, pc.binary_join_element_wise(prefix, array.dictionary, ""))


def extract_definitions(nodes: pl.DataFrame) -> dict[str, str]:
    """Map unambiguous names and aliases to the first sentence of their node's document."""
    sentences: dict[str, set[str]] = {}
    for name, aliases, document in nodes.select("name", "aliases", "document").iter_rows():
        spans = sentence_spans(document or "")
        if spans:
            for surface in (name, *aliases):
                sentences.setdefault(surface, set()).add(document[spans[0][0] : spans[0][1]])
    return {surface: next(iter(definitions)) for surface, definitions in sentences.items() if len(definitions) == 1}
