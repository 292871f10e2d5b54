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
from evidence_assets.retrieval.corpus_files import Keys

CHUNKS_PER_CALL = 1024
"""Chunks encoded in one call. They have similar lengths, so that few batches need much padding."""
TEXTS_PER_BLOCK = 4096
"""Texts encoded before their vectors are stored."""
AnyArray = npt.NDArray[Any]
Encode = Callable[[Sequence[str]], FloatArray]


def vector_matrix(column: pa.Array) -> AnyArray:
    """A column of vectors as one matrix, without Python objects for the numbers."""
    numbers: AnyArray = column.flatten().to_numpy(zero_copy_only=False)
    return numbers.reshape(len(column), -1 if len(column) else 1)


def vector_column(vectors: AnyArray) -> pa.Array:
    """The rows of a matrix as a column of vectors."""
    numbers = pa.array(np.ascontiguousarray(vectors).ravel())
    return pa.FixedSizeListArray.from_arrays(numbers, vectors.shape[1]).cast(pa.list_(numbers.type))


class VectorCache:
    """Previous vectors, by the hashes of their inputs."""

    def __init__(self, hashes: Sequence[str] | Keys, vectors: AnyArray) -> None:
        keys = np.asarray(hashes, "S32")
        self._order = np.argsort(keys, kind="stable")
        self._hashes = keys[self._order]
        self._vectors = vectors

    @classmethod
    def of(cls, rows: pl.DataFrame) -> VectorCache:
        """The vectors of rows with the columns ``input_hash`` and ``vector``."""
        return cls(rows["input_hash"].to_numpy(), vector_matrix(rows["vector"].to_arrow()))

    def copy_known(self, hashes: Keys, output: AnyArray) -> npt.NDArray[np.int64]:
        """Write the vectors of known hashes to their rows of ``output``; returns the other rows.

        Vectors of another length are not known: a server may have another model under the same name.
        """
        if self._vectors.shape[1] != output.shape[1]:
            return np.arange(len(hashes))
        positions = find_key_positions(self._hashes, hashes)
        known_rows = np.flatnonzero(positions >= 0)
        for start in range(0, len(known_rows), TEXTS_PER_BLOCK):  # in blocks, as they may be larger than the memory
            block = known_rows[start : start + TEXTS_PER_BLOCK]
            output[block] = self._vectors[self._order[positions[block]]]
        return np.flatnonzero(positions < 0)


def hash_inputs(texts: Iterable[str], model_id: str) -> Keys:
    """Hashes of texts and encoder that identify vectors."""
    return np.array([content_id("embedding", text, model_id) for text in texts], dtype="S32")


def fill_vectors(
    texts: Sequence[str], model_id: str, cache: VectorCache, encode: Encode, output: AnyArray
) -> tuple[Keys, int]:
    """Write the vectors of texts to ``output``; returns input hashes and the number of reused vectors."""
    hashes = hash_inputs(texts, model_id)
    new = cache.copy_known(hashes, output)
    for start in range(0, len(new), TEXTS_PER_BLOCK):
        block = new[start : start + TEXTS_PER_BLOCK]
        output[block] = encode([texts[i] for i in block])
    return hashes, len(texts) - len(new)


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
    ids = chunks["chunk_id"]
    hashes = hash_inputs(chunks["text"], model_id)
    vectors = np.zeros((len(ids), dimensions), np.float16)
    new = VectorCache.of(previous).copy_known(hashes, vectors)
    longest_first = new[np.argsort(-chunks["n_tokens"].to_numpy()[new], kind="stable")]
    for start in range(0, len(new), CHUNKS_PER_CALL):
        block = longest_first[start : start + CHUNKS_PER_CALL]
        vectors[block] = encode(chunks["text"].gather(block).to_list())
        block = np.sort(block)
        save_block(_embedding_rows(ids.gather(block), vectors[block], model_id, hashes[block]))
        progress(start + len(block), len(new))
    return _embedding_rows(ids, vectors, model_id, hashes), len(ids) - len(new)


def _embedding_rows(ids: pl.Series, vectors: AnyArray, model_id: str, hashes: Keys) -> pa.Table:
    columns = {
        "chunk_id": ids.to_list(),
        "vector": vector_column(vectors),
        "model_id": [model_id] * len(ids),
        "input_hash": hashes.astype("U32"),
    }
    return build_table("chunk_embeddings", columns)
