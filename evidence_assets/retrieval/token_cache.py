"""Bounded cache of token vectors on disk, by text and encoder, shared by processes.

Segments are added and deleted as whole files. A process can read an opened segment after its file is deleted.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evidence_assets.lake.array_files import open_asset_file, open_batches, release_memory
from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import Encoder, TokenVectors
from evidence_assets.models.vectors import Array
from evidence_assets.retrieval.bm25 import IntArray, hash_terms
from evidence_assets.retrieval.corpus_files import KEY_DTYPE, Keys, to_half_precision

if TYPE_CHECKING:
    import torch

VERSION = "2"
TEXTS_PER_SEGMENT = 128
"""Maximum texts of a segment, which one call of the encoder encodes."""

ReadTexts = Callable[[IntArray], Sequence[str]]
"""Reads the texts at some of the requested positions."""


def token_cache_folder(lake: Lake, corpus: str) -> Path:
    """Folder of the caches of all encoders for one corpus."""
    return lake.cache / "tokens" / corpus


@dataclass(frozen=True, eq=False)
class Segment:
    """The tokens of some texts: an immutable, memory-mapped Arrow file of one row with a list per array.

    A segment holds no :class:`CachedText`, so that the space of a deleted file is free as soon as none is in use.

    ``keys``: Of each text.
    ``offsets``: The tokens of text i are ``offsets[i]:offsets[i + 1]`` of the other arrays.
    ``vectors`` (float16), ``spans`` (characters): Of each token.
    ``terms``, ``codes``: Hashes of surface forms, and the number of each token's form.
    ``counts``: Occurrences of each token's form in its text.
    """

    path: Path
    keys: Sequence[bytes]
    offsets: IntArray
    vectors: Array
    spans: IntArray
    terms: npt.NDArray[np.uint64]
    codes: IntArray
    counts: IntArray


def open_segment(path: Path, dimensions: int) -> Segment:
    """Open a segment's file; raises StaleInput if it is missing or damaged."""
    [row] = open_asset_file(path, open_batches, "delete it, and the cache writes it")
    arrays = {name: row.column(name).values.to_numpy() for name in row.schema.names}
    keys: Keys = arrays["keys"].view(KEY_DTYPE)
    arrays["keys"] = keys.tolist()
    arrays["vectors"] = arrays["vectors"].reshape(-1, dimensions)
    arrays["spans"] = arrays["spans"].reshape(-1, 2)
    return Segment(path, **arrays)


@dataclass(frozen=True, eq=False, slots=True)
class CachedText:
    """The tokens of one text in a segment. A text without tokens has one zero vector.

    ``on_device``: The vectors on the card that has just encoded them, until the caller drops the text.
    """

    segment: Segment
    number: int
    on_device: torch.Tensor | None = None

    def __len__(self) -> int:
        return int(self.rows.stop - self.rows.start)

    @property
    def rows(self) -> slice:
        """The rows of its tokens in the segment's arrays."""
        offsets = self.segment.offsets
        return slice(int(offsets[self.number]), int(offsets[self.number + 1]))

    @property
    def spans(self) -> IntArray:
        """Characters of each token, n × 2."""
        return np.asarray(self.segment.spans[self.rows])

    def copy(self) -> CachedText:
        """The text in memory, which does not keep the space of a deleted file in use."""
        segment = self.segment
        rows = self.rows
        copied = Segment(
            segment.path,
            keys=[segment.keys[self.number]],
            offsets=np.array([0, len(self)]),
            vectors=segment.vectors[rows].copy(),
            spans=segment.spans[rows].copy(),
            terms=segment.terms[segment.codes[rows]],
            codes=np.arange(len(self)),
            counts=segment.counts[rows].copy(),
        )
        return CachedText(copied, 0)


def write_segment(path: Path, keys: Sequence[bytes], texts: Sequence[TokenVectors], model: str) -> None:
    """Write the tokens of texts as a segment; raises BadInput if a vector exceeds float16."""
    all_vectors = np.concatenate([text.vectors for text in texts])
    vectors = to_half_precision(all_vectors, f"{model} returns a value", "choose another token_encoder")
    terms, codes = np.unique(hash_terms([token for text in texts for token in text.tokens]), return_inverse=True)
    counts = [count for text in texts for count in map(Counter(text.tokens).__getitem__, text.tokens)]
    arrays = {
        "keys": np.array(keys, KEY_DTYPE).view(np.uint8),
        "offsets": np.cumsum([0, *(len(text.tokens) for text in texts)]),
        "vectors": vectors.ravel(),
        "spans": np.concatenate([text.offsets for text in texts]).ravel(),
        "terms": terms,
        "codes": codes.astype(np.int32),
        "counts": np.array(counts, np.int32),
    }
    lists = {name: pa.ListArray.from_arrays([0, len(array)], pa.array(array)) for name, array in arrays.items()}
    row = pa.record_batch(lists)
    with replacing_file(path) as temporary, pa.ipc.new_file(str(temporary), row.schema) as file:
        file.write_batch(row)


