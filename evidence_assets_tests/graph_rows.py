"""The sample graph put into a lake directly, for tests of what reads a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from evidence_assets.datasets.graphs import tab_separated
from evidence_assets.datasets.graphs.triples import frame
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import Lake
from evidence_assets.methods.graph_merge import merge


def write_sample_graph(lake: Lake, name: str = "sample", folder: Path | None = None) -> None:
    """Merge the sample's two graph files into ``knowledge/<name>/nodes`` and ``edges``."""
    folder = folder or lake.raw / "sample" / "graphs"
    records = [
        frame(tab_separated.read(folder / f"{part}.tsv")).with_columns(
            pl.lit(part).alias("source"), pl.lit("own").alias("licence")
        )
        for part in ("biomedical", "commonsense")
    ]
    triples = pl.concat(records).with_columns(
        pl.struct("head", "relation", "tail")
        .map_elements(lambda t: content_id(*t.values()), pl.String)
        .alias("triple_id")
    )
    merged = merge(triples)
    ids = [content_id("node", key) for key in merged.nodes["key"].to_list()]
    nodes: list[dict[str, Any]] = [
        {"node_id": ids[row["node"]], "name": row["name"], "aliases": row["aliases"], "type": row["type"]}
        for row in merged.nodes.to_dicts()
    ]
    edges = [
        {
            "edge_id": content_id("edge", ids[row["head"]], row["relation"], ids[row["tail"]]),
            "head_id": ids[row["head"]],
            "relation": row["relation"],
            "tail_id": ids[row["tail"]],
            "triple_ids": row["triple_ids"],
            "sources": row["sources"],
            "licences": row["licences"],
        }
        for row in merged.edges.to_dicts()
    ]
    lake.write(f"knowledge/{name}/nodes", "", {"kg_nodes": nodes})
    lake.write(f"knowledge/{name}/edges", "", {"kg_edges": edges})
