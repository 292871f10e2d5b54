"""Bounded cache of token vectors on disk, by text and encoder, shared by processes.

Segments are added and deleted as whole files. A process can read an opened segment after its file is deleted.
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
"""Maximum characters of a segment's texts, so that one call of the encoder takes a few hundred megabytes."""
_WRITE_LOCK = Lock()
"""Serialises threads that write the same segment; processes write to separate temporary files."""

Keys = npt.NDArray[np.bytes_]
BoolArray = npt.NDArray[np.bool_]
ReadTexts = Callable[[IntArray], Sequence[str]]
"""Reads the texts at some of the requested positions."""


@dataclass(frozen=True, eq=False)
class TextTokens:
    """The tokens of one text, with vectors rounded to float16."""

    vectors: npt.NDArray[np.float16]
    spans: IntArray
    words: IntArray
    terms: npt.NDArray[np.uint64]
    counts: IntArray

    @classmethod
    def of(cls, tokens: TokenVectors, dimensions: int) -> TextTokens:
        """The tokens of an encoder in the format of the cache."""
        if not len(tokens.tokens):
            no_spans = np.zeros((1, 2), np.int32)
            tokens = TokenVectors(np.zeros((1, dimensions), np.float32), no_spans, np.zeros(1, np.int32), ("",))
        counts = Counter(tokens.tokens)
        with np.errstate(over="ignore"):
            vectors = tokens.vectors.astype(np.float16)
        return cls(
            vectors,
            tokens.offsets,
            tokens.words,
            hash_terms(tokens.tokens),
            np.array([counts[token] for token in tokens.tokens], dtype=np.int32),
        )


class Segment:
    """An immutable, memory-mapped file of texts: an Arrow file of one batch.

    A row is a text with its ``key`` and, for its tokens, ``vectors`` (float16), ``spans`` (characters), ``words``
    (word numbers), ``terms`` (hashes of surface forms) and ``counts`` (occurrences of the form in the text). A text
    without tokens has one zero vector.
    """

    def __init__(self, path: Path, model: str, dimensions: int) -> None:
        remedy = "delete it, and the cache writes it"
        self.path = path
        [batch] = open_asset_file(path, open_batches, remedy)
        metadata = dict(batch.schema.metadata or {})
        if metadata != _segment_metadata(model, dimensions):
            other = metadata.get(b"model", b"another encoder").decode()
            raise StaleInput(f"{path} has tokens of {other}, not of {model}: {remedy} again")
        column = {name: batch.column(name) for name in batch.schema.names}
        self.keys: Keys = np.frombuffer(column["key"].buffers()[1], dtype=KEY_DTYPE, count=len(batch))
        self.offsets = column["vectors"].offsets.to_numpy().astype(np.int64)
        self.vectors = column["vectors"].values.values.to_numpy().reshape(-1, dimensions)
        self.spans = column["spans"].values.values.to_numpy().reshape(-1, 2)
        self.words, self.counts = (column[name].values.to_numpy() for name in ("words", "counts"))
        terms = column["terms"].values
        self.terms, self.codes = terms.dictionary.to_numpy(), terms.indices.to_numpy()

    def rows(self, text: int) -> slice:
        return slice(int(self.offsets[text]), int(self.offsets[text + 1]))

    def tokens(self, text: int) -> TextTokens:
        rows = self.rows(text)
        terms = self.terms[self.codes[rows]]
        return TextTokens(self.vectors[rows], self.spans[rows], self.words[rows], terms, self.counts[rows])


def _segment_metadata(model: str, dimensions: int) -> dict[bytes, bytes]:
    return {b"version": VERSION.encode(), b"model": model.encode(), b"dimensions": str(dimensions).encode()}


def _list_array(offsets: IntArray, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _vector_array(array: npt.NDArray[Any], type_: pa.DataType) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(array).ravel(), type_)
    return pa.FixedSizeListArray.from_arrays(flat, array.shape[1])


def write_segment(folder: Path, keys: Keys, texts: Sequence[TextTokens], model: str, dimensions: int) -> Path:
    """Write the tokens of texts as a segment; raises BadInput if a vector exceeds float16."""
    offsets = np.concatenate([[0], np.cumsum([len(text.vectors) for text in texts])])
    vectors = np.concatenate([text.vectors for text in texts])
    if not np.isfinite(vectors).all():
        raise BadInput(f"{model} returns a value that exceeds float16: choose another token_encoder")
    terms, codes = np.unique(np.concatenate([text.terms for text in texts]), return_inverse=True)
    spans, words, counts = (np.concatenate([getattr(t, name) for t in texts]) for name in ("spans", "words", "counts"))
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
    """Ranges of texts that form one segment each."""
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
    """Tokens of requested texts, in their order: the segment of each text and its number in the segment."""

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
        """These texts followed by others."""
        segment_numbers = np.concatenate([self.segment_numbers, other.segment_numbers + len(self.segments)])
        text_numbers = np.concatenate([self.text_numbers, other.text_numbers])
        return CachedTexts([*self.segments, *other.segments], segment_numbers, text_numbers)

    def tokens(self, index: int) -> TextTokens:
        return self.segments[int(self.segment_numbers[index])].tokens(int(self.text_numbers[index]))


