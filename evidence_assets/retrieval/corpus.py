"""From documents to chunks and their vectors: the rows of a corpus."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import typed
from evidence_assets.models.protocols import Encoder


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
