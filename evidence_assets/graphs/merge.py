"""Merges triples of several sources into one graph with the id, source and licence of each triple.

Names are one node if `text.words.name_key` gives them the same key, or if a source declares them synonyms.
Contradicting edges all remain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED
from evidence_assets.lake.rows import content_ids, dictionary_encode
from evidence_assets.lake.schemas import TABLES
from evidence_assets.text.sentences import sentence_spans
from evidence_assets.text.words import name_key

VERSION = "1"
"""Changes when the same triples give different rows."""
EDGE = "edge"
ENDS = ("head_id", "relation", "tail_id")


def node_id(key: str) -> str:
    """Id of a node: hash of its normalised name."""
    return content_id("node", key)


def edge_id(head: str, relation: str, tail: str) -> str:
    """Id of an edge: hash of its two nodes' ids and its relation."""
    return content_id(EDGE, head, relation, tail)


TRIPLES_PER_BLOCK = 1 << 18
"""Triples that are read at a time."""
TRIPLES_PER_PART = 1 << 20
"""Triples that are grouped into edges at a time."""
TripleBlocks = Callable[[], Iterable[pl.DataFrame]]
"""Reads blocks of triples, from the first one at each call."""


class MergedNames(NamedTuple):
    """Rows of ``kg_nodes``, sorted by id, and the node of each spelling.

    A node's name is its most frequent spelling, a synonym only as a last resort; aliases are all other spellings. Its
    type is the most frequent one of the sources, or null.

    ``node_of``: Columns written (a spelling) and node (a row of ``nodes``).
    """

    nodes: pl.DataFrame
    node_of: pl.DataFrame
    n_triples: int