def _with_token(text: TokenVectors, dimensions: int) -> TokenVectors:
    """The tokens of a text; one token with a zero vector if it has none."""
    if len(text.tokens):
        return text
    return TokenVectors(np.zeros((1, dimensions), np.float32), np.zeros((1, 2), np.int32), ("",))


class TokenCache:
    """Cache of the tokens of one encoder in a folder below ``bounded_folder``; threads and processes can share it.

    ``bounded_folder``, ``max_bytes``: Folder of the caches of all encoders, and its maximum size, which one segment of
    each process may exceed while it is written.
    """

    def __init__(self, bounded_folder: Path, encoder: Encoder, *, max_bytes: int) -> None:
        self._model = f"{encoder.model_id}@{encoder.revision}"
        self._folder = bounded_folder / content_id("tokens", VERSION, self._model)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._encoder = encoder
        self._bounded_folder = bounded_folder
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._segments = dict[Path, Segment]()
        self._texts = dict[bytes, CachedText]()
        self._reload()

    def _reload(self) -> None:
        """Open new segments and forget deleted ones."""
        paths = set(self._folder.glob("*.arrow"))
        for path in self._segments.keys() - paths:
            deleted = self._segments.pop(path)
            for key in deleted.keys:
                if key in self._texts and self._texts[key].segment is deleted:
                    del self._texts[key]
        for path in paths - self._segments.keys():
            self._open(path)

    def _open(self, path: Path) -> dict[bytes, CachedText]:
        """Open a segment and return its texts; none if another process has evicted it."""
        try:
            segment = open_segment(path, self._encoder.dimensions)
        except StaleInput:
            if path.exists():
                raise
            return {}
        self._segments[path] = segment
        texts = {key: CachedText(segment, number) for number, key in enumerate(segment.keys)}
        self._texts |= texts
        return texts

    def get(self, keys: Keys, read_texts: ReadTexts) -> list[CachedText]:
        """Tokens of the texts of these keys; encodes and caches missing ones, whose texts ``read_texts`` reads.

        The texts stay readable, and their space in use, until the caller drops them: those of a pool larger than the
        cache are requested in groups.
        """
        names: list[bytes] = keys.tolist()
        with self._lock:
            if not self._texts.keys() >= set(names):
                self._reload()  # another process may have added them
            missing = {name: position for position, name in enumerate(names) if name not in self._texts}
            texts = {name: self._texts[name] for name in names if name not in missing}
            for path in {text.segment.path for text in texts.values()}:
                with contextlib.suppress(FileNotFoundError):
                    os.utime(path)  # used now, for all processes
            if missing:
                texts |= self._encode(missing, read_texts)
                release_memory()
            return [texts[name] for name in names]

    def _encode(self, missing: dict[bytes, int], read_texts: ReadTexts) -> dict[bytes, CachedText]:
        """Encode and cache the texts at these positions, segment by segment.

        Texts of about as many tokens are in one segment, because the encoder encodes those of equally many at once.
        """
        encoded: dict[bytes, CachedText] = {}
        keys = list(missing)
        texts = read_texts(np.array(list(missing.values()), np.int64))
        by_length = np.argsort(self._encoder.count_tokens(texts), kind="stable")
        for start in range(0, len(keys), TEXTS_PER_SEGMENT):
            segment = by_length[start : start + TEXTS_PER_SEGMENT].tolist()
            vectors = self._encoder.encode_tokens([texts[number] for number in segment])
            encoded |= self._write([keys[number] for number in segment], vectors)
        return encoded

    def add(self, keys: Sequence[bytes], texts: Sequence[TokenVectors]) -> None:
        """Cache the tokens of the texts of these keys, up to ``TEXTS_PER_SEGMENT``."""
        with self._lock:
            self._write(keys, texts)

    def _write(self, keys: Sequence[bytes], texts: Sequence[TokenVectors]) -> dict[bytes, CachedText]:
        """Write a segment and return its texts; evicts others, so that the cache exceeds its size by one at most."""
        tokens = [_with_token(text, self._encoder.dimensions) for text in texts]
        path = self._folder / f"{content_id('segment', [key.hex() for key in keys])}.arrow"
        opened: dict[bytes, CachedText] = {}
        while not opened:  # another process may evict it at once
            write_segment(path, keys, tokens, self._model)
            opened = self._open(path)
        self._evict()
        self._reload()
        return {key: replace(opened[key], on_device=text.on_device) for key, text in zip(keys, tokens, strict=True)}

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
