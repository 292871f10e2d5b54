"""Merges triples of several sources into one graph with the id, source and licence of each triple.

Names are one node if `text.words.name_key` gives them the same key, or if a source declares them synonyms.
Contradicting edges all remain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.sorted_rows import sort_on_disk
from evidence_assets.text.sentences import sentence_spans
from evidence_assets.text.words import name_key

VERSION = "1"
"""Changes when the same triples give different rows."""
EDGE = "edge"
ENDS = ("head_id", "relation", "tail_id")
NODE_COLUMNS = ("node_id", "is_name")
"""The node of a spelling, and whether the spelling is a name instead of a synonym."""
LABEL_SCHEMA = pl.Schema({"name": pl.String(), "label": pl.String(), "further_names": pl.List(pl.String())})
"""Names, such as ``Paris (Q90)``, their labels, such as ``Paris``, and aliases that other nodes may have, too."""
LABELS_VERSION = "1"
"""Changes when the same labels give different rows."""
TRIPLES_PER_BLOCK = 1 << 20
"""Triples, or edges of a knowledge base, that are read at a time."""


def node_id(key: str) -> str:
    """Id of a node: hash of its normalised name."""
    return content_id("node", key)


def edge_id(head: str, relation: str, tail: str) -> str:
    """Id of an edge: hash of its two nodes' ids and its relation."""
    return content_id(EDGE, head, relation, tail)


def merge_nodes(
    triples: Iterable[pl.DataFrame], synonyms: pl.DataFrame, folder: Path, labels: pl.DataFrame | None = None
) -> Iterator[pl.DataFrame]:
    """Rows of ``kg_nodes`` in blocks, sorted by id; the order of triples does not matter.

    A node's name is its most frequent spelling, a synonym only as a last resort; aliases are all other spellings, also
    synonyms that no triple uses. Its type is the most frequent one of the sources, or null.

    ``triples``: Blocks with the columns head, tail, head_type and tail_type.
    ``synonyms``: Columns name and alias; an alias of two different names remains a separate node.
    ``folder``: For the sort.
    ``labels``: Columns of `LABEL_SCHEMA`: what names are shown and linked as. A name with an id as suffix makes a node
    of its own and becomes its alias. In contrast to synonyms, labels and further names never merge nodes.
    """
    blocks = map(_group_mentions, sort_on_disk(_find_mentions(triples, synonyms), ("node_id",), folder))
    return blocks if labels is None or labels.is_empty() else (_use_labels(block, labels) for block in blocks)


