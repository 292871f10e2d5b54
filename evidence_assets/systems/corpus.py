"""From documents to chunks and their vectors: the rows of a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from evidence_assets.datasets.records import Document
from evidence_assets.lake.ids import content_id, shard_of
from evidence_assets.lake.schemas import TABLES
from evidence_assets.methods.chunking import chunks
from evidence_assets.models.protocols import Encoder

CHUNKING_VERSION = "1"
HARD_LIMIT = 512
"""No chunk is longer, whatever the encoder reads."""


def in_shard(documents: Iterable[Document], shard: int, shards: int) -> Iterator[Document]:
    """The documents that a stable hash of their id puts into one shard."""
    return (d for d in documents if shard_of(content_id("document", d.doc_id), shards) == shard)


def chunk_rows(documents: Iterable[Document], encoder: Encoder, max_tokens: int) -> Iterator[dict[str, Any]]:
    """Rows of ``chunks``, document by document."""
    limit = min(max_tokens, HARD_LIMIT, encoder.max_tokens)
    for document in documents:
        version = content_id("document", document.doc_id, document.title, document.text)
        for ordinal, chunk in enumerate(chunks(document.text, encoder.count_tokens, limit)):
            text = document.text[chunk.start : chunk.end]
            yield {
                "chunk_id": content_id("chunk", document.doc_id, ordinal, chunk.start, document.title, text),
                "doc_id": document.doc_id,
                "title": document.title,
                "ordinal": ordinal,
                "text": text,
                "char_start": chunk.start,
                "char_end": chunk.end,
                "n_tokens": chunk.n_tokens,
                "sentence_offsets": [{"start": a - chunk.start, "end": b - chunk.start} for a, b in chunk.sentences],
                "source": document.source,
                "source_version": version,
            }


def chunk_table(documents: Iterable[Document], encoder: Encoder, max_tokens: int) -> pa.Table:
    """Chunks as an Arrow table, made in batches so that Python objects never hold more than a few thousand rows."""
    schema = TABLES["chunks"].arrow
    batches = [
        pa.RecordBatch.from_pylist(list(rows), schema=schema)
        for rows in _batched(chunk_rows(documents, encoder, max_tokens), 4096)
    ]
    return pa.Table.from_batches(batches, schema=schema)


def _batched(rows: Iterator[dict[str, Any]], size: int) -> Iterator[Sequence[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


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
    table = pa.table(
        {
            "chunk_id": ids,
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), encoder.dimensions).cast(
                pa.list_(pa.float32())
            ),
            "model_id": [model_id] * len(ids),
            "input_hash": hashes,
        },
        schema=TABLES["chunk_embeddings"].arrow,
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
