"""Tables of a corpus: its chunks and their vectors."""

from __future__ import annotations

import pyarrow as pa

from evidence_assets.lake.schemas.columns import INT, TEXT, declared

SPAN = pa.struct([pa.field("start", INT), pa.field("end", INT)])
TABLES = [
    declared(
        "chunks",
        "Pieces of documents, cut at sentence ends, each within what the encoder reads.",
        [
            ("chunk_id", TEXT, "Content hash of document, place and text."),
            ("doc_id", TEXT, "The document it was cut from."),
            ("title", TEXT, "The document's title."),
            ("ordinal", INT, "Number of the chunk within its document, from 0."),
            ("text", TEXT, "The chunk's text, as it stands in the document."),
            ("char_start", INT, "Where it begins in the document's text, in characters."),
            ("char_end", INT, "Where it ends."),
            ("n_tokens", INT, "Tokens of the encoder's own tokenizer, special tokens left out."),
            ("sentence_offsets", pa.list_(SPAN), "Start and end of each sentence within the chunk."),
            ("source", TEXT, "File it was read from, relative to the corpus folder."),
            ("source_version", TEXT, "Content hash of the document."),
        ],
        key="doc_id ordinal",
        row_id="chunk_id",
        kind="chunk",
    ),
    declared(
        "chunk_embeddings",
        "One vector a chunk, L2-normalised.",
        [
            ("chunk_id", TEXT, "The chunk."),
            ("vector", pa.list_(pa.float16()), "Its pooled embedding."),
            ("model_id", TEXT, "The encoder, its revision and number type."),
            ("input_hash", TEXT, "Hash of the text and the encoder; a row with the same hash is reused."),
        ],
        key="chunk_id",
        row_id="chunk_id",
        version="input_hash",
        kind="chunk_embedding",
    ),
]
