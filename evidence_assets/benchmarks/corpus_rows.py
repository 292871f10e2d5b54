"""From documents to rows of ``chunks``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from evidence_assets.benchmarks.records import Document
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.text.chunking import chunks

CHUNKING_VERSION = "1"


HARD_LIMIT = 512
"""No chunk is longer, whatever the encoder reads."""


def chunk_rows(documents: Iterable[Document], encoder: Encoder, max_tokens: int) -> Iterator[dict[str, Any]]:
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