def _find_mentions(triples: Iterable[pl.DataFrame], synonyms: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Spellings in triples with their node, type and number, and those of synonyms with the number 0."""
    canonical_keys = _canonical_keys(synonyms)
    for block in triples:
        ends = [
            block.select(pl.col(end).alias("written"), pl.col(f"{end}_type").cast(pl.String).alias("type"))
            for end in ("head", "tail")
        ]
        mentions = pl.concat(ends).group_by("written", "type").len()
        yield mentions.join(_identify_nodes(mentions["written"], canonical_keys), on="written")
    spellings = _identify_nodes(pl.concat([synonyms["name"], synonyms["alias"]]), canonical_keys)
    yield spellings.select(
        "written", pl.lit(None, pl.String).alias("type"), pl.lit(0, pl.UInt32).alias("len"), *NODE_COLUMNS
    )


def _identify_nodes(names: pl.Series, canonical_keys: pl.DataFrame) -> pl.DataFrame:
    """Distinct names with their node, and whether they are the node's own name instead of a synonym."""
    written = names.unique().alias("written").to_frame()
    keys = written.with_columns(_name_keys(written["written"], "key")).join(canonical_keys, on="key", how="left")
    ids = [node_id(key) for key in keys.select(pl.coalesce("canonical", "key")).to_series()]
    return keys.select(
        "written", pl.Series("node_id", ids, dtype=pl.String), pl.col("canonical").is_null().alias("is_name")
    )


def _name_keys(names: pl.Series, column: str) -> pl.Series:
    return pl.Series(column, [name_key(name) for name in names], dtype=pl.String)


def _canonical_keys(synonyms: pl.DataFrame) -> pl.DataFrame:
    """(key of alias, key of name) for aliases of exactly one name that are not a name themselves."""
    pairs = pl.DataFrame([_name_keys(synonyms["alias"], "key"), _name_keys(synonyms["name"], "canonical")]).unique()
    names = pairs["canonical"].unique()
    return pairs.filter(pl.col("key").is_unique() & ~pl.col("key").is_in(names.implode()))


def _group_mentions(mentions: pl.DataFrame) -> pl.DataFrame:
    """One row per node with its most frequent name and type; ties go to the first in sort order."""
    names = (
        mentions.group_by("written", *NODE_COLUMNS)
        .agg(pl.col("len").sum())
        .filter(pl.col("len").sum().over("node_id") > 0)
        .sort(pl.col("len") > 0, "is_name", "len", "written", descending=[True, True, True, False])
        .group_by("node_id", maintain_order=True)
        .agg(pl.col("written").first().alias("name"), pl.col("written").slice(1).sort().alias("aliases"))
    )
    types = (
        mentions.drop_nulls("type")
        .group_by("node_id", "type")
        .agg(pl.col("len").sum())
        .sort("len", "type", descending=[True, False])
        .group_by("node_id", maintain_order=True)
        .agg(pl.col("type").first())
    )
    return names.join(types, on="node_id", how="left").sort("node_id")


def _use_labels(nodes: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """Name nodes by their labels; the names with ids, and further names, become aliases."""
    labelled = nodes.join(labels, on="name", how="left", maintain_order="left")
    all_forms = pl.concat_list("name", "aliases", "further_names").list.unique()
    other_forms = all_forms.list.set_difference(pl.concat_list("label")).list.sort()
    aliases = pl.when(pl.col("label").is_null()).then("aliases").otherwise(other_forms)
    names = pl.coalesce("label", "name")
    return labelled.with_columns(names.alias("name"), aliases.alias("aliases")).drop("label", "further_names")


def merge_edges(triples: Iterable[pl.DataFrame], synonyms: pl.DataFrame, folder: Path) -> Iterator[pl.DataFrame]:
    """Rows of ``kg_edges`` in blocks, sorted by id; the order of triples does not matter.

    ``triples``: Blocks with the columns head, relation, tail, triple_id, source and licence, which may be null.
    ``synonyms`` and ``folder``: As in `merge_nodes`.
    """
    return map(_group_triples, sort_on_disk(_find_edges(triples, synonyms), ("edge_id",), folder))


def _find_edges(triples: Iterable[pl.DataFrame], synonyms: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Triples with the ids of their edges and nodes."""
    canonical_keys = _canonical_keys(synonyms)
    for rows in triples:
        nodes = _identify_nodes(pl.concat([rows["head"], rows["tail"]]), canonical_keys)
        for end in ("head", "tail"):
            rows = rows.join(nodes.select(pl.col("written").alias(end), pl.col("node_id").alias(f"{end}_id")), on=end)
        yield _with_edge_ids(rows.select(*ENDS, "triple_id", "source", "licence"))


def _with_edge_ids(rows: pl.DataFrame) -> pl.DataFrame:
    ids = [edge_id(*ends) for ends in rows.select(ENDS).iter_rows()]
    return rows.with_columns(pl.Series("edge_id", ids, dtype=pl.String))


def _group_triples(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per edge, sorted by id."""
    lists = {"triple_id": "triple_ids", "source": "sources", "licence": "licences"}
    return (
        rows.group_by("edge_id", *ENDS)
        .agg(pl.col(column).drop_nulls().unique().sort().alias(name) for column, name in lists.items())
        .sort("edge_id")
    )


def edge_lineage(edges: pa.Table) -> Iterator[pa.Table]:
    """Rows of ``lineage_edges`` in blocks: each edge is derived from its triples."""
    for batch in edges.select(["edge_id", "triple_ids"]).to_batches():
        triples = batch.column("triple_ids")
        lengths = pc.list_value_length(triples).to_numpy()
        ranks = np.arange(1, lengths.sum() + 1) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        parents = pc.list_flatten(triples)
        child_ids = batch.column("edge_id").take(pc.list_parent_indices(triples))
        constants = {"child_kind": EDGE, "relation": DERIVED, "parent_kind": "triple"}
        columns = {name: pa.repeat(value, len(ranks)) for name, value in constants.items()}
        columns |= {"child_id": child_ids, "parent_id": parents, "parent_version": parents}
        yield pa.table({**columns, "rank": pa.array(ranks.astype(np.int32))})


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


def edge_rows(edges: pl.DataFrame, name: str, source: str, folder: Path, licence: str = "") -> Iterator[pl.DataFrame]:
    """Rows of ``kg_edges`` in blocks, sorted by id, for the edges of a base.

    ``source``: The file of the edges.
    ``folder``: For the sort.
    """
    ends = [pl.concat_str(pl.lit(prefixed_node_id(name, "")), end).alias(end) for end in ("head_id", "tail_id")]
    blocks = (
        _with_edge_ids(block.select(*ends, pl.col("relation").cast(pl.String)))
        for block in edges.iter_slices(TRIPLES_PER_BLOCK)
    )
    lists = {"triple_ids": [], "sources": [source], "licences": [licence] if licence else []}
    constants = [pl.lit(texts, dtype=pl.List(pl.String)).alias(column) for column, texts in lists.items()]
    for block in sort_on_disk(blocks, ("edge_id",), folder):
        yield block.with_columns(constants)


def extract_definitions(nodes: pl.DataFrame) -> dict[str, str]:
    """Map unambiguous names and aliases to the first sentence of their node's document."""
    sentences: dict[str, set[str]] = {}
    for name, aliases, document in nodes.select("name", "aliases", "document").iter_rows():
        spans = sentence_spans(document or "")
        if spans:
            for surface in (name, *aliases):
                sentences.setdefault(surface, set()).add(document[spans[0][0] : spans[0][1]])
    return {surface: next(iter(definitions)) for surface, definitions in sentences.items() if len(definitions) == 1}
