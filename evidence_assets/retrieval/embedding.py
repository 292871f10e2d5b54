"""Vectors of texts: those made before are reused by content, the others encoded in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from evidence_assets.lake.array_files import find_key_positions
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.rows import build_table
from evidence_assets.models.protocols import Encoder, FloatArray, NonFiniteVectors

TOGETHER = 1024
"""Chunks that are encoded in one call. They are of nearly equal length, so that few batches of the model are small."""
TEXTS_AT_ONCE = 4096
"""Texts that are encoded before their vectors are stored."""
NAMED = 5
"""Chunks without a vector that a message names."""
Half = npt.NDArray[np.float16]
Encode = Callable[[Sequence[str]], FloatArray]
Encoded = tuple[Half, list[int]]
"""Vectors of a block of texts, and the places of those that are no numbers."""
EncodeBlock = Callable[[list[str]], Any]
OverBlocks = Callable[[EncodeBlock, Iterable[list[str]]], Iterable[Any]]
"""How blocks of texts are encoded, in their order; as ``map`` does it, or by others."""


class Known:
    """Vectors that were made before, by the hashes of what they were made from."""

    def __init__(self, hashes: Sequence[str] | npt.NDArray[np.bytes_], vectors: npt.NDArray[Any]) -> None:
        keys = np.asarray(hashes, "S32")
        self._order = np.argsort(keys, kind="stable")
        self._hashes, self.vectors = keys[self._order], vectors

    @classmethod
    def of(cls, rows: pl.DataFrame) -> Known:
        """The vectors of rows with the columns ``input_hash`` and ``vector``."""
        flat = rows["vector"].to_arrow().flatten().to_numpy(zero_copy_only=False)
        return cls(rows["input_hash"].to_numpy(), flat.reshape(len(rows), -1) if len(rows) else flat[:, None])

    def rows(self, hashes: npt.NDArray[np.bytes_]) -> npt.NDArray[np.int64]:
        """The row of each hash; −1 where it is unknown."""
        rows = find_key_positions(self._hashes, hashes)
        return np.where(rows >= 0, self._order[rows], -1) if len(self._order) else rows


def hashes_of(texts: Iterable[str], model_id: str) -> npt.NDArray[np.bytes_]:
    """What the vectors of texts are known by."""
    return np.array([content_id("embedding", text, model_id) for text in texts], dtype="S32")


def vectors_of(
    texts: Sequence[str], model_id: str, known: Known, encode: Encode, into: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.bytes_], int]:
    """Write the vector of each text, block by block, known ones reused; the hashes, and how many were."""
    hashes = hashes_of(texts, model_id)
    rows = known.rows(hashes)
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        block = np.arange(start, min(start + TEXTS_AT_ONCE, len(texts)))
        old, new = block[rows[block] >= 0], block[rows[block] < 0]
        if len(old):
            into[old] = known.vectors[rows[old]]
        distinct = list(dict.fromkeys(texts[i] for i in new))
        number = {text: n for n, text in enumerate(distinct)}
        if distinct:
            into[new] = encode(distinct)[[number[texts[i]] for i in new]]
    return hashes, int((rows >= 0).sum())


def embed(
    chunks: pl.DataFrame,
    previous: pl.DataFrame,
    encoder: Encoder,
    model_id: str,
    keep: Callable[[pa.Table, bool], None] = lambda rows, last: None,
    heard: Callable[[int, int], None] = lambda done, total: None,
    encode: Encode | None = None,
    over: OverBlocks = map,
) -> tuple[pa.Table, int]:
    """A row a chunk, the vectors of unchanged texts reused; and how many were.

    ``keep``: Given the rows of every block as soon as it is encoded, and whether it is the last chance to keep them.
    ``heard``: Progress: how many chunks are encoded, of how many.
    ``encode``: How texts become vectors, where it is not the encoder's own way; ``over``: how blocks are encoded.
    Raises BadInput, after all others are encoded and kept, where the encoder gives no numbers for some texts.
    """
    ids, hashes = chunks["chunk_id"].to_list(), hashes_of(chunks["text"], model_id)
    known = Known.of(previous)
    rows = known.rows(hashes)
    vectors = np.zeros((len(ids), encoder.dimensions), np.float16)
    reused = np.flatnonzero(rows >= 0)
    for start in range(0, len(reused), TOGETHER):
        block = reused[start : start + TOGETHER]
        vectors[block] = known.vectors[rows[block]]
    order = np.argsort(-chunks["n_tokens"].to_numpy(), kind="stable")
    todo = order[rows[order] < 0].tolist()
    bad: list[int] = []
    done = 0
    blocks = [todo[start : start + TOGETHER] for start in range(0, len(todo), TOGETHER)]
    texts = ([chunks["text"][i] for i in block] for block in blocks)
    encoded_blocks = over(partial(_encoded, encode or encoder.encode_sentences), texts)
    for block, (encoded, wrong) in zip(blocks, encoded_blocks, strict=True):
        vectors[block] = encoded
        bad += [block[i] for i in wrong]
        good = sorted(set(block) - set(bad))
        done += len(block)
        table = _rows([ids[i] for i in good], vectors[good], model_id, hashes[good])
        keep(table, bool(bad) and done == len(todo))
        heard(done, len(todo))
    if bad:
        raise BadInput(_named(chunks, bad, model_id))
    return _rows(ids, vectors, model_id, hashes), len(reused)


def _encoded(encode: Encode, texts: Sequence[str]) -> Encoded:
    """Vectors, and the places of those that are no numbers."""
    try:
        vectors: npt.NDArray[Any] = encode(texts)
    except NonFiniteVectors as error:
        if not np.isfinite(error.vectors).all(axis=1).any():
            raise  # it is not the texts
        vectors = error.vectors
    wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1)).tolist()
    with np.errstate(invalid="ignore"):
        return vectors.astype(np.float16), wrong


def _named(chunks: pl.DataFrame, bad: Sequence[int], model_id: str) -> str:
    names = [
        f"chunk {chunks['chunk_id'][i]} of document {chunks['doc_id'][i]!r} in {chunks['source'][i]}"
        for i in sorted(bad)[:NAMED]
    ]
    more = f" and {len(bad) - NAMED:,} more" if len(bad) > NAMED else ""
    return (
        f"{model_id} gives vectors that are not numbers for {'; '.join(names)}{more}; all other chunks are encoded and "
        "kept: change these texts, or load the encoder with dtype: float32, and make the embeddings again"
    )


def _rows(ids: Sequence[str], vectors: Half, model_id: str, hashes: npt.NDArray[np.bytes_]) -> pa.Table:
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
