"""What a cited path says, held against the graph's tables edge by edge: part of the blocking check of evidence."""

from __future__ import annotations

import polars as pl

from evidence_assets.benchmarks.graphs.relations import load
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.paths import Fact, walked_edges, wrong_with

SHOWN = 5


def facts_named(lake: Lake, edge_ids: set[str]) -> dict[str, Fact]:
    """The edges of these ids, of whatever graph, with the names of their ends; an unknown id is left out."""
    edges = lake.read("kg_edges", columns=["edge_id", "head_id", "relation", "tail_id"])
    edges = edges.filter(pl.col("edge_id").is_in(list(edge_ids))).unique("edge_id")
    ends = pl.concat([edges["head_id"], edges["tail_id"]]).unique()
    nodes = lake.read("kg_nodes", columns=["node_id", "name"]).filter(pl.col("node_id").is_in(ends.implode()))
    names = dict(nodes.iter_rows())
    return {
        edge: Fact(head, relation, tail, names.get(head, ""), names.get(tail, ""))
        for edge, head, relation, tail in edges.iter_rows()
    }


def paths_wrong(evidence: pl.DataFrame, lake: Lake) -> list[str]:
    """What is wrong with rows of the kind ``path``: edges that the graph lacks, gaps, text that does not follow."""
    paths = evidence.filter(pl.col("kind") == "path")
    cited: set[str] = set()
    for locator in paths["locator"]:
        try:
            cited |= {edge for edge, _ in walked_edges(locator)}
        except ValueError:
            continue  # said of the row below
    facts = facts_named(lake, cited) if cited else {}
    template = load().template
    wrong = [
        f"path {row['evidence_id']}: {complaint}"
        for row in paths.iter_rows(named=True)
        for complaint in wrong_with(row["locator"], row["text"], facts, template)
    ]
    return wrong[:SHOWN] + ([f"… and {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else [])
