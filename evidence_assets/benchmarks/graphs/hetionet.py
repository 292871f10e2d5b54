"""Hetionet: nodes.tsv (id, name, kind) and edges.sif (source, metaedge, target), tab-separated with a header."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.graphs.triples import TripleRecord
from evidence_assets.benchmarks.reading import headed_rows


def read(edges: Path, nodes: Path) -> Iterator[TripleRecord]:
    """Triples with the ids of edges.sif replaced by the names of nodes.tsv; the relation is the metaedge (CtD, …)."""
    named: dict[str, tuple[str, str]] = {}
    for row in headed_rows(nodes, ("id", "name", "kind"), "\t", quoted=False):
        key = row.text("id")
        if key in named:
            raise row.bad(f"node {key} comes twice", "id")
        named[key] = row.text("name").strip(), row.text("kind").strip()
    for row in headed_rows(edges, ("source", "metaedge", "target"), "\t", quoted=False):
        ends = []
        for field in ("source", "target"):
            key = row.text(field)
            if key not in named:
                raise row.bad(f"node {key} is not in {nodes.name}", field)
            ends.append(named[key])
        (head, head_type), (tail, tail_type) = ends
        yield TripleRecord(head, row.text("metaedge").strip(), tail, row.line or 0, head_type, tail_type)
