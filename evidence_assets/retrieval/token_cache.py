"""Token vectors of texts on disk, kept by text and encoder: filled on demand, shared by processes, bounded.

Segments appear whole and vanish whole, and what a process has opened stays readable when its file is gone.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock, RLock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evidence_assets.lake.array_files import find_key_positions, open_asset_file, open_batches, release_memory
from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, TokenVectors
from evidence_assets.retrieval.bm25 import IntArray, hash_terms
from evidence_assets.retrieval.corpus_files import KEY_DTYPE

VERSION = "1"
MAX_SEGMENT_TEXTS = 512
MAX_SEGMENT_CHARACTERS = 1 << 18
"""Characters of a segment's texts, so that what is encoded at once takes some hundred megabytes at most."""
_WRITE_LOCK = Lock()
"""Threads of a process that write the same segment take turns; processes write under names of their own."""

Keys = npt.NDArray[np.bytes_]
BoolArray = npt.NDArray[np.bool_]
ReadTexts = Callable[[IntArray], Sequence[str]]
"""Gives the texts at some of the places asked for."""


@dataclass(frozen=True, eq=False)
class TextTokens:
    """The tokens of one text: as an encoder gives them but for the rounding to float16."""

    vectors: npt.NDArray[np.float16]
    spans: IntArray
    words: IntArray
    terms: npt.NDArray[np.uint64]
    counts: IntArray

    @classmethod
    def of(cls, tokens: TokenVectors, dimensions: int) -> TextTokens:
        """What an encoder gives, as it is kept."""
        if not len(tokens.tokens):
            none = np.zeros((1, 2), np.int32)
            tokens = TokenVectors(np.zeros((1, dimensions), np.float32), none, np.zeros(1, np.int32), ("",))
        counted = Counter(tokens.tokens)
        with np.errstate(over="ignore"):
            vectors = tokens.vectors.astype(np.float16)
        return cls(
            vectors,
            tokens.offsets,
            tokens.words,
            hash_terms(tokens.tokens),
            np.array([counted[token] for token in tokens.tokens], dtype=np.int32),
        )


class Segment:
    """One file of texts, memory-mapped: an Arrow file of one batch, written once and never changed.

    A row is a text: its ``key``, and of its tokens the ``vectors`` (float16), ``spans`` (characters), ``words`` (their
    numbers), ``terms`` (surface forms by ``bm25.term_keys``) and ``counts`` (how often the text holds the form). A text
    without tokens keeps one of zeros, which is far from everything.
    """

    def __init__(self, path: Path, model: str, dimensions: int) -> None:
        remedy = "delete it, and it is made"
        self.path = path
        [batch] = open_asset_file(path, open_batches, remedy)
        stated = dict(batch.schema.metadata or {})
        if stated != _segment_metadata(model, dimensions):
            other = stated.get(b"model", b"another encoder").decode()
            raise StaleInput(f"{path} holds tokens of {other}, not of {model}: {remedy} again")
        column = {name: batch.column(name) for name in batch.schema.names}
        self.keys: Keys = np.frombuffer(column["key"].buffers()[1], dtype=KEY_DTYPE, count=len(batch))
        self.offsets = column["vectors"].offsets.to_numpy().astype(np.int64)
        self.vectors = column["vectors"].values.values.to_numpy().reshape(-1, dimensions)
        self.spans = column["spans"].values.values.to_numpy().reshape(-1, 2)
        self.words, self.counts = (column[name].values.to_numpy() for name in ("words", "counts"))
        coded = column["terms"].values
        self.terms, self.codes = coded.dictionary.to_numpy(), coded.indices.to_numpy()

    def rows(self, text: int) -> slice:
        return slice(int(self.offsets[text]), int(self.offsets[text + 1]))

    def tokens(self, text: int) -> TextTokens:
        own = self.rows(text)
        terms = self.terms[self.codes[own]]
        return TextTokens(self.vectors[own], self.spans[own], self.words[own], terms, self.counts[own])


def _segment_metadata(model: str, dimensions: int) -> dict[bytes, bytes]:
    return {b"version": VERSION.encode(), b"model": model.encode(), b"dimensions": str(dimensions).encode()}


