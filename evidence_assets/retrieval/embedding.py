"""From chunks to their vectors: the rows of ``chunk_embeddings``, made in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.rows import typed
from evidence_assets.models.protocols import Encoder, FloatArray, NotNumbers

TOGETHER = 1024
"""Chunks that are encoded in one call. They are of nearly equal length, so that few batches of the model are small."""
NAMED = 5
"""Chunks without a vector that a message names."""
Half = npt.NDArray[np.float16]
Encode = Callable[[Sequence[str]], FloatArray]
Encoded = tuple[Half, list[int]]
"""Vectors of a block of texts, and the places of those that are no numbers."""
EncodeBlock = Callable[[list[str]], Any]
OverBlocks = Callable[[EncodeBlock, Iterable[list[str]]], Iterable[Any]]
"""How blocks of texts are encoded, in their order; as ``map`` does it, or by others."""


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
    """A row a chunk, the vectors of unchanged texts taken over; and how many were.

    ``keep``: Given the rows of every block as soon as it is encoded, and whether it is the last chance to keep them.
    ``heard``: Told how many chunks are encoded, of how many.
    ``encode``: How texts become vectors, where the encoder may not read all of them whole, or is not the one that
        works.
    ``over``: How blocks of texts are encoded.
    Raises BadInput where the encoder gives no numbers for some texts: it names them, after all others are encoded and
    kept.
    """
    ids = chunks["chunk_id"].to_list()
    hashes = [content_id("embedding", text, model_id) for text in chunks["text"]]
    known = {hash_: i for i, hash_ in enumerate(previous["input_hash"])}
    before = previous["vector"].to_arrow()
    vectors = np.zeros((len(ids), encoder.dimensions), np.float16)
    reused = [i for i, hash_ in enumerate(hashes) if hash_ in known]
    own = [known[hashes[i]] for i in reused]
    for start in range(0, len(reused), TOGETHER):
        some = before.take(pa.array(own[start : start + TOGETHER], pa.int64()))
        flat = some.flatten().to_numpy(zero_copy_only=False).astype(np.float16)
        vectors[reused[start : start + TOGETHER]] = flat.reshape(len(some), -1)
    taken_over = set(reused)
    order = np.argsort(-chunks["n_tokens"].to_numpy(), kind="stable").tolist()
    todo = [i for i in order if i not in taken_over]
    bad: list[int] = []
    done = 0
    blocks = list(_blocks(todo))
    texts = ([chunks["text"][i] for i in block] for block in blocks)
    for block, (some_vectors, wrong) in zip(
        blocks, over(partial(_encoded, encode or encoder.sentences), texts), strict=True
    ):
        vectors[block] = some_vectors
        bad += [block[i] for i in wrong]
        good = sorted(set(block) - set(bad))
        done += len(block)
        rows = _rows([ids[i] for i in good], vectors[good], model_id, [hashes[i] for i in good])
        keep(rows, bool(bad) and done == len(todo))
        heard(done, len(todo))
    if bad:
        raise BadInput(_named(chunks, bad, model_id))
    return _rows(ids, vectors, model_id, hashes), len(reused)


def _blocks(todo: Sequence[int]) -> Iterator[list[int]]:
    for start in range(0, len(todo), TOGETHER):
        yield list(todo[start : start + TOGETHER])


def _encoded(encode: Encode, texts: Sequence[str]) -> Encoded:
    """Vectors, and the places of those that are no numbers."""
    try:
        vectors: npt.NDArray[Any] = encode(texts)
    except NotNumbers as error:
        if not np.isfinite(error.vectors).all(axis=1).any():
            raise  # it is not the texts
        vectors = error.vectors
    wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1)).tolist()
    with np.errstate(invalid="ignore"):
        return vectors.astype(np.float16), wrong


def _named(chunks: pl.DataFrame, bad: Sequence[int], model_id: str) -> str:
    told = "; ".join(
        f"chunk {chunks['chunk_id'][i]} of document {chunks['doc_id'][i]!r} in {chunks['source'][i]}"
        for i in sorted(bad)[:NAMED]
    )
    more = f" and {len(bad) - NAMED:,} more" if len(bad) > NAMED else ""
    return (
        f"{model_id} gives vectors that are not numbers for {told}{more}; all other chunks are encoded and kept: "
        "change these texts, or load the encoder with dtype: float32, and make the embeddings again"
    )


def _rows(ids: Sequence[str], vectors: Half, model_id: str, hashes: Iterable[str]) -> pa.Table:
    flat = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(vectors).ravel()), vectors.shape[1])
    return typed(
        "chunk_embeddings",
        {
            "chunk_id": list(ids),
            "vector": flat.cast(pa.list_(pa.float16())),
            "model_id": [model_id] * len(ids),
            "input_hash": list(hashes),
        },
    )