class _SegmentIndex:
    """Segment and number of the text of each key."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = list(segments)
        keys = np.concatenate([np.empty(0, KEY_DTYPE), *(segment.keys for segment in segments)])
        lengths = [len(segment.keys) for segment in segments]
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._segment_numbers = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)[order]
        text_numbers = [np.zeros(0, np.int32), *(np.arange(n, dtype=np.int32) for n in lengths)]
        self._text_numbers = np.concatenate(text_numbers)[order]

    def is_missing(self, keys: Keys) -> BoolArray:
        return np.asarray(find_key_positions(self._keys, keys) < 0)

    def texts(self, keys: Keys) -> CachedTexts:
        """Texts of keys that are all in the index."""
        positions = find_key_positions(self._keys, keys)
        return CachedTexts(self.segments, self._segment_numbers[positions], self._text_numbers[positions])


class TokenCache:
    """Cache of the tokens of one encoder in ``folder``; threads and processes can share it.

    ``bounded_folder``, ``max_bytes``: Folder of the caches of all encoders, and its maximum size.
    ``asset_folders``: Folders of segments that belong to an asset; they are never evicted.
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
        """Open new segments and forget deleted ones."""
        paths = [path for folder in (*self._asset_folders, self._folder) for path in sorted(folder.glob("*.arrow"))]
        if paths == [segment.path for segment in self._index.segments]:
            return
        for path in set(paths) - set(self._open):
            self._open_segment(path)
        self._open = {path: self._open[path] for path in paths if path in self._open}
        self._index = _SegmentIndex(list(self._open.values()))

    def get(self, keys: Keys, read_texts: ReadTexts) -> CachedTexts:
        """Tokens of the texts of these keys; encodes and caches missing ones, whose texts ``read_texts`` reads."""
        with self._lock:
            distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
            if self._index.is_missing(distinct).any():
                self._reload()  # another process may have added them
            index, is_missing = self._index, self._index.is_missing(distinct)
            if is_missing.any():  # opened segments stay readable if they are evicted meanwhile
                index = _SegmentIndex(
                    [*index.segments, *self._encode_missing(distinct[is_missing], first[is_missing], read_texts)]
                )
            texts = index.texts(distinct)
            for number in np.unique(texts.segment_numbers).tolist():
                self._touch(index.segments[number].path)
            if is_missing.any():
                self._evict()
                self._reload()
                release_memory()
            positions = inverse.ravel()
            return CachedTexts(texts.segments, texts.segment_numbers[positions], texts.text_numbers[positions])

    def find_cached(self, keys: Keys) -> list[TextTokens | None]:
        """Tokens of cached texts; None for the others."""
        is_missing = self._index.is_missing(keys)
        return [None if absent else self._index.texts(keys[[i]]).tokens(0) for i, absent in enumerate(is_missing)]

    def _encode_missing(self, keys: Keys, positions: IntArray, read_texts: ReadTexts) -> Iterator[Segment]:
        """Encode and cache texts, segment by segment, in the order of their positions."""
        order = np.argsort(positions)
        keys, positions = keys[order], positions[order]
        for start in range(0, len(keys), MAX_SEGMENT_TEXTS):
            texts = read_texts(positions[start : start + MAX_SEGMENT_TEXTS])
            for span in split_segments(texts):
                tokens = [TextTokens.of(t, self._dimensions) for t in self._encoder.encode_tokens(texts[span])]
                segment_keys = keys[start + span.start : start + span.stop]
                path = write_segment(self._folder, segment_keys, tokens, self._model, self._dimensions)
                segment = self._open_segment(path)
                while segment is None:  # another process evicted it already
                    segment = self._open_segment(
                        write_segment(self._folder, segment_keys, tokens, self._model, self._dimensions)
                    )
                yield segment

    def _open_segment(self, path: Path) -> Segment | None:
        """Open a segment; None if another process has evicted it."""
        try:
            self._open[path] = Segment(path, self._model, self._dimensions)
        except StaleInput:
            if path.exists():
                raise
            return None
        return self._open[path]

    def _touch(self, path: Path) -> None:
        """Mark a segment as recently used, for all processes; segments of assets are not evicted."""
        if path.parent == self._folder:
            with contextlib.suppress(FileNotFoundError):
                os.utime(path)

    def _evict(self) -> None:
        """Delete the least recently used segments until the cache is within its maximum size."""
        files = []
        for path in self._bounded_folder.rglob("*.arrow"):
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                files.append((status.st_mtime_ns, path, status.st_size))
        size = sum(size for *_, size in files)
        for _, path, file_size in sorted(files):
            if size <= self._max_bytes:
                break
            path.unlink(missing_ok=True)
            size -= file_size
