"""What selectors read, opened once a process and shared by every asset in it."""

from __future__ import annotations

from functools import lru_cache, partial

from evidence_assets import profiles
from evidence_assets.graphs import knowledge
from evidence_assets.graphs.knowledge import OpenGraph, encoded
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import Lake
from evidence_assets.models.in_use import encoder, model_key


def open_graph(lake: Lake, name: str) -> OpenGraph:
    """Rows, compressed rows and vectors of a graph; refused where the arrays are older than the rows."""
    base = f"knowledge/{name}"
    files = lake.files("kg_nodes", f"{base}/nodes") + lake.files("kg_edges", f"{base}/edges")
    files += [lake.index_folder(f"{base}/{part}") / "meta.json" for part in ("csr", "node_vectors")]
    stamp = tuple((str(p), p.stat().st_mtime_ns, p.stat().st_size) for p in files if p.exists())
    return _open_graph(str(lake.root), name, model_key(encoder(profiles.load().encoder)), stamp)


@lru_cache(maxsize=4)
def _open_graph(root: str, name: str, model_id: str, stamp: tuple[tuple[str, int, int], ...]) -> OpenGraph:
    lake, base = Lake(root), f"knowledge/{name}"
    version = tables_version(lake, name, "nodes", "edges")
    graph, relations = knowledge.open_csr(lake.index_folder(f"{base}/csr"), version)
    nodes = lake.read("kg_nodes", f"{base}/nodes", columns=["node_id", "name", "aliases"])
    edges = lake.read("kg_edges", f"{base}/edges", columns=["edge_id"])
    forms = knowledge.open_name_vectors(
        lake.index_folder(f"{base}/node_vectors"), nodes, model_id, tables_version(lake, name, "nodes")
    )
    return OpenGraph(
        name,
        content_id(version, model_id),
        graph,
        nodes["node_id"].to_list(),
        nodes["name"].to_list(),
        edges["edge_id"].to_list(),
        relations,
        forms,
        partial(encoded, encoder(profiles.load().encoder)),
    )


def tables_version(lake: Lake, name: str, *parts: str) -> str:
    """What arrays built of a graph's tables (``nodes``, ``edges``) were built from: what their rows say."""
    tables = {"nodes": "kg_nodes", "edges": "kg_edges"}
    return content_id([lake.version(tables[part], f"knowledge/{name}/{part}") for part in parts])
