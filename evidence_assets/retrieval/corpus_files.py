"""Memory-mapped files of a corpus: its chunks and vectors, in the same order.

Positions are ordered by shard, then by chunk id.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evidence_assets.lake.array_files import (
    ArrayWriter,
    find_key_positions,
    open_array,
    open_asset_file,
    open_batches,
    open_description,
)
from evidence_assets.lake.errors import BadInput
from evidence_assets.retrieval.bm25 import IntArray, TermIndex, TermIndexWriter
from evidence_assets.text.words import stems

VERSION = "3"
CHUNKS_PER_BATCH = 16_384
"""Chunks per batch while the files are written."""
TEXTS_PER_SLICE = 2_048
"""Texts whose words are in memory at a time while the files are written."""
SENTENCES = pa.list_(pa.struct([("start", pa.int32()), ("end", pa.int32())]))
COLUMNS = ["chunk_id", "doc_id", "title", "text", "sentence_offsets"]
SCHEMA = pa.schema([*((name, pa.string()) for name in COLUMNS[:-1]), (COLUMNS[-1], SENTENCES)])
KEY_DTYPE = np.dtype("S16")

Keys = npt.NDArray[np.bytes_]
Vectors = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Shard:
    """One shard of a corpus: batches of chunks, ascending by id, and blocks of vectors."""

    chunks: Iterable[pa.RecordBatch]
    vectors: Iterable[Vectors]


def hash_texts(texts: Sequence[str]) -> Keys:
    """128-bit hashes that identify texts or ids."""
    digest = hashlib.blake2b
    digests = b"".join(digest(t.encode(errors="surrogatepass"), digest_size=16).digest() for t in texts)
    return np.frombuffer(digests, dtype=KEY_DTYPE)


def write_corpus_files(folder: Path, shards: Iterable[Shard]) -> None:
    """Write the files of a corpus to the existing ``folder``: chunks, vectors, hashes, term index.

    Memory: one batch, 48 bytes per chunk while ids are sorted, and postings.
    Raises BadInput if a value exceeds float16.
    """
    vectors: ArrayWriter | None = None
    with ExitStack() as stack:
        chunks = _ChunkWriter(folder, stack)
        for number, shard in enumerate(shards):
            for batch in shard.chunks:
                chunks.add(batch)
            for block in shard.vectors:
                half = to_half_precision(block, f"shard {number} of the corpus has a vector", "check its encoder")
                if vectors is None:
                    vectors = stack.enter_context(ArrayWriter(folder / "vectors.npy", np.float16, half.shape[1:]))
                vectors.add(half)
    if vectors is None:
        np.save(folder / "vectors.npy", np.zeros((0, 0), np.float16))
    chunks.finish()


class _ChunkWriter:
    """Writes chunks, hashes of ids and texts, and the term index, until ``stack`` is closed."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        sink = stack.enter_context(pa.OSFile(str(folder / "chunks.arrow"), "wb"))
        self._chunks = stack.enter_context(pa.ipc.new_file(sink, SCHEMA))
        self._text_keys = stack.enter_context(ArrayWriter(folder / "text_keys.npy", KEY_DTYPE))
        self._ids = [np.empty(0, KEY_DTYPE)]
        self._words = TermIndexWriter(folder / "words")

    def add(self, batch: pa.RecordBatch) -> None:
        rows = pa.Table.from_batches([batch]).select(COLUMNS).cast(SCHEMA)
        self._chunks.write_table(rows)
        self._ids.append(hash_texts(rows.column("chunk_id").to_pylist()))
        for start in range(0, len(rows), TEXTS_PER_SLICE):
            columns = rows.slice(start, TEXTS_PER_SLICE).select(["title", "text"]).itercolumns()
            titles, texts = (column.to_pylist() for column in columns)
            self._text_keys.add(hash_texts(texts))
            self._words.add([stems(f"{title or ''} {text}") for title, text in zip(titles, texts, strict=True)])

    def finish(self) -> None:
        """Write the files that need all chunks."""
        keys = np.concatenate(self._ids)
        order = np.argsort(keys, kind="stable")
        np.save(self._folder / "id_keys.npy", keys[order])
        np.save(self._folder / "id_places.npy", order.astype(np.int64))
        self._words.finish()
        metadata = {"version": VERSION, "chunks": len(keys)}
        (self._folder / "corpus.json").write_text(json.dumps(metadata, indent=1) + "\n", encoding="utf-8")


