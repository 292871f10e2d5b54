"""Token store of a corpus: term statistics of the encoder's pieces, and texts as weighted tokens.

Token vectors are encoded on demand and cached (:mod:`.token_cache`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import cast
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch

from evidence_assets.lake.array_files import open_description
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, LocalEncoder
from evidence_assets.models.vectors import Array
from evidence_assets.retrieval.bm25 import IntArray, TermIndex, TermIndexWriter, TokenWeighting, term_weight
from evidence_assets.retrieval.token_cache import CachedText, Segment, TokenCache
from evidence_assets.transport import DevicePool, TokenPool
from evidence_assets.transport.pool import TextCollection, group_equal

VERSION = "4"
TEXTS_PER_BLOCK = 2048
"""Texts per block while a store is written."""
MAX_CACHE_BYTES = 20 << 30
"""Default maximum size of a cache."""


@dataclass(frozen=True)
class StoreMeta:
    """Metadata of a store and of its inputs."""

    built_from: str
    model_id: str
    chunks: int
    tokens: int
    dimensions: int


def source_version(chunks_version: str, model: str) -> str:
    """Version of the inputs of a store: chunks and encoder."""
    return content_id("token_store", VERSION, chunks_version, model)


def build_store(
    folder: Path, texts: Iterable[Sequence[str]], encoder: Encoder, model: str, chunks_version: str
) -> StoreMeta:
    """Write the store of ``texts``, which are blocks of any size in the corpus's order."""
    split_tokens = cast(LocalEncoder, encoder).split_tokens
    with replacing_folder(folder) as temporary:
        pieces = TermIndexWriter(temporary / "pieces", postings=False)
        flat = chain.from_iterable(texts)
        while block := list(islice(flat, TEXTS_PER_BLOCK)):
            pieces.add([pieces_of_text or ("",) for pieces_of_text in split_tokens(block)])
        pieces.finish()
        index = TermIndex(temporary / "pieces")
        meta = StoreMeta(source_version(chunks_version, model), model, index.texts, index.tokens, encoder.dimensions)
        (temporary / "meta.json").write_text(json.dumps({"version": VERSION, **asdict(meta)}, indent=1) + "\n")
    return meta


class TokenStore:
    """An opened token store.

    ``cache``, ``max_bytes``: Folder of the token vectors, and its maximum size.
    """

    def __init__(self, folder: Path, *, expected: str, cache: Path, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self.meta = StoreMeta(**open_description(folder / "meta.json", VERSION, expected))
        self.pieces = TermIndex(folder / "pieces")
        self.cache_folder = cache
        self._max_bytes = max_bytes
        self._caches: dict[tuple[str, str], TokenCache] = {}

    def tokens(self, encoder: Encoder) -> TokenCache:
        """Token cache of an encoder or of a view of it."""
        model = encoder.model_id, encoder.revision
        if model not in self._caches:
            self._caches[model] = TokenCache(self.cache_folder, encoder, max_bytes=self._max_bytes)
        return self._caches[model]


CorpusWeights = WeakKeyDictionary[Segment, Array]
"""Corpus weight of each term of a segment, as long as the segment is in use."""
TOKENS_PER_TILE = 1 << 16
"""Tokens of a pool in memory at a time."""


@dataclass(frozen=True, eq=False)
class TokenTexts(TextCollection):
    """Texts, each of which concatenates cached texts.

    ``terms``, ``weighting``: Term statistics of the corpus, and the weighting of tokens.
    ``corpus_weights``: Corpus weights of the terms of segments, filled on demand; texts of equal statistics share it.
    """

    members: Sequence[Sequence[CachedText]]
    terms: TermIndex
    weighting: TokenWeighting
    dimensions: int
    corpus_weights: CorpusWeights

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def _lengths(self) -> npt.NDArray[np.int64]:
        """Number of tokens of each text."""
        return np.array([sum(map(len, cached)) for cached in self.members], np.int64)

    def _weights_of(self, segment: Segment) -> Array:
        """Corpus weight of each surface form of a segment."""
        if segment not in self.corpus_weights:
            self.corpus_weights[segment] = self.terms.corpus_weights(segment.terms, self.weighting)
        return self.corpus_weights[segment]

    def select(self, numbers: Sequence[int] | IntArray) -> TokenPool:
        """The chosen texts, in their order, in memory."""
        parts = [(cached.segment, cached.rows) for number in numbers for cached in self.members[number]]
        if not parts:
            return TokenPool(np.zeros((0, self.dimensions), np.float16), [0], np.zeros(0))
        vectors = np.concatenate([segment.vectors[rows] for segment, rows in parts])
        return TokenPool(vectors, np.concatenate([[0], np.cumsum(self._lengths[numbers])]), self._weigh(parts))

    def _weigh(self, parts: Sequence[tuple[Segment, slice]]) -> Array:
        """Weights of the tokens in these rows of segments."""
        weights = np.concatenate([self._weights_of(segment)[segment.codes[rows]] for segment, rows in parts])
        if self.weighting == "text":
            counts = np.concatenate([segment.counts[rows] for segment, rows in parts]).astype(np.float64)
            tokens = np.array([rows.stop - rows.start for _, rows in parts])
            weights = np.asarray(term_weight(weights, counts, np.repeat(tokens, tokens), self.terms.average))
        return weights

    @cached_property
    def on_device(self) -> DevicePool | None:
        """The texts on the card that has just encoded some of them, to which the others are copied, if there is one."""
        all_cached = list(chain.from_iterable(self.members))
        device = next((cached.on_device.device for cached in all_cached if cached.on_device is not None), None)
        if device is None:
            return None
        vectors = [[_vectors_on(device, cached) for cached in texts] for texts in self.members]
        return DevicePool(vectors, self._weigh([(cached.segment, cached.rows) for cached in all_cached]))

    def parts(self, texts: npt.NDArray[np.int64]) -> Iterator[tuple[TokenPool, npt.NDArray[np.int64]]]:
        if len(texts):
            for tile in group_equal(np.cumsum(self._lengths[texts]) // TOKENS_PER_TILE):
                yield self.select(texts[tile]), np.arange(len(tile))


def _vectors_on(device: torch.device, cached: CachedText) -> torch.Tensor:
    if cached.on_device is not None:
        return cached.on_device
    return torch.tensor(cached.segment.vectors[cached.rows], device=device)
