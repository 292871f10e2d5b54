"""What a cited path says, held against its benchmark's graph edge by edge: part of the blocking check of evidence."""

from __future__ import annotations

import polars as pl

from evidence_assets.benchmarks.declared import declared
from evidence_assets.benchmarks.graphs.relations import load
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.paths import Fact, walked_edges, wrong_with

SHOWN = 5


def facts_named(lake: Lake, graph: str, edge_ids: set[str]) -> dict[str, Fact]:
    """The edges of these ids with the names of their ends in this graph; an unknown id is left out.

    Another graph may have a node of the same id under a name that is written otherwise, so no other is looked at.
    """
    edges = lake.read("kg_edges", f"knowledge/{graph}/edges", columns=["edge_id", "head_id", "relation", "tail_id"])
    edges = edges.filter(pl.col("edge_id").is_in(list(edge_ids)))
    ends = pl.concat([edges["head_id"], edges["tail_id"]]).unique()
    nodes = lake.read("kg_nodes", f"knowledge/{graph}/nodes", columns=["node_id", "name"])
    names = dict(nodes.filter(pl.col("node_id").is_in(ends.implode())).iter_rows())
    return {
        edge: Fact(head, relation, tail, names.get(head, ""), names.get(tail, ""))
        for edge, head, relation, tail in edges.iter_rows()
    }


def paths_wrong(evidence: pl.DataFrame, lake: Lake) -> list[str]:
    """What is wrong with rows of the kind ``path``: edges that the graph lacks, gaps, text that does not follow."""
    wrong, template, benchmarks = [], load().template, declared()
    for (benchmark,), paths in evidence.filter(pl.col("kind") == "path").group_by("benchmark", maintain_order=True):
        cited: set[str] = set()
        for locator in paths["locator"]:
            try:
                cited |= {edge for edge, _ in walked_edges(locator)}
            except ValueError:
                continue  # said of the row below
        stated = benchmarks[str(benchmark)]
        facts = facts_named(lake, stated.graph or stated.joined_graph, cited) if cited else {}
        wrong += [
            f"path {row['evidence_id']}: {complaint}"
            for row in paths.iter_rows(named=True)
            for complaint in wrong_with(row["locator"], row["text"], facts, template)
        ]
    return wrong[:SHOWN] + ([f"… and {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else [])
