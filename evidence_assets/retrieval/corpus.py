"""The chunks of a corpus and their vectors: as rows of the lake, and opened for answering.

Keys of a further encoder end with its name; without one those of the profile's first encoder are meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow.parquet as pq

from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.ids import content_id, key_for_model
from evidence_assets.lake.store import Lake, Stamp
from evidence_assets.retrieval.corpus_files import CHUNKS_PER_BATCH, COLUMNS, CorpusFiles, Shard
from evidence_assets.retrieval.vector_index import VectorIndex


def vector_matrix(vectors: pl.Series) -> npt.NDArray[np.float32]:
    """A column of equally long vectors as one array, without a Python object a number."""
    if not len(vectors):
        return np.zeros((0, 0), np.float32)
    flat = vectors.explode(empty_as_null=False).to_numpy().astype(np.float32, copy=False)
    return flat.reshape(len(vectors), -1)


def find_invalid_vectors(rows: pl.DataFrame) -> list[str]:
    """What is wrong with stored vectors: not finite, or not of length one."""
    norms = np.linalg.norm(vector_matrix(rows["vector"]), axis=1)
    wrong = np.flatnonzero(~(np.abs(norms - 1) <= 1e-3))
    return [f"vector of chunk {rows['chunk_id'][int(i)]} has length {norms[i]:.4f}, not 1" for i in wrong[:5]]


def _sorted_shards(lake: Lake, table: str, asset: str) -> list[str]:
    stems = lake.partitions(table, asset)
    return sorted(stems, key=lambda stem: (not stem.isdecimal(), int(stem) if stem.isdecimal() else 0, stem))


def embeddings_key(name: str, encoder: str = "") -> str:
    """The asset that holds the vectors of a corpus."""
    return key_for_model(f"corpus/{name}/embeddings", encoder)


def index_key(name: str, encoder: str = "") -> str:
    """The asset that a corpus is answered from."""
    return key_for_model(f"corpus/{name}/index", encoder)


def embedded_shards(lake: Lake, name: str, encoder: str = "") -> list[str]:
    """The shards of a corpus that are embedded, in the order in which its chunks are counted."""
    return _sorted_shards(lake, "chunk_embeddings", embeddings_key(name, encoder))


def corpus_version(lake: Lake, name: str, encoder: str = "") -> str:
    """What chunks and vectors the lake holds of a corpus now, told from what their writers stated: no row is read."""
    parts = (("chunks", f"corpus/{name}/chunks"), ("chunk_embeddings", embeddings_key(name, encoder)))
    return content_id(
        [
            [shard, *(lake.stored_version(table, asset, shard) for table, asset in parts)]
            for shard in embedded_shards(lake, name, encoder)
        ]
    )


def chunks_version(lake: Lake, name: str) -> str:
    """What chunks the lake holds of a corpus now."""
    asset = f"corpus/{name}/chunks"
    return content_id([[s, lake.stored_version("chunks", asset, s)] for s in _sorted_shards(lake, "chunks", asset)])


def read_chunk_texts(lake: Lake, name: str) -> Iterator[list[str]]:
    """The texts of a corpus in its order, block by block; memory holds those of one shard."""
    asset = f"corpus/{name}/chunks"
    for shard in _sorted_shards(lake, "chunks", asset):
        texts = lake.read("chunks", asset, shard, ["chunk_id", "text"]).sort("chunk_id")["text"]
        for start in range(0, len(texts), CHUNKS_PER_BATCH):
            yield texts[start : start + CHUNKS_PER_BATCH].to_list()


def read_shards(lake: Lake, name: str, encoder: str = "") -> Iterator[Shard]:
    """A corpus as it is written into the files that it is answered from; memory holds the chunks of one shard.

    Raises StaleInput where chunks and vectors of a shard are not of the same texts.
    """
    for shard in embedded_shards(lake, name, encoder):
        chunks = lake.read("chunks", f"corpus/{name}/chunks", shard, list(COLUMNS)).sort("chunk_id")
        path = lake.path("chunk_embeddings", embeddings_key(name, encoder), shard)
        batches = (batch for part in chunks.iter_slices(CHUNKS_PER_BATCH) for batch in part.to_arrow().to_batches())
        yield Shard(batches, _vectors(path, chunks["chunk_id"]))


def _vectors(path: Path, ids: pl.Series) -> Iterator[npt.NDArray[np.floating[Any]]]:
    """The vectors of a file, block by block, which must be those of these chunks."""
    stale = f"{path} is not of the chunks that the lake holds now: materialize the embeddings of its shard again"
    seen = 0
    with path.open("rb") as handle:
        for batch in pq.ParquetFile(handle).iter_batches(CHUNKS_PER_BATCH, columns=["chunk_id", "vector"]):
            of_batch = pl.Series(batch.column("chunk_id"))
            if not of_batch.equals(ids[seen : seen + len(of_batch)]):
                raise StaleInput(stale)
            seen += len(of_batch)
            yield batch.column("vector").flatten().to_numpy(zero_copy_only=False).reshape(len(of_batch), -1)
    if seen != len(ids):
        raise StaleInput(stale)


class IndexedCorpus(CorpusFiles):
    """A corpus in the order in which its index counts its chunks, opened once a process and shared by its threads."""

    def __init__(self, folder: Path, name: str, version: str) -> None:
        self.index = VectorIndex(folder, expected=version)
        super().__init__(folder)
        self.name, self.version = name, version
        if self.index.meta.vectors != len(self):
            raise StaleInput(f"the files in {folder} do not belong together: materialize the index again")


_OPENING = Lock()


def open_corpus(lake: Lake, name: str, encoder: str = "") -> IndexedCorpus:
    """Chunks, vectors and index of a corpus; refused where the index is older than the chunks or their vectors."""
    stamp = lake.stamp(
        ("chunks", f"corpus/{name}/chunks"),
        ("chunk_embeddings", embeddings_key(name, encoder)),
        ("indexes", index_key(name, encoder)),
    )
    with _OPENING:
        return _open_corpus(str(lake.root), name, encoder, stamp)


@lru_cache(maxsize=4)
def _open_corpus(root: str, name: str, encoder: str, stamp: Stamp) -> IndexedCorpus:
    lake = Lake(root)
    return IndexedCorpus(lake.index_folder(index_key(name, encoder)), name, corpus_version(lake, name, encoder))
