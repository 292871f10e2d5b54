"""What a corpus will take before it is made: chunks, time and disk, from a sample that is cut and encoded now."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from evidence_assets.benchmarks.corpora import Portion, documents_in
from evidence_assets.benchmarks.corpus_parts import chunk_rows
from evidence_assets.experiment.corpus_making import Tokens
from evidence_assets.models.in_use import encoder
from evidence_assets.profiles import Profile

PORTIONS, DOCUMENTS = 8, 16
"""Portions that are sampled, and documents read of each at most."""
STORED_UP_TO = 2_000_000_000
"""Bytes of token vectors up to which a corpus keeps those of all its chunks; beyond it they are made on demand."""
CHUNK_BYTES, TOKEN_BYTES = 306, 21
"""Bytes, as measured, of a chunk's rows and files besides texts and vectors, and of a token's row."""


@dataclass(frozen=True)
class CorpusPlan:
    """What a corpus will take, estimated but for its files."""

    files: int
    bytes: int
    documents: int
    chunks: int
    seconds: float
    disk_bytes: int
    kept: Tokens
    """Whether token vectors of all chunks are kept."""


def plan_corpus(portions: Sequence[Portion], profile: Profile) -> CorpusPlan:
    """What a corpus of these files will take with this profile.

    A chunk is stored twice as rows, once as text, and has a vector in the rows, the files and the index.
    """
    model, tokens_model = encoder(profile.encoder), encoder(profile.token_encoder)
    step = max(1, len(portions) // PORTIONS)
    sample = [document for portion in portions[::step][:PORTIONS] for document in islice(portion.read(), DOCUMENTS)]
    started = time.perf_counter()
    rows = list(chunk_rows(sample, model, profile.chunking.max_tokens))
    model.sentences([row["text"] for row in rows])
    n = max(1, len(rows))
    seconds = (time.perf_counter() - started) / n

    files = [path for portion in portions for path in portion.files]
    size, documents = sum(path.stat().st_size for path in files), documents_in(files)
    chunks = round(documents * len(rows) / max(1, len(sample)))
    tokens = round(chunks * sum(row["n_tokens"] for row in rows) / n)
    token_bytes = tokens * (2 * tokens_model.dimensions + TOKEN_BYTES)
    kept: Tokens = "stored" if token_bytes <= STORED_UP_TO else "on_demand"
    text_bytes = sum(len(row["text"].encode()) for row in rows) / n
    disk = size + round(chunks * (3 * text_bytes + 6 * model.dimensions + CHUNK_BYTES))
    seconds *= chunks
    if kept == "stored":
        disk, seconds = disk + token_bytes, 2 * seconds
    return CorpusPlan(len(files), size, documents, chunks, seconds, disk, kept)
