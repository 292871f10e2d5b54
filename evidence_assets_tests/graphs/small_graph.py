"""A small medical graph as the lake would hold it, with a stand-in for the encoder."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import polars as pl

from evidence_assets.benchmarks.graphs import rows as graph_rows
from evidence_assets.benchmarks.graphs.relations import load
from evidence_assets.benchmarks.graphs.rows import GraphSource
from evidence_assets.graphs import knowledge
from evidence_assets.graphs.knowledge import OpenGraph, encoded
from evidence_assets.lake.store import prepare
from evidence_assets_tests.systems.small_models import WordEncoder

TRIPLES = [
    ("metformin", "may_treat", "diabetes"),
    ("metformin", "belongs_to_the_drug_family_of", "biguanide"),
    ("excessive thirst", "is_associated_with", "diabetes"),
    ("Excessive Thirst", "is_associated_with", "diabetes"),
    ("excessive thirst", "see_also", "dehydration"),
    ("aspirin", "may_treat", "fever"),
    ("aspirin", "may_contraindicate", "fever"),
    ("cell", "see_also", "cell"),
    ("pen", "UsedFor", "writing"),
]


def stored(table: str, rows: object) -> pl.DataFrame:
    """Rows as they come back from the lake."""
    frame = pl.from_arrow(prepare(table, rows))  # type: ignore[arg-type]
    assert isinstance(frame, pl.DataFrame)
    return frame


def write_triples(raw: Path, triples: list[tuple[str, str, str]] = TRIPLES, name: str = "graph.tsv") -> GraphSource:
    """A tab-separated file of triples."""
    raw.mkdir(parents=True, exist_ok=True)
    (raw / name).write_text("".join("\t".join(triple) + "\n" for triple in triples), encoding="utf-8")
    return GraphSource("tab_separated", (name,), "CC0-1.0")


def small_graph(folder: Path, triples: list[tuple[str, str, str]] = TRIPLES) -> tuple[OpenGraph, pl.DataFrame]:
    """The graph of some triples, opened, and its edges as rows."""
    source, model = write_triples(folder / "raw", triples), WordEncoder()
    rows = graph_rows.triple_table([source], folder / "raw", load())
    nodes, edges = knowledge.merged(rows, graph_rows.synonyms([source], folder / "raw"))
    nodes, edges = stored("kg_nodes", nodes), stored("kg_edges", edges)
    knowledge.build_csr(folder / "csr", nodes, edges, "v1")
    knowledge.build_name_vectors(folder / "vectors", nodes, model, "words", "v1")
    graph, relations = knowledge.open_csr(folder / "csr", "v1")
    forms = knowledge.open_name_vectors(folder / "vectors", nodes, "words", "v1")
    made = OpenGraph(
        "small", "v1", graph, nodes["node_id"].to_list(), nodes["name"].to_list(), edges["edge_id"].to_list(),
        relations, forms, partial(encoded, model),
    )  # fmt: skip
    return made, edges
