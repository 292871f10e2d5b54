"""The files that a corpus is answered from: its chunks and their vectors, in one order, memory-mapped.

The order is shard by shard, within a shard by chunk id. What is asked for is read by position, many at once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
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
from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.retrieval.bm25 import IntArray, TermIndex, TermIndexWriter, lowercase_words

VERSION = "2"
CHUNKS_PER_BATCH = 16_384
"""Chunks that are read together while the files are written."""
TEXTS_PER_SLICE = 2_048
"""Texts whose words are in memory at a time while the files are written."""
SENTENCES = pa.list_(pa.struct([("start", pa.int32()), ("end", pa.int32())]))
SCHEMA = pa.schema(
    [
        ("chunk_id", pa.string()),
        ("doc_id", pa.string()),
        ("title", pa.string()),
        ("text", pa.string()),
        ("sentence_offsets", SENTENCES),
    ]
)
COLUMNS = SCHEMA.names
KEY_DTYPE = np.dtype("S16")

Vectors = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Shard:
    """One shard of a corpus: its chunks with the columns ``COLUMNS``, ascending by id, and their vectors, in blocks."""

    chunks: Iterable[pa.RecordBatch]
    vectors: Iterable[Vectors]


def hash_texts(texts: Sequence[str]) -> npt.NDArray[np.bytes_]:
    """What texts, or ids, are known by."""
    digest = hashlib.blake2b
    joined = b"".join(digest(t.encode(errors="surrogatepass"), digest_size=16).digest() for t in texts)
    return np.frombuffer(joined, dtype=KEY_DTYPE)


class _Writers:
    """What is written while the shards go by: chunks, vectors, keys of ids and texts, BM25 with and without titles."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack, self.count, self.dimensions = folder, stack, 0, 0
        sink = stack.enter_context(pa.OSFile(str(folder / "chunks.arrow"), "wb"))
        self._chunks = stack.enter_context(pa.ipc.new_file(sink, SCHEMA))
        self._text_keys = stack.enter_context(ArrayWriter(folder / "text_keys.npy", KEY_DTYPE))
        self._ids = list[npt.NDArray[np.bytes_]]()
        self._words, self._titled = TermIndexWriter(folder / "words"), TermIndexWriter(folder / "titled")
        self._vectors: ArrayWriter | None = None
        self._any_title = False

    def chunks(self, batch: pa.RecordBatch) -> None:
        rows = pa.Table.from_batches([batch]).select(COLUMNS).cast(SCHEMA)
        for start in range(0, len(rows), TEXTS_PER_SLICE):
            some = rows.slice(start, TEXTS_PER_SLICE)
            ids, titles, texts = (some.column(name).to_pylist() for name in ("chunk_id", "title", "text"))
            self._ids.append(hash_texts(ids))
            self._text_keys.add(hash_texts(texts))
            self._words.add([lowercase_words(text) for text in texts])
            self._any_title = self._any_title or any(titles)
            self._titled.add(
                [lowercase_words(f"{title or ''} {text}") for title, text in zip(titles, texts, strict=True)]
            )
        self._chunks.write_table(rows)
        self.count += len(rows)

    def vectors(self, block: Vectors, shard: int) -> None:
        if self._vectors is None:
            self.dimensions = int(block.shape[1])
            writer = ArrayWriter(self._folder / "vectors.npy", np.float16, (self.dimensions,))
            self._vectors = self._stack.enter_context(writer)
        with np.errstate(over="ignore"):
            half = block.astype(np.float16)
        if not np.isfinite(half).all():
            raise BadInput(f"shard {shard} of the corpus has a vector that float16 cannot hold")
        self._vectors.add(half)

    def finish(self) -> None:
        if self._vectors is None:
            np.save(self._folder / "vectors.npy", np.zeros((0, 0), np.float16))
        joined = np.concatenate([*self._ids, np.empty(0, KEY_DTYPE)])
        places = np.argsort(joined, kind="stable")
        np.save(self._folder / "id_keys.npy", joined[places])
        np.save(self._folder / "id_places.npy", places.astype(np.int64))
        self._words.finish()
        self._titled.finish()
        if not self._any_title:
            shutil.rmtree(self._folder / "titled")