def to_half_precision(block: Vectors, problem: str, remedy: str) -> npt.NDArray[np.float16]:
    """The vectors in float16; raises BadInput with problem and remedy if a value is too large."""
    with np.errstate(over="ignore"):
        half = block.astype(np.float16)
    if not np.isfinite(half).all():
        raise BadInput(f"{problem} that exceeds float16: {remedy}")
    return half


class CorpusFiles:
    """The opened files of a corpus; immutable, so threads can share them."""

    def __init__(self, folder: Path) -> None:
        metadata = open_description(folder / "corpus.json", VERSION, "")
        self._folder = folder
        self._size = int(metadata["chunks"])
        self._batches = open_asset_file(folder / "chunks.arrow", open_batches)
        self._starts = np.cumsum([0, *map(len, self._batches)])[:-1]
        self._keys, self._positions, self._text_keys = (
            open_array(folder / f"{name}.npy") for name in ("id_keys", "id_places", "text_keys")
        )

    def __len__(self) -> int:
        return self._size

    @property
    def vectors(self) -> npt.NDArray[np.float16]:
        """The vectors, memory-mapped."""
        return open_array(self._folder / "vectors.npy")

    def column(self, name: str, positions: Sequence[int] | IntArray) -> list[Any]:
        """Values of a column at some positions, in their order."""
        indices = np.asarray(positions, dtype=np.int64)
        if len(indices) and not (indices.min() >= 0 and indices.max() < self._size):
            raise IndexError(f"positions run from 0 to {self._size - 1}, got {indices.min()} to {indices.max()}")
        values: list[Any] = [None] * len(indices)
        # Batch by batch: ``take`` on a chunked column first concatenates its chunks.
        batch_numbers = np.searchsorted(self._starts, indices, side="right") - 1
        for number in np.unique(batch_numbers).tolist():
            members = np.flatnonzero(batch_numbers == number)
            rows = pa.array(indices[members] - self._starts[number])
            batch_values = self._batches[number].column(name).take(rows).to_pylist()
            for i, value in zip(members.tolist(), batch_values, strict=True):
                values[i] = value
        return values

    def ids(self, positions: Sequence[int] | IntArray) -> list[str]:
        return self.column("chunk_id", positions)

    def texts(self, positions: Sequence[int] | IntArray) -> list[str]:
        return self.column("text", positions)

    def titles(self, positions: Sequence[int] | IntArray) -> list[str]:
        """Titles; empty for chunks without a title."""
        return [title or "" for title in self.column("title", positions)]

    def sentences(self, positions: Sequence[int] | IntArray) -> list[list[tuple[int, int]]]:
        """Sentences as character ranges of the chunk's text."""
        return [[(s["start"], s["end"]) for s in row] for row in self.column("sentence_offsets", positions)]

    def text_keys(self, positions: Sequence[int] | IntArray) -> Keys:
        """Hashes of texts: the keys of the token cache."""
        return np.asarray(self._text_keys[np.asarray(positions, dtype=np.int64)])

    def find(self, ids: Sequence[str]) -> IntArray:
        """Position of each chunk id; −1 if it is unknown."""
        ranks = find_key_positions(self._keys, hash_texts(ids))
        return np.where(ranks >= 0, self._positions[ranks] if self._size else -1, -1)

    def word_index(self) -> TermIndex:
        """BM25 over the stems of titles and texts, without stop words."""
        return TermIndex(self._folder / "words")
