"""From documents to rows of ``chunks``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from evidence_assets.benchmarks.records import Document
from evidence_assets.lake.ids import content_id, shard_of
from evidence_assets.lake.schemas import TABLES
from evidence_assets.models.protocols import Encoder
from evidence_assets.text.chunking import chunks

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