def merge_names(triples: TripleBlocks, synonyms: pl.DataFrame | None = None) -> MergedNames:
    """Merge the names of triples into nodes; the order of rows does not matter.

    ``triples``: Columns head, tail, head_type and tail_type.
    ``synonyms``: Columns name and alias; an alias of two different names remains a separate node.
    """
    mentions = pl.DataFrame(schema={"written": pl.String, "type": pl.String, "len": pl.UInt32})
    for block in triples():
        ends = [
            block.select(pl.col(end).alias("written"), pl.col(f"{end}_type").alias("type")) for end in ("head", "tail")
        ]
        counts = pl.concat(ends).group_by("written", "type").len()
        mentions = pl.concat([mentions, counts]).group_by("written", "type").agg(pl.col("len").sum())
    spellings = mentions["written"].unique()
    synonym_pairs = pl.DataFrame(schema={"name": pl.String, "alias": pl.String}) if synonyms is None else synonyms
    all_names = pl.concat([spellings, synonym_pairs["name"], synonym_pairs["alias"]]).unique()
    keys = pl.Series("key", [name_key(name) for name in all_names], dtype=pl.String)
    key_of = pl.DataFrame({"written": all_names, "key": keys})
    canonical_keys = _canonical_keys(synonym_pairs, key_of)
    key_of = key_of.join(canonical_keys, on="key", how="left").select(
        "written", pl.coalesce("canonical", "key").alias("key"), pl.col("canonical").is_null().alias("is_name")
    )
    nodes = _build_nodes(mentions.join(key_of, on="written"), synonym_pairs, key_of).sort("node_id")
    numbers = nodes.select("key").with_row_index("node")
    node_of = key_of.join(numbers, on="key").select("written", "node")
    return MergedNames(nodes.drop("key"), node_of, int(mentions["len"].sum()) // 2)


def merge_edges(
    triples: TripleBlocks, names: MergedNames, report: Callable[[int, int], None] = lambda merged, total: None
) -> pa.Table:
    """Dictionary-encoded rows of ``kg_edges``; the order of triples does not matter.

    Reads the triples once for each ``TRIPLES_PER_PART`` of them and groups those of some heads at a time, so that
    memory has the edges and one part.

    ``triples``: Columns head, relation, tail, triple_id, source and licence, which may be null.
    ``report``: Receives the numbers of merged triples and of all.
    """
    n_parts = max(1, -(-names.n_triples // TRIPLES_PER_PART))
    tails = names.node_of.rename({"written": "tail", "node": "tail_node"})
    parts, n_merged = [], 0
    for part in range(n_parts):
        heads = names.node_of.filter(pl.col("node") % n_parts == part).rename({"written": "head", "node": "head_node"})
        blocks = (block.join(heads, on="head").join(tails, on="tail") for block in triples())
        rows = pl.concat([_NO_TRIPLES, *(block.select(_NO_TRIPLES.columns) for block in blocks)])
        edges = rows.group_by("head_node", "relation", "tail_node").agg(
            pl.col("triple_id").unique().sort().alias("triple_ids"),
            pl.col("source").unique().sort().alias("sources"),
            pl.col("licence").drop_nulls().unique().sort().alias("licences"),
        )
        parts.append(edges.to_arrow().cast(_PART_SCHEMA))
        n_merged += len(rows)
        report(n_merged, names.n_triples)
    table, node_ids = pa.concat_tables(parts), names.nodes["node_id"].to_arrow().cast(pa.string())
    columns = {
        f"{end}_id": pa.DictionaryArray.from_arrays(table.column(f"{end}_node").combine_chunks(), node_ids)
        for end in ("head", "tail")
    }
    columns["relation"] = dictionary_encode(pl.Series(table.column("relation").combine_chunks()))
    columns["edge_id"] = content_ids(EDGE, *(columns[end] for end in ENDS))
    return pa.table({**columns, **{name: table.column(name) for name in _LISTS}})


_NO_TRIPLES = pl.DataFrame(
    schema={
        "head_node": pl.UInt32,
        "tail_node": pl.UInt32,
        **dict.fromkeys(("relation", "triple_id", "source", "licence"), pl.String),
    }
)
_LISTS = ("triple_ids", "sources", "licences")
_PART_SCHEMA = pa.schema(
    {
        "head_node": pa.int32(),
        "relation": pa.string(),
        "tail_node": pa.int32(),
        **dict.fromkeys(_LISTS, pa.list_(pa.string())),
    }
)


def edge_lineage(edges: pa.Table) -> pa.Table:
    """Rows of ``lineage_edges``: each edge is derived from its triples."""
    tables = []
    for batch in edges.select(["edge_id", "triple_ids"]).to_batches():
        triples = batch.column("triple_ids")
        lengths = pc.list_value_length(triples).to_numpy()
        ranks = np.arange(1, lengths.sum() + 1) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        parents, child_ids = pc.list_flatten(triples), batch.column("edge_id").take(pc.list_parent_indices(triples))
        constants = {"child_kind": EDGE, "relation": DERIVED, "parent_kind": "triple"}
        columns = {name: pa.repeat(value, len(ranks)) for name, value in constants.items()}
        columns |= {"child_id": child_ids, "parent_id": parents, "parent_version": parents}
        tables.append(pa.table({**columns, "rank": pa.array(ranks.astype(np.int32))}))
    return pa.concat_tables(tables)


def _canonical_keys(synonym_pairs: pl.DataFrame, key_of: pl.DataFrame) -> pl.DataFrame:
    """(key of alias, key of name) for aliases of exactly one name that are not a name themselves."""
    pairs = (
        synonym_pairs.join(key_of.rename({"written": "name", "key": "canonical"}), on="name")
        .join(key_of.rename({"written": "alias"}), on="alias")
        .select("key", "canonical")
        .unique()
    )
    names = pairs["canonical"].unique()
    return pairs.filter(pl.col("key").is_unique() & ~pl.col("key").is_in(names.implode()))


def _build_nodes(mentions: pl.DataFrame, synonym_pairs: pl.DataFrame, key_of: pl.DataFrame) -> pl.DataFrame:
    """One row per key with the most frequent name and type; ties go to the first in sort order."""
    # Synonyms that no triple uses are also aliases.
    synonyms = pl.concat([synonym_pairs["name"], synonym_pairs["alias"]]).unique().to_frame("written")
    unused = synonyms.join(key_of, on="written").with_columns(pl.lit(0, pl.UInt32).alias("len"))
    names = (
        pl.concat([mentions, unused], how="diagonal")
        .group_by("key", "written", "is_name")
        .agg(pl.col("len").sum())
        .filter(pl.col("len").sum().over("key") > 0)
        .sort(pl.col("len") > 0, "is_name", "len", "written", descending=[True, True, True, False])
        .group_by("key", maintain_order=True)
        .agg(pl.col("written").first().alias("name"), pl.col("written").slice(1).sort().alias("aliases"))
    )
    types = (
        mentions.drop_nulls("type")
        .group_by("key", "type")
        .agg(pl.col("len").sum())
        .sort("len", "type", descending=[True, False])
        .group_by("key", maintain_order=True)
        .agg(pl.col("type").first())
    )
    return names.join(types, on="key", how="left").select(
        pl.col("key").map_elements(node_id, return_dtype=pl.String).alias("node_id"),
        "key",
        "name",
        "aliases",
        "type",
        pl.lit(None, dtype=pl.String).alias("document"),
    )


# Semi-structured knowledge bases as rows of ``kg_nodes`` and ``kg_edges``


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