def write_corpus_files(folder: Path, shards: Iterable[Shard]) -> int:
    """Write shards as the files of a corpus into ``folder``, which exists; returns how many chunks there are.

    Memory holds one batch, 48 bytes a chunk while ids are sorted, and postings.
    Raises BadInput where a shard has another number of vectors than of chunks, or a number that float16 cannot hold.
    """
    with ExitStack() as stack:
        writers = _Writers(folder, stack)
        for number, shard in enumerate(shards):
            before = writers.count
            for batch in shard.chunks:
                writers.chunks(batch)
            written = 0
            for block in shard.vectors:
                writers.vectors(block, number)
                written += len(block)
            if written != writers.count - before:
                raise BadInput(
                    f"shard {number} of the corpus has {writers.count - before} chunks but {written} vectors: "
                    "materialize its embeddings again"
                )
        writers.finish()
    stated = {"version": VERSION, "chunks": writers.count, "dimensions": writers.dimensions}
    (folder / "corpus.json").write_text(json.dumps(stated, indent=1) + "\n", encoding="utf-8")
    return writers.count


class CorpusFiles:
    """The files of a corpus, opened; safe to share between threads, as nothing of it changes."""

    def __init__(self, folder: Path) -> None:
        stated = open_description(folder / "corpus.json", VERSION, "")
        self.dimensions = int(stated["dimensions"])
        self._folder, self._size = folder, int(stated["chunks"])
        self._batches = open_asset_file(folder / "chunks.arrow", open_batches)
        self._starts = np.cumsum([0, *map(len, self._batches)])[:-1]
        self._keys, self._places, self._text_keys = (
            open_array(folder / f"{name}.npy") for name in ("id_keys", "id_places", "text_keys")
        )
        lengths = {len(self._keys), len(self._places), len(self._text_keys), sum(map(len, self._batches))}
        if lengths != {self._size}:
            raise StaleInput(f"the files in {folder} do not belong together: materialize the index again")

    def __len__(self) -> int:
        return self._size

    @property
    def vectors(self) -> npt.NDArray[np.float16]:
        """The vectors, memory-mapped."""
        array: npt.NDArray[np.float16] = open_array(self._folder / "vectors.npy")
        if array.shape != (self._size, self.dimensions):
            raise StaleInput(f"the files in {self._folder} do not belong together: materialize the index again")
        return array

    def column(self, name: str, positions: Sequence[int] | IntArray) -> list[Any]:
        """The values of a column at some positions, in the order asked."""
        asked = np.asarray(positions, dtype=np.int64)
        if len(asked) and not (asked.min() >= 0 and asked.max() < self._size):
            raise IndexError(f"positions run from 0 to {self._size - 1}, asked for {asked.min()} to {asked.max()}")
        values: list[Any] = [None] * len(asked)
        # Batch by batch: to take rows of a column in many batches would join these first.
        of_batch = np.searchsorted(self._starts, asked, side="right") - 1
        for number in np.unique(of_batch).tolist():
            members = np.flatnonzero(of_batch == number)
            found = self._batches[number].column(name).take(pa.array(asked[members] - self._starts[number])).to_pylist()
            for i, value in zip(members.tolist(), found, strict=True):
                values[i] = value
        return values

    def ids(self, positions: Sequence[int] | IntArray) -> list[str]:
        return self.column("chunk_id", positions)

    def texts(self, positions: Sequence[int] | IntArray) -> list[str]:
        return self.column("text", positions)

    def titles(self, positions: Sequence[int] | IntArray) -> list[str]:
        """Titles; an empty one where there is none."""
        return [title or "" for title in self.column("title", positions)]

    def sentences(self, positions: Sequence[int] | IntArray) -> list[list[tuple[int, int]]]:
        """Sentences, by the characters of the chunk's text."""
        return [[(s["start"], s["end"]) for s in row] for row in self.column("sentence_offsets", positions)]

    def text_keys(self, positions: Sequence[int] | IntArray) -> npt.NDArray[np.bytes_]:
        """What the tokens of texts are kept under."""
        return np.asarray(self._text_keys[np.asarray(positions, dtype=np.int64)])

    def find(self, ids: Sequence[str]) -> IntArray:
        """Position of each chunk id; −1 where it is unknown."""
        found = find_key_positions(self._keys, hash_texts(ids))
        return np.where(found >= 0, self._places[found] if self._size else -1, -1)

    def word_index(self, *, titles: bool = False) -> TermIndex:
        """BM25 over the words of texts, or of titles and texts."""
        titled = self._folder / "titled"
        return TermIndex(titled if titles and titled.exists() else self._folder / "words")
