"""What a corpus will take before it is made: chunks, time and disk, from a sample that is cut and encoded now.

Documents are counted where their files tell (rows of Parquet, files of text) and estimated from the first lines where
they do not (JSON lines); the rest follows from what the sample's documents became.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from evidence_assets.benchmarks.corpora import Portion, documents_in
from evidence_assets.benchmarks.corpus_parts import chunk_rows
from evidence_assets.experiment.corpus_making import Tokens
from evidence_assets.lake.schemas import TABLES
from evidence_assets.models.in_use import encoder
from evidence_assets.profiles import Profile
from evidence_assets.retrieval.index_building import finished_bytes, kind_for

PORTIONS, DOCUMENTS, ENCODED = 8, 16, 32
"""Portions that are sampled, documents read of each at most, chunks that are encoded to know the pace."""
STORED_UP_TO = 2_000_000_000
"""Bytes of token vectors up to which a corpus keeps those of all its chunks; beyond it they are made on demand."""
ROW_BYTES, FILE_BYTES, TOKEN_BYTES = 146, 160, 21
"""Bytes, as measured, of a row of vectors and of a chunk's files besides text and vector, and of a token's row."""
INDEX_SECONDS = 0.4e-3
"""Seconds a chunk of what needs no model (rows, files and index), as measured on one core."""


@dataclass(frozen=True)
class CorpusPlan:
    """What a corpus will take, estimated but for its files; ``disk`` are bytes by what takes them."""

    files: int
    bytes: int
    documents: int
    chunks: int
    tokens: int
    seconds: float
    disk: dict[str, int]
    index: str
    """Kind of the vector index."""
    kept: Tokens
    """Whether token vectors of all chunks are kept."""

    @property
    def disk_bytes(self) -> int:
        return sum(self.disk.values())


def plan_corpus(portions: Sequence[Portion], profile: Profile) -> CorpusPlan:
    """What a corpus of these files will take with this profile."""
    model, tokens_model = encoder(profile.encoder), encoder(profile.token_encoder)
    step = max(1, len(portions) // PORTIONS)
    sample = [document for portion in portions[::step][:PORTIONS] for document in islice(portion.read(), DOCUMENTS)]
    started = time.perf_counter()
    rows = list(chunk_rows(sample, model, profile.chunking.max_tokens))
    n = max(1, len(rows))
    cut_seconds = (time.perf_counter() - started) / n
    texts = [row["text"] for row in rows[:: max(1, len(rows) // ENCODED)]][:ENCODED]
    started = time.perf_counter()
    model.sentences(texts)
    encode_seconds = (time.perf_counter() - started) / max(1, len(texts))

    files = [path for portion in portions for path in portion.files]
    documents = documents_in(files)
    chunks = round(documents * len(rows) / max(1, len(sample)))
    tokens = round(chunks * sum(row["n_tokens"] for row in rows) / n)
    size, d = sum(path.stat().st_size for path in files), model.dimensions
    vectors_of_tokens = tokens * (2 * tokens_model.dimensions + TOKEN_BYTES)
    kept: Tokens = "stored" if vectors_of_tokens <= STORED_UP_TO else "on_demand"
    kind = kind_for(chunks, d, profile.index.bytes) if profile.index.kind == "auto" else profile.index.kind
    index = finished_bytes(chunks, d, kind.partition(",")[2]) if "," in kind else 2 * d * chunks
    stored = pa.BufferOutputStream()  # chunks are stored twice: by file and by shard
    pq.write_table(pa.Table.from_pylist(rows, TABLES["chunks"].arrow), stored, compression="zstd")
    text = sum(len(row["text"].encode()) for row in rows) / n
    disk = {
        "files": size,
        "chunks": round(2 * chunks * stored.getvalue().size / n),
        "vectors": chunks * (2 * d + ROW_BYTES),
        "index": round(chunks * (text + 2 * d + FILE_BYTES)) + index,
        "tokens": vectors_of_tokens if kept == "stored" else 0,
    }
    seconds = chunks * (cut_seconds + (2 if kept == "stored" else 1) * encode_seconds + INDEX_SECONDS)
    return CorpusPlan(len(files), size, documents, chunks, tokens, seconds, disk, kind, kept)
