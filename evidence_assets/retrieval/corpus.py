"""Chunks and vectors of a corpus in the lake, and its index for retrieval.

``encoder`` names an encoder other than the profile's default; asset keys then end with its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from threading import Lock

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.ids import content_id, key_for_model
from evidence_assets.lake.store import Lake, Stamp
from evidence_assets.retrieval.corpus_files import CHUNKS_PER_BATCH, COLUMNS, CorpusFiles, Shard, Vectors
from evidence_assets.retrieval.embedding import vector_matrix
from evidence_assets.retrieval.vector_index import VectorIndex


def find_invalid_vectors(rows: pl.DataFrame) -> list[str]:
    """Messages about stored vectors that are not finite or not of unit length."""
    norms = np.linalg.norm(vector_matrix(rows["vector"].to_arrow()).astype(np.float32), axis=1)
    invalid = np.flatnonzero(~(np.abs(norms - 1) <= 1e-3))
    return [f"vector of chunk {rows['chunk_id'][int(i)]} has length {norms[i]:.4f}, not 1" for i in invalid[:5]]


def sorted_shards(lake: Lake, table: str, asset: str) -> list[str]:
    """Materialized shards of an asset, in the order of their numbers."""
    return sorted(filter(str.isdecimal, lake.partitions(table, asset)), key=int)


def embeddings_key(name: str, encoder: str = "") -> str:
    """Asset key of the vectors of a corpus."""
    return key_for_model(f"corpus/{name}/embeddings", encoder)


def index_key(name: str, encoder: str = "") -> str:
    """Asset key of the index of a corpus."""
    return key_for_model(f"corpus/{name}/index", encoder)


def embedded_shards(lake: Lake, name: str, encoder: str = "") -> list[str]:
    """Embedded shards of a corpus, in the order of its chunk positions."""
    return sorted_shards(lake, "chunk_embeddings", embeddings_key(name, encoder))


def corpus_version(lake: Lake, name: str, encoder: str = "") -> str:
    """Version of the chunks and vectors of a corpus, from their partitions' metadata."""
    inputs = (("chunks", f"corpus/{name}/chunks"), ("chunk_embeddings", embeddings_key(name, encoder)))
    return content_id(
        [
            [shard, *(lake.stored_version(table, asset, shard) for table, asset in inputs)]
            for shard in embedded_shards(lake, name, encoder)
        ]
    )


def shard_versions(lake: Lake, table: str, asset: str) -> list[tuple[str, str]]:
    """Shards of an asset with the versions of their rows."""
    return [(shard, lake.stored_version(table, asset, shard)) for shard in sorted_shards(lake, table, asset)]


def chunks_version(lake: Lake, name: str) -> str:
    """Version of the chunks of a corpus."""
    return content_id(shard_versions(lake, "chunks", f"corpus/{name}/chunks"))


def read_chunk_texts(lake: Lake, name: str) -> Iterator[list[str]]:
    """Texts of a corpus in blocks, in its order; one shard is in memory at a time."""
    asset = f"corpus/{name}/chunks"
    for shard in sorted_shards(lake, "chunks", asset):
        texts = lake.read("chunks", asset, shard, ["chunk_id", "text"]).sort("chunk_id")["text"]
        for start in range(0, len(texts), CHUNKS_PER_BATCH):
            yield texts[start : start + CHUNKS_PER_BATCH].to_list()


def read_shards(lake: Lake, name: str, encoder: str = "") -> Iterator[Shard]:
    """Shards of a corpus for its index; the chunks of one shard are in memory at a time.

    Raises StaleInput if the chunks and vectors of a shard do not match.
    """
    for shard in embedded_shards(lake, name, encoder):
        chunks = lake.read("chunks", f"corpus/{name}/chunks", shard, list(COLUMNS)).sort("chunk_id")
        path = lake.path("chunk_embeddings", embeddings_key(name, encoder), shard)
        batches = (batch for part in chunks.iter_slices(CHUNKS_PER_BATCH) for batch in part.to_arrow().to_batches())
        yield Shard(batches, _vectors(path, chunks["chunk_id"]))


def _vectors(path: Path, ids: pl.Series) -> Iterator[Vectors]:
    """Vectors of a file in blocks; raises StaleInput if their chunk ids differ from ``ids``."""
    stale = f"{path} does not match the chunks in the lake: materialize the embeddings of its shard again"
    n_read = 0
    with path.open("rb") as handle:
        for batch in pq.ParquetFile(handle).iter_batches(CHUNKS_PER_BATCH, columns=["chunk_id", "vector"]):
            batch_ids = pl.Series(batch.column("chunk_id"))
            if not batch_ids.equals(ids[n_read : n_read + len(batch_ids)]):
                raise StaleInput(stale)
            n_read += len(batch_ids)
            yield vector_matrix(batch.column("vector"))
    if n_read != len(ids):
        raise StaleInput(stale)


class IndexedCorpus(CorpusFiles):
    """A corpus with its index, opened once per process and shared by its threads."""

    def __init__(self, folder: Path, name: str, version: str) -> None:
        self.index = VectorIndex(folder, expected=version)
        super().__init__(folder)
        self.name = name
        self.version = version


_OPEN_LOCK = Lock()


def open_corpus(lake: Lake, name: str, encoder: str = "") -> IndexedCorpus:
    """Open a corpus with its index; raises StaleInput if the index is older than the chunks or vectors."""
    stamp = lake.stamp(
        ("chunks", f"corpus/{name}/chunks"),
        ("chunk_embeddings", embeddings_key(name, encoder)),
        ("indexes", index_key(name, encoder)),
    )
    with _OPEN_LOCK:
        return _open_corpus(str(lake.root), name, encoder, stamp)


@lru_cache(maxsize=4)
def _open_corpus(root: str, name: str, encoder: str, stamp: Stamp) -> IndexedCorpus:
    lake = Lake(root)
    return IndexedCorpus(lake.index_folder(index_key(name, encoder)), name, corpus_version(lake, name, encoder))
