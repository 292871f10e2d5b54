"""Merges triples of several sources into one graph with the id, source and licence of each triple.

Names are one node if `text.words.name_key` gives them the same key, or if a source declares them synonyms.
Contradicting edges all remain."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl
import pyarrow as pa

from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED
from evidence_assets.lake.rows import content_ids, decode_columns, dictionary_encode
from evidence_assets.lake.schemas import TABLES
from evidence_assets.text.words import name_key

VERSION = "1"
"""Changes when the same triples give different rows."""
EDGE = "edge"
ENDS = ("head_id", "relation", "tail_id")


def select_top_ranked(harvested: pl.DataFrame, max_rank: int | None) -> pl.DataFrame:
    """Select harvested triples up to rank ``max_rank`` within their relation; None selects all."""
    return harvested if max_rank is None else harvested.filter(pl.col("rank").is_null() | (pl.col("rank") <= max_rank))


def node_id(key: str) -> str:
    """Id of a node: hash of its normalised name."""
    return content_id("node", key)


def edge_id(head: str, relation: str, tail: str) -> str:
    """Id of an edge: hash of its two nodes' ids and its relation."""
    return content_id(EDGE, head, relation, tail)


class MergedGraph(NamedTuple):
    """Rows of ``kg_nodes`` and of ``kg_edges``, each sorted by its ids.

    A node's name is its most frequent spelling, a synonym only as a last resort; aliases are all other spellings. Its
    type is the most frequent one of the sources, or null.
    """

    nodes: pl.DataFrame
    edges: pl.DataFrame


def merge_triples(triples: pl.DataFrame, synonyms: pl.DataFrame | None = None) -> MergedGraph:
    """Merge triples into nodes and edges; the order of rows does not matter.

    ``triples``: head, relation, tail, triple_id, source, licence (may be null), and optionally head_type and tail_type.
    ``synonyms``: Columns name and alias; an alias of two different names remains a separate node.
    """
    ends = [
        triples.select(pl.col(end).alias("written"), type.alias("type"))
        for end in ("head", "tail")
        for type in [pl.col(f"{end}_type") if f"{end}_type" in triples.columns else pl.lit(None, dtype=pl.String)]
    ]
    mentions = pl.concat(ends).group_by("written", "type").len()
    spellings = mentions["written"].unique()
    synonym_pairs = pl.DataFrame(schema={"name": pl.String, "alias": pl.String}) if synonyms is None else synonyms
    all_names = pl.concat([spellings, synonym_pairs["name"], synonym_pairs["alias"]]).unique()
    keys = pl.Series("key", [name_key(name) for name in all_names], dtype=pl.String)
    key_of = pl.DataFrame({"written": all_names, "key": keys})
    canonical_keys = _canonical_keys(synonym_pairs, key_of)
    key_of = key_of.join(canonical_keys, on="key", how="left").select(
        "written", pl.coalesce("canonical", "key").alias("key"), pl.col("canonical").is_null().alias("own")
    )
    nodes = _build_nodes(mentions.join(key_of, on="written"), synonym_pairs, key_of)
    ids = key_of.join(nodes.select("key", "node_id"), on="key").select("written", "node_id")
    edges = (
        triples.join(ids.rename({"written": "head", "node_id": "head_id"}), on="head")
        .join(ids.rename({"written": "tail", "node_id": "tail_id"}), on="tail")
        .group_by("head_id", "relation", "tail_id")
        .agg(
            pl.col("triple_id").unique().sort().alias("triple_ids"),
            pl.col("source").unique().sort().alias("sources"),
            pl.col("licence").drop_nulls().unique().sort().alias("licences"),
        )
    )
    return MergedGraph(
        nodes.drop("key").sort("node_id"), _add_edge_ids(edges).select(TABLES["kg_edges"].names).sort("edge_id")
    )


def _add_edge_ids(edges: pl.DataFrame) -> pl.DataFrame:
    ids = decode_columns(pa.table({"edge_id": content_ids(EDGE, *(dictionary_encode(edges[end]) for end in ENDS))}))
    return edges.with_columns(pl.Series("edge_id", ids["edge_id"]))


def edge_lineage(edges: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``lineage_edges``: each edge is derived from its triples."""
    return (
        edges.select("edge_id", "triple_ids")
        .explode("triple_ids", empty_as_null=False)
        .select(
            pl.lit("edge").alias("child_kind"),
            pl.col("edge_id").alias("child_id"),
            pl.lit(DERIVED).alias("relation"),
            pl.lit("triple").alias("parent_kind"),
            pl.col("triple_ids").alias("parent_id"),
            pl.col("triple_ids").alias("parent_version"),
            pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("edge_id").alias("rank"),
            pl.lit(None, dtype=pl.Float64).alias("score"),
        )
    )


def _canonical_keys(synonym_pairs: pl.DataFrame, key_of: pl.DataFrame) -> pl.DataFrame:
    """(key of alias, key of name) for aliases of exactly one name that are not a name themselves."""
    pairs = (
        synonym_pairs.join(key_of.rename({"written": "name", "key": "canonical"}), on="name")
        .join(key_of.rename({"written": "alias"}), on="alias")
        .select("key", "canonical")
        .unique()
    )
    certain = pairs.group_by("key").agg(pl.col("canonical").first(), pl.len()).filter(pl.col("len") == 1)
    names = pairs["canonical"].unique()
    return certain.filter(~pl.col("key").is_in(names.implode())).select("key", "canonical")


def _build_nodes(mentions: pl.DataFrame, synonym_pairs: pl.DataFrame, key_of: pl.DataFrame) -> pl.DataFrame:
    """One row per key with the most frequent name and type; ties go to the first in sort order."""
    forms = (
        mentions.group_by("key", "written", "own")
        .agg(pl.col("len").sum())
        .sort("own", "len", "written", descending=[True, True, False])
    )
    names = forms.group_by("key", maintain_order=True).agg(
        pl.col("written").first().alias("name"), pl.col("written").alias("forms")
    )
    types = (
        mentions.drop_nulls("type")
        .group_by("key", "type")
        .agg(pl.col("len").sum())
        .sort("len", "type", descending=[True, False])
        .group_by("key", maintain_order=True)
        .agg(pl.col("type").first())
    )
    # Synonyms that no triple uses are also aliases.
    extra = (
        pl.concat([synonym_pairs["name"], synonym_pairs["alias"]])
        .unique()
        .to_frame("written")
        .join(key_of, on="written")
        .group_by("key")
        .agg(pl.col("written").alias("extra"))
    )
    return (
        names.join(types, on="key", how="left")
        .join(extra, on="key", how="left")
        .with_columns(pl.col("forms").list.set_union(pl.col("extra").fill_null([])).alias("forms"))
        .with_columns(pl.col("forms").list.set_difference(pl.concat_list("name")).list.sort().alias("aliases"))
        .select(
            pl.col("key").map_elements(node_id, return_dtype=pl.String).alias("node_id"),
            "key",
            "name",
            "aliases",
            "type",
            pl.lit(None, dtype=pl.String).alias("document"),
        )
    )