def _list_array(offsets: IntArray, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _vector_array(array: npt.NDArray[Any], type_: pa.DataType) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(array).ravel(), type_)
    return pa.FixedSizeListArray.from_arrays(flat, array.shape[1])


def write_segment(folder: Path, keys: Keys, texts: Sequence[TextTokens], model: str, dimensions: int) -> Path:
    """Write the tokens of texts as a segment; raises BadInput where a vector does not fit into float16."""
    offsets = np.concatenate([[0], np.cumsum([len(text.vectors) for text in texts])])
    vectors = np.concatenate([text.vectors for text in texts])
    if not np.isfinite(vectors).all():
        raise BadInput(f"{model} gives a number that float16 cannot hold: choose another token_encoder")
    terms, codes = np.unique(np.concatenate([text.terms for text in texts]), return_inverse=True)
    spans, words, counts = (
        np.concatenate([getattr(text, name) for text in texts]) for name in ("spans", "words", "counts")
    )
    columns = {
        "key": pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(keys), [None, pa.py_buffer(keys.tobytes())]),
        "vectors": _list_array(offsets, _vector_array(vectors, pa.float16())),
        "spans": _list_array(offsets, _vector_array(spans, pa.int32())),
        "words": _list_array(offsets, pa.array(words, pa.int32())),
        "terms": _list_array(
            offsets, pa.DictionaryArray.from_arrays(pa.array(codes.ravel(), pa.int32()), pa.array(terms))
        ),
        "counts": _list_array(offsets, pa.array(counts, pa.int32())),
    }
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    batch = batch.replace_schema_metadata(_segment_metadata(model, dimensions))
    path = folder / f"{content_id('segment', VERSION, model, keys.tobytes().hex())}.arrow"
    with _WRITE_LOCK, replacing_file(path) as temporary, pa.ipc.new_file(str(temporary), batch.schema) as file:
        file.write_batch(batch)
    return path


def split_segments(texts: Sequence[str]) -> Iterator[slice]:
    """The parts of texts that are encoded, and kept, together."""
    start = characters = 0
    for i, text in enumerate(texts):
        if i > start and (i - start == MAX_SEGMENT_TEXTS or characters + len(text) > MAX_SEGMENT_CHARACTERS):
            yield slice(start, i)
            start, characters = i, 0
        characters += len(text)
    if start < len(texts):
        yield slice(start, len(texts))


@dataclass(frozen=True, eq=False)
class CachedTexts:
    """The tokens of the texts asked for, in that order: the segment of each text, and its number there."""

    segments: Sequence[Segment]
    segment_numbers: IntArray
    text_numbers: IntArray

    def __len__(self) -> int:
        return len(self.segment_numbers)

    @cached_property
    def lengths(self) -> IntArray:
        lengths = np.zeros(len(self), np.int64)
        for number in np.unique(self.segment_numbers).tolist():
            members = np.flatnonzero(self.segment_numbers == number)
            lengths[members] = np.diff(self.segments[number].offsets)[self.text_numbers[members]]
        return lengths

    def concatenate(self, other: CachedTexts) -> CachedTexts:
        """These texts and then others."""
        of = np.concatenate([self.segment_numbers, other.segment_numbers + len(self.segments)])
        return CachedTexts(
            [*self.segments, *other.segments], of, np.concatenate([self.text_numbers, other.text_numbers])
        )

    def tokens(self, place: int) -> TextTokens:
        return self.segments[int(self.segment_numbers[place])].tokens(int(self.text_numbers[place]))


