"""The files that a corpus is answered from: its chunks and their vectors, in one order, opened without being read.

======================= ===================================================================================
``chunks.arrow``        uncompressed Arrow IPC in batches of ``BATCH`` rows, memory-mapped when it is read
``vectors.npy``         n × d float16, the vector of each chunk
``id_keys.npy``         n uint64, hashes of the chunk ids, ascending
``id_places.npy``       n int64, the position of each of these
``corpus.json``         number of chunks, dimensions, version of these files
======================= ===================================================================================

The order is shard by shard, within a shard by chunk id: all files are the shards' rows end to end, so they are written in
one pass. An open corpus holds no Python object for a chunk; what is asked for is read by position, many at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evidence_assets.lake.array_files import ArrayWriter, open_array, open_json, opened
from evidence_assets.lake.errors import BadInput, StaleInput

VERSION = "1"
BATCH = 16_384
"""Rows of a batch, so that a position says which batch it lies in."""
SENTENCES = pa.list_(pa.struct([("start", pa.int32()), ("end", pa.int32())]))
SCHEMA = pa.schema(
    [
        ("chunk_id", pa.string()), ("doc_id", pa.string()), ("title", pa.string()), ("text", pa.string()),
        ("sentence_offsets", SENTENCES),
    ]
)  # fmt: skip
COLUMNS = SCHEMA.names

Ints = npt.NDArray[np.integer[Any]]
Vectors = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Shard:
    """One shard of a corpus, row by row: what a chunk says, and its vector.

    Both are read once, side by side, in blocks of any size; ``chunks`` have at least the columns ``COLUMNS`` and ascend by
    chunk id.
    """

    chunks: Iterable[pa.RecordBatch]
    vectors: Iterable[Vectors]


def _keys(ids: Sequence[str]) -> npt.NDArray[np.uint64]:
    digest = hashlib.blake2b
    return np.frombuffer(b"".join(digest(i.encode(), digest_size=8).digest() for i in ids), dtype="<u8")


def write_corpus_files(folder: Path, shards: Iterable[Shard]) -> int:
    """Write shards, in the order given, as the files of a corpus into ``folder``; returns how many chunks there are.

    Memory holds one batch, and 24 bytes a chunk while ids are sorted. ``folder`` exists and is replaced as a whole by who
    calls (``lake.atomic.replacing_folder``).

    Raises
    ------
    BadInput
        Where a shard has another number of vectors than of chunks, or a number that float16 cannot hold.
    """
    keys, dimensions, count = list[npt.NDArray[np.uint64]](), 0, 0
    vectors: ArrayWriter | None = None
    with pa.OSFile(str(folder / "chunks.arrow"), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as chunks:
        waiting = _Rebatched(chunks)
        try:
            for number, shard in enumerate(shards):
                before = count
                for batch in shard.chunks:
                    own = pa.Table.from_batches([batch]).select(COLUMNS).cast(SCHEMA)
                    keys.append(_keys(own.column("chunk_id").to_pylist()))
                    waiting.add(own)
                    count += len(own)
                written = 0
                for block in shard.vectors:
                    if vectors is None:
                        dimensions = int(block.shape[1])
                        vectors = ArrayWriter(folder / "vectors.npy", np.float16, (dimensions,))
                    with np.errstate(over="ignore"):
                        half = block.astype(np.float16)
                    if not np.isfinite(half).all():
                        raise BadInput(f"shard {number} of the corpus has a vector that float16 cannot hold")
                    vectors.add(half)
                    written += len(block)
                if written != count - before:
                    raise BadInput(
                        f"shard {number} of the corpus has {count - before} chunks but {written} vectors: "
                        "materialize its embeddings again"
                    )
            waiting.finish()
        finally:
            with vectors or ArrayWriter(folder / "vectors.npy", np.float16, (0,)):
                pass
    _write_ids(folder, keys)
    stated = {"version": VERSION, "chunks": count, "dimensions": dimensions}
    (folder / "corpus.json").write_text(json.dumps(stated, indent=1) + "\n", encoding="utf-8")
    return count


def _write_ids(folder: Path, keys: Sequence[npt.NDArray[np.uint64]]) -> None:
    joined = np.concatenate([*keys, np.zeros(0, np.uint64)])
    places = np.argsort(joined, kind="stable")
    for name, array in (("id_keys", joined[places]), ("id_places", places.astype(np.int64))):
        with ArrayWriter(folder / f"{name}.npy", array.dtype) as writer:
            writer.add(array)


class _Rebatched:
    """Batches of any size, written as batches of one size."""

    def __init__(self, sink: pa.ipc.RecordBatchFileWriter) -> None:
        self._sink, self._rows = sink, list[pa.Table]()
        self._waiting = 0

    def add(self, rows: pa.Table) -> None:
        self._rows.append(rows)
        self._waiting += len(rows)
        if self._waiting >= BATCH:
            table = pa.concat_tables(self._rows)
            whole = len(table) - len(table) % BATCH
            for start in range(0, whole, BATCH):
                self._write(table.slice(start, BATCH))
            # Taken and not sliced, so that what waits does not keep alive what is written.
            self._rows = [table.slice(whole).take(pa.array(range(len(table) - whole), pa.int64()))]
            self._waiting = len(table) - whole

    def finish(self) -> None:
        if self._waiting:
            self._write(pa.concat_tables(self._rows))

    def _write(self, table: pa.Table) -> None:
        self._sink.write_batch(table.combine_chunks().to_batches()[0])


class CorpusFiles:
    """The files of a corpus, opened; safe to share between threads, as nothing of it changes."""

    def __init__(self, folder: Path) -> None:
        stated = open_json(folder / "corpus.json")
        if stated.get("version") != VERSION:
            raise StaleInput(
                f"{folder} was written in form {stated.get('version')} of corpus files, this release reads {VERSION}: "
                "materialize the index again"
            )
        self.dimensions = int(stated["dimensions"])
        self._folder, self._size = folder, int(stated["chunks"])
        self._batches = opened(folder / "chunks.arrow", _batches)
        self._keys, self._places = (open_array(folder / f"id_{name}.npy") for name in ("keys", "places"))
        if not self._size == len(self._keys) == len(self._places) == sum(map(len, self._batches)):
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

    def column(self, name: str, positions: Sequence[int] | Ints) -> list[Any]:
        """The values of a column at some positions, in the order asked."""
        asked = np.asarray(positions, dtype=np.int64)
        if len(asked) and not (asked.min() >= 0 and asked.max() < self._size):
            raise IndexError(f"positions run from 0 to {self._size - 1}, asked for {asked.min()} to {asked.max()}")
        values: list[Any] = [None] * len(asked)
        # Batch by batch: to take rows of a column in many batches would join these first.
        of_batch = asked // BATCH
        for number in np.unique(of_batch).tolist():
            members = np.flatnonzero(of_batch == number)
            found = self._batches[number].column(name).take(pa.array(asked[members] - number * BATCH)).to_pylist()
            for i, value in zip(members.tolist(), found, strict=True):
                values[i] = value
        return values

    def ids(self, positions: Sequence[int] | Ints) -> list[str]:
        """Chunk ids."""
        return self.column("chunk_id", positions)

    def texts(self, positions: Sequence[int] | Ints) -> list[str]:
        """Texts."""
        return self.column("text", positions)

    def titles(self, positions: Sequence[int] | Ints) -> list[str]:
        """Titles; an empty one where there is none."""
        return [title or "" for title in self.column("title", positions)]

    def sentences(self, positions: Sequence[int] | Ints) -> list[list[tuple[int, int]]]:
        """Sentences, by the characters of the chunk's text."""
        return [[(s["start"], s["end"]) for s in row] for row in self.column("sentence_offsets", positions)]

    def blocks(self, name: str) -> Iterator[list[Any]]:
        """A whole column, block by block, in order."""
        for batch in self._batches:
            yield batch.column(name).to_pylist()

    def find(self, ids: Sequence[str]) -> Ints:
        """Position of each chunk id; −1 where it is unknown."""
        keys = _keys(ids)
        low, high = (np.searchsorted(self._keys, keys, side=side) for side in ("left", "right"))
        found = np.full(len(ids), -1, np.int64)
        # Ids of one hash, of which there is hardly ever more than one, are told apart by what they are.
        for i in np.flatnonzero(high > low).tolist():
            places = self._places[low[i] : high[i]]
            found[i] = next((p for p, known in zip(places, self.ids(places), strict=True) if known == ids[i]), -1)
        return found


def _batches(path: Path) -> list[pa.RecordBatch]:
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    return [reader.get_batch(i) for i in range(reader.num_record_batches)]
