"""Triples of several sources merged into one graph that forgets nothing about where it came from.

Two names are one node where `text.words.name_key` gives them the same key, or where a source declares one a synonym
of the other. Two triples are one edge where head, relation and tail are the same; the edge keeps the id, the source
and the licence of each. Contradicting edges stay side by side and can be listed. Relations are compared as they are
written: translating foreign names comes before.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import polars as pl

from evidence_assets.graphs.graph import Graph
from evidence_assets.text.words import name_key

TRIPLE_COLUMNS = ("head", "relation", "tail", "triple_id", "source", "licence")


@dataclass(frozen=True)
class MergedGraph:
    """Nodes and edges of a merged graph.

    Attributes
    ----------
    nodes
        node (row number, in order of key), key, name (the most frequent way of writing it, a synonym only if
        nothing else is there), aliases (all others, sorted), type (the most frequent one that a source gives, or null).
    edges
        edge (row number, in order of head, relation, tail), head, tail (node numbers), relation, triple_ids, sources,
        licences (each sorted, without repeats).
    """

    nodes: pl.DataFrame
    edges: pl.DataFrame

    def to_graph(self) -> tuple[Graph, list[str]]:
        """The graph in compressed rows, and the relation names that its codes number."""
        relations = self.edges["relation"].unique().sort().to_list()
        codes = self.edges["relation"].replace_strict(relations, range(len(relations)), return_dtype=pl.Int32)
        graph = Graph.from_edges(
            len(self.nodes), self.edges["head"].to_numpy(), codes.to_numpy(), self.edges["tail"].to_numpy()
        )
        return graph, relations


def merge(triples: pl.DataFrame, synonyms: pl.DataFrame | None = None) -> MergedGraph:
    """Merge triples into nodes and edges; the order of the rows makes no difference.

    Parameters
    ----------
    triples
        head, relation, tail, triple_id, source, licence (may be null), and if known head_type and tail_type.
    synonyms
        Columns name and alias. An alias leads to its name unless it is declared for two different names; then it
        stays a node of its own, because guessing would join two things.

    Raises
    ------
    ValueError
        Where a column is missing, or a head, relation, tail or triple id is null or blank (with the row).
    """
    _check(triples)
    ends = [
        triples.select(
            pl.col(end).alias("written"),
            (pl.col(f"{end}_type") if f"{end}_type" in triples.columns else pl.lit(None, dtype=pl.String)).alias(
                "type"
            ),
        )
        for end in ("head", "tail")
    ]
    mentions = pl.concat(ends).group_by("written", "type").len()
    written = mentions["written"].unique()
    declared = pl.DataFrame(schema={"name": pl.String, "alias": pl.String}) if synonyms is None else synonyms
    every = pl.concat([written, declared["name"], declared["alias"]]).unique()
    key_of = pl.DataFrame({"written": every, "key": [name_key(name) for name in every]})
    leads = _canonical(declared, key_of)
    key_of = key_of.join(leads, on="key", how="left").select(
        "written", pl.coalesce("canonical", "key").alias("key"), pl.col("canonical").is_null().alias("own")
    )
    nodes = _nodes(mentions.join(key_of, on="written"), declared, key_of)
    numbers = key_of.join(nodes.select("key", "node"), on="key").select("written", "node")
    edges = (
        triples.join(numbers.rename({"written": "head", "node": "h"}), on="head")
        .join(numbers.rename({"written": "tail", "node": "t"}), on="tail")
        .group_by(pl.col("h").alias("head"), "relation", pl.col("t").alias("tail"))
        .agg(
            pl.col("triple_id").unique().sort().alias("triple_ids"),
            pl.col("source").unique().sort().alias("sources"),
            pl.col("licence").drop_nulls().unique().sort().alias("licences"),
        )
        .sort("head", "relation", "tail")
        .with_row_index("edge")
        .with_columns(pl.col("edge").cast(pl.Int64))
    )
    return MergedGraph(nodes, edges)


def _check(triples: pl.DataFrame) -> None:
    missing = [column for column in TRIPLE_COLUMNS if column not in triples.columns]
    if missing:
        raise ValueError(f"the triples lack the column {missing[0]}; they have {', '.join(triples.columns)}")
    for column in ("head", "relation", "tail", "triple_id", "source"):
        empty = triples[column].is_null() | (triples[column].str.strip_chars() == "")
        if empty.any():
            raise ValueError(f"triple {int(empty.arg_true()[0])} has no {column}")


def _canonical(declared: pl.DataFrame, key_of: pl.DataFrame) -> pl.DataFrame:
    """(key of an alias, key of its name) for every alias of exactly one name, that is not itself such a name."""
    pairs = (
        declared.join(key_of.rename({"written": "name", "key": "canonical"}), on="name")
        .join(key_of.rename({"written": "alias"}), on="alias")
        .select("key", "canonical")
        .unique()
    )
    certain = pairs.group_by("key").agg(pl.col("canonical").first(), pl.len()).filter(pl.col("len") == 1)
    names = pairs["canonical"].unique()
    return certain.filter(~pl.col("key").is_in(names.implode())).select("key", "canonical")


def _nodes(mentions: pl.DataFrame, declared: pl.DataFrame, key_of: pl.DataFrame) -> pl.DataFrame:
    """One row per key, with the most frequent name and type; ties go to what sorts first."""
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
    # A synonym that no triple uses is still a name under which the node may be found.
    extra = (
        pl.concat([declared["name"], declared["alias"]])
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
        .sort("key")
        .with_row_index("node")
        .select(pl.col("node").cast(pl.Int64), "key", "name", "aliases", "type")
    )


def contradictions(edges: pl.DataFrame, opposites: Collection[tuple[str, str]]) -> pl.DataFrame:
    """Pairs of edges from the same head to the same tail under opposed relations: edge, other_edge (edge < other)."""
    table = pl.DataFrame(sorted(opposites), schema={"relation": pl.String, "other_relation": pl.String}, orient="row")
    other = edges.select("head", "tail", pl.col("relation").alias("other_relation"), pl.col("edge").alias("other_edge"))
    return (
        edges.select("head", "tail", "relation", "edge")
        .join(table, on="relation")
        .join(other, on=["head", "tail", "other_relation"])
        .filter(pl.col("edge") < pl.col("other_edge"))
        .select("edge", "other_edge")
        .sort("edge", "other_edge")
    )
