"""What selectors read, opened once a process and shared by every asset in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt
import polars as pl

from evidence_assets import profiles
from evidence_assets.assets.corpus import embeddings_in_order, vectors_version
from evidence_assets.assets.graph import tables_version
from evidence_assets.assets.models_in_use import encoder, model_key
from evidence_assets.graphs import knowledge
from evidence_assets.graphs.knowledge import OpenGraph, encoded
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import Lake
from evidence_assets.retrieval.corpus import matrix
from evidence_assets.retrieval.vector_index import VectorIndex


@dataclass(frozen=True, eq=False)
class OpenCorpus:
    """A corpus in the order in which its index counts its chunks."""

    name: str
    version: str
    chunks: pl.DataFrame
    vectors: npt.NDArray[np.float32]
    index: VectorIndex


def open_corpus(lake: Lake, name: str) -> OpenCorpus:
    """Chunks, vectors and index of a corpus; refused where the index is older than the vectors."""
    files = lake.files("chunks", f"corpus/{name}/chunks") + lake.files("chunk_embeddings", f"corpus/{name}/embeddings")
    stamp = tuple((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in files)
    return _open_corpus(str(lake.root), name, stamp)


@lru_cache(maxsize=4)
def _open_corpus(root: str, name: str, stamp: tuple[tuple[str, int, int], ...]) -> OpenCorpus:
    lake = Lake(root)
    embeddings = embeddings_in_order(lake, name)
    chunks = lake.read("chunks", f"corpus/{name}/chunks").sort("chunk_id")
    version = vectors_version(embeddings)
    index = VectorIndex(lake.index_folder(f"corpus/{name}/index"), expected=version)
    return OpenCorpus(
        name, content_id(chunks["chunk_id"].to_list(), version), chunks, matrix(embeddings["vector"]), index
    )


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
