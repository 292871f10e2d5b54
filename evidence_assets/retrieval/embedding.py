"""Embedding of texts: unchanged texts reuse their vectors, the others are encoded in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from evidence_assets.lake.array_files import find_key_positions
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.rows import build_table
from evidence_assets.models.protocols import FloatArray

CHUNKS_PER_CALL = 1024
"""Chunks encoded in one call. They have similar lengths, so that few batches need much padding."""
TEXTS_PER_BLOCK = 4096
"""Texts encoded before their vectors are stored."""
HalfArray = npt.NDArray[np.float16]
Encode = Callable[[Sequence[str]], FloatArray]


class VectorCache:
    """Previous vectors, by the hashes of their inputs."""

    def __init__(self, hashes: Sequence[str] | npt.NDArray[np.bytes_], vectors: npt.NDArray[Any]) -> None:
        keys = np.asarray(hashes, "S32")
        self._order = np.argsort(keys, kind="stable")
        self._hashes = keys[self._order]
        self.vectors = vectors

    @classmethod
    def of(cls, rows: pl.DataFrame) -> VectorCache:
        """The vectors of rows with the columns ``input_hash`` and ``vector``."""
        flat = rows["vector"].to_arrow().flatten().to_numpy(zero_copy_only=False)
        return cls(rows["input_hash"].to_numpy(), flat.reshape(len(rows), -1) if len(rows) else flat[:, None])

    def rows(self, hashes: npt.NDArray[np.bytes_]) -> npt.NDArray[np.int64]:
        """Row of each hash; −1 if it is unknown."""
        rows = find_key_positions(self._hashes, hashes)
        return np.where(rows >= 0, self._order[rows], -1) if len(self._order) else rows


def hash_inputs(texts: Iterable[str], model_id: str) -> npt.NDArray[np.bytes_]:
    """Hashes of texts and encoder that identify vectors."""
    return np.array([content_id("embedding", text, model_id) for text in texts], dtype="S32")


def fill_vectors(
    texts: Sequence[str], model_id: str, cache: VectorCache, encode: Encode, output: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.bytes_], int]:
    """Write the vectors of texts to ``output``; returns input hashes and the number of reused vectors."""
    hashes = hash_inputs(texts, model_id)
    rows = cache.rows(hashes)
    for start in range(0, len(texts), TEXTS_PER_BLOCK):
        block = np.arange(start, min(start + TEXTS_PER_BLOCK, len(texts)))
        cached = block[rows[block] >= 0]
        new = block[rows[block] < 0]
        if len(cached):
            output[cached] = cache.vectors[rows[cached]]
        if len(new):
            output[new] = encode([texts[i] for i in new])
    return hashes, int((rows >= 0).sum())


def embed(
    chunks: pl.DataFrame,
    previous: pl.DataFrame,
    encode: Encode,
    model_id: str,
    dimensions: int,
    save_block: Callable[[pa.Table], None],
    progress: Callable[[int, int], None],
) -> tuple[pa.Table, int]:
    """Rows of chunk embeddings, and the number of reused vectors.

    ``save_block``: Called with the rows of each block.
    ``progress``: Called with the numbers of encoded and of all new chunks.
    """
    ids = chunks["chunk_id"].to_list()
    hashes = hash_inputs(chunks["text"], model_id)
    cache = VectorCache.of(previous)
    rows = cache.rows(hashes)
    vectors = np.zeros((len(ids), dimensions), np.float16)
    reused = np.flatnonzero(rows >= 0)
    vectors[reused] = cache.vectors[rows[reused]]
    order = np.argsort(-chunks["n_tokens"].to_numpy(), kind="stable")
    new = order[rows[order] < 0].tolist()
    for start in range(0, len(new), CHUNKS_PER_CALL):
        block = new[start : start + CHUNKS_PER_CALL]
        vectors[block] = encode([chunks["text"][i] for i in block]).astype(np.float16)
        block.sort()
        save_block(_rows([ids[i] for i in block], vectors[block], model_id, hashes[block]))
        progress(start + len(block), len(new))
    return _rows(ids, vectors, model_id, hashes), len(reused)


def _rows(ids: Sequence[str], vectors: HalfArray, model_id: str, hashes: npt.NDArray[np.bytes_]) -> pa.Table:
    flat = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(vectors).ravel()), vectors.shape[1])
    return build_table(
        "chunk_embeddings",
        {
            "chunk_id": list(ids),
            "vector": flat.cast(pa.list_(pa.float16())),
            "model_id": [model_id] * len(ids),
            "input_hash": hashes.astype("U32"),
        },
    )
