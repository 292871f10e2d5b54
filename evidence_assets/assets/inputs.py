"""What selectors read, opened once a process and shared by every asset in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

from evidence_assets import profiles
from evidence_assets.assets.benchmark import benchmarks
from evidence_assets.assets.corpus import embeddings_in_order, vectors_version
from evidence_assets.assets.models_in_use import encoder
from evidence_assets.assets.table_asset import Step
from evidence_assets.graphs import stored
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.errors import BadInput
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


def open_graph(lake: Lake, name: str) -> KnowledgeGraph:
    """The graph of this name, with vectors of the profile's encoder."""
    return stored.open_graph(lake, name, encoder(profiles.load().encoder))


def graph_of(step: Step) -> KnowledgeGraph:
    """The graph that the partition's benchmark is answered from."""
    name = benchmarks()[step.benchmark].graph
    if not name:
        raise BadInput(f"benchmark {step.benchmark} names no graph: declare the one that it is answered from")
    return open_graph(step.lake, name)
