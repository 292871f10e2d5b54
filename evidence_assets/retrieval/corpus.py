"""From documents to chunks and their vectors: the rows of a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import Lake, typed
from evidence_assets.models.protocols import Encoder
from evidence_assets.retrieval.vector_index import VectorIndex


def embed(chunks_frame: pl.DataFrame, previous: pl.DataFrame, encoder: Encoder, model_id: str) -> tuple[pa.Table, int]:
    """Rows of ``chunk_embeddings``, vectors of unchanged texts taken over; and how many were."""
    ids = chunks_frame["chunk_id"].to_list()
    hashes = [content_id("embedding", text, model_id) for text in chunks_frame["text"].to_list()]
    known = {row[0]: i for i, row in enumerate(previous.select("input_hash").iter_rows())}
    vectors = np.zeros((len(ids), encoder.dimensions), np.float32)
    reused = [i for i, h in enumerate(hashes) if h in known]
    if reused:
        before = matrix(previous["vector"])
        vectors[reused] = before[[known[hashes[i]] for i in reused]]
    reused_set = set(reused)
    todo = [i for i in range(len(ids)) if i not in reused_set]
    if todo:
        vectors[todo] = encoder.sentences([chunks_frame["text"][i] for i in todo])
    table = typed(
        "chunk_embeddings",
        {
            "chunk_id": ids,
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), encoder.dimensions).cast(
                pa.list_(pa.float32())
            ),
            "model_id": [model_id] * len(ids),
            "input_hash": hashes,
        },
    )
    return table, len(reused)


def matrix(vectors: pl.Series) -> npt.NDArray[np.float32]:
    """A column of equally long vectors as one array, without a Python object a number."""
    if not len(vectors):
        return np.zeros((0, 0), np.float32)
    flat = vectors.explode().to_numpy().astype(np.float32, copy=False)
    return flat.reshape(len(vectors), -1)


def vectors_wrong(rows: pl.DataFrame) -> list[str]:
    """What is wrong with stored vectors: not finite, or not of length one."""
    values = matrix(rows["vector"])
    if not len(values):
        return []
    norms = np.linalg.norm(values, axis=1)
    wrong = np.flatnonzero(~np.isfinite(norms) | (np.abs(norms - 1) > 1e-3))
    return [f"vector of chunk {rows['chunk_id'][int(i)]} has length {norms[i]:.4f}, not 1" for i in wrong[:5]]


def vectors_version(embeddings: pl.DataFrame) -> str:
    """What an index built of these rows was built from."""
    return content_id(embeddings["chunk_id"].to_list(), embeddings["input_hash"].to_list())


def embeddings_in_order(lake: Lake, name: str) -> pl.DataFrame:
    """All vectors of a corpus in the order in which its index counts them."""
    return lake.read("chunk_embeddings", f"corpus/{name}/embeddings").sort("chunk_id")


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