class _SegmentIndex:
    """Where the text of each key is among segments."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = list(segments)
        keys = np.concatenate([np.empty(0, KEY_DTYPE), *(segment.keys for segment in segments)])
        lengths = [len(segment.keys) for segment in segments]
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._of = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)[order]
        self._text = np.concatenate([np.zeros(0, np.int32), *(np.arange(n, dtype=np.int32) for n in lengths)])[order]

    def is_missing(self, keys: Keys) -> BoolArray:
        return np.asarray(find_key_positions(self._keys, keys) < 0)

    def texts(self, keys: Keys) -> CachedTexts:
        """The texts of these keys, all of which are there."""
        places = find_key_positions(self._keys, keys)
        return CachedTexts(self.segments, self._of[places], self._text[places])


class TokenCache:
    """The tokens of one encoder, below ``folder``; safe to share between threads and between processes.

    ``within``: The folder whose size is bounded, with those of other encoders; ``limit`` is in bytes.
    ``whole``: Folders of segments that are part of an asset: read, never dropped.
    """

    def __init__(
        self,
        folder: Path,
        encoder: Encoder,
        model: str,
        *,
        bounded_folder: Path,
        max_bytes: int,
        asset_folders: Sequence[Path] = (),
    ) -> None:
        self._folder, self._encoder, self._model, self._dimensions = folder, encoder, model, encoder.dimensions
        self._bounded_folder, self._max_bytes, self._asset_folders = bounded_folder, max_bytes, list(asset_folders)
        self._lock, self._open, self._index = RLock(), dict[Path, Segment](), _SegmentIndex([])
        self._reload()

    def _reload(self) -> None:
        """See which segments there are now."""
        there = [path for folder in (*self._asset_folders, self._folder) for path in sorted(folder.glob("*.arrow"))]
        if there == [segment.path for segment in self._index.segments]:
            return
        for path in set(there) - set(self._open):
            try:
                self._open[path] = Segment(path, self._model, self._dimensions)
            except StaleInput:
                if path.exists():  # and was not dropped by another process meanwhile
                    raise
        self._open = {path: self._open[path] for path in there if path in self._open}
        self._index = _SegmentIndex(list(self._open.values()))

    def get(self, keys: Keys, read: ReadTexts) -> CachedTexts:
        """The tokens of the texts of these keys, those encoded and kept that were not; ``read`` gives their texts."""
        with self._lock:
            distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
            if self._index.is_missing(distinct).any():
                self._reload()  # another process may have kept them
            index, missing = self._index, self._index.is_missing(distinct)
            if missing.any():  # segments that are dropped while the rest is encoded stay readable
                index = _SegmentIndex([*index.segments, *self._encode_missing(distinct[missing], first[missing], read)])
            texts = index.texts(distinct)
            for number in np.unique(texts.segment_numbers).tolist():
                self._touch(index.segments[number].path)
            if missing.any():
                self._evict()
                self._reload()
                release_memory()
            places = inverse.ravel()
            return CachedTexts(texts.segments, texts.segment_numbers[places], texts.text_numbers[places])

    def find_cached(self, keys: Keys) -> list[TextTokens | None]:
        """The tokens of texts as far as they are kept."""
        missing = self._index.is_missing(keys)
        return [None if absent else self._index.texts(keys[[i]]).tokens(0) for i, absent in enumerate(missing)]

    def _encode_missing(self, keys: Keys, places: IntArray, read: ReadTexts) -> Iterator[Segment]:
        """Encodes texts and keeps them, segment by segment, in the order in which they were asked for."""
        order = np.argsort(places)
        keys, places = keys[order], places[order]
        for start in range(0, len(keys), MAX_SEGMENT_TEXTS):
            texts = read(places[start : start + MAX_SEGMENT_TEXTS])
            for part in split_segments(texts):
                tokens = [TextTokens.of(t, self._dimensions) for t in self._encoder.encode_tokens(texts[part])]
                own = keys[start + part.start : start + part.stop]
                path = write_segment(self._folder, own, tokens, self._model, self._dimensions)
                self._open[path] = Segment(path, self._model, self._dimensions)
                yield self._open[path]

    def _touch(self, path: Path) -> None:
        """Remember that a segment is in use, for every process that shares the cache; an asset's stay as they are."""
        if path.parent == self._folder:
            with contextlib.suppress(FileNotFoundError):
                os.utime(path)

    def _evict(self) -> None:
        """Delete the segments that were used least recently, until the rest are within the limit."""
        files = []
        for path in self._bounded_folder.rglob("*.arrow"):
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                files.append((status.st_mtime_ns, path, status.st_size))
        size = sum(size for *_, size in files)
        for _, path, own in sorted(files):
            if size <= self._max_bytes:
                break
            path.unlink(missing_ok=True)
            size -= own
