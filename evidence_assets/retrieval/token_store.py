"""Token store of a corpus: term statistics of the encoder's pieces, and token vectors.

The vectors of all texts are part of the store, or are encoded on demand and cached; both give the same numbers.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, islice, pairwise, tee
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evidence_assets.lake.array_files import open_description, open_json
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, Tokenizer
from evidence_assets.retrieval.bm25 import IntArray, TermIndex, TermIndexWriter, TokenWeighting, term_weight
from evidence_assets.retrieval.corpus_files import hash_texts
from evidence_assets.retrieval.embedding import BlockMap, EncodeBlock
from evidence_assets.retrieval.token_cache import (
    CachedTexts,
    Keys,
    TextTokens,
    TokenCache,
    split_segments,
    write_segment,
)
from evidence_assets.transport import TokenPool
from evidence_assets.transport.pool import TextCollection

VERSION = "3"
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
    vectors: bool = True
    """Whether the store has the vectors of all texts."""


def source_version(chunks_version: str, model: str) -> str:
    """Version of the inputs of a store: chunks and encoder."""
    return content_id("token_store", VERSION, chunks_version, model)


def build_store(
    folder: Path,
    texts: Iterable[Sequence[str]],
    encoder: Encoder,
    model: str,
    chunks_version: str,
    *,
    vectors: bool = True,
    encode: EncodeBlock | None = None,
    map_blocks: BlockMap = map,
) -> tuple[StoreMeta, int]:
    """Write the store of ``texts``; returns its metadata and the number of reused texts.

    ``texts``: Blocks of any size, in the corpus's order.
    ``encode``: Encodes a block, `encode_block` by default; ``map_blocks``: applies it to blocks.
    Raises BadInput if the encoder has no tokenizer, or if a value exceeds float16.
    """
    if not isinstance(encoder, Tokenizer):
        raise BadInput(f"{encoder.model_id} has no tokenizer: choose another token_encoder")
    chunks = reused = 0
    with replacing_folder(folder) as temporary:
        pieces = TermIndexWriter(temporary / "pieces", postings=False)

        def count_terms() -> Iterator[list[str]]:
            nonlocal chunks
            flat = chain.from_iterable(texts)
            while block := list(islice(flat, TEXTS_PER_BLOCK)):
                pieces.add([pieces_of_text or ("",) for pieces_of_text in encoder.split_tokens(block)])
                chunks += len(block)
                yield block

        if vectors:
            encode = encode or partial(encode_block, encoder)
            reused = _write_segments(folder, temporary / "segments", count_terms(), encoder, model, encode, map_blocks)
        else:
            deque(count_terms(), maxlen=0)
        pieces.finish()
        tokens = TermIndex(temporary / "pieces").tokens
        built_from = source_version(chunks_version, model)
        meta = StoreMeta(built_from, model, chunks, tokens, encoder.dimensions, vectors)
        (temporary / "meta.json").write_text(json.dumps({"version": VERSION, **asdict(meta)}, indent=1) + "\n")
    return meta, reused


def encode_block(encoder: Encoder, texts: Sequence[str]) -> list[TextTokens]:
    """Tokens of a block of texts, in the format of the cache."""
    return [TextTokens.of(tokens, encoder.dimensions) for tokens in encoder.encode_tokens(texts)] if texts else []


def _write_segments(
    previous_folder: Path,
    folder: Path,
    blocks: Iterable[list[str]],
    encoder: Encoder,
    model: str,
    encode: EncodeBlock,
    map_blocks: BlockMap,
) -> int:
    """Write the tokens of all texts; returns how many were reused from the previous store."""
    folder.mkdir()
    metadata = open_json(previous_folder / "meta.json") if (previous_folder / "meta.json").exists() else {}
    is_reusable = metadata.get("version") == VERSION and metadata.get("model_id") == model
    previous = None
    if is_reusable:
        segments = previous_folder / "segments"
        previous = TokenCache(segments, encoder, model, bounded_folder=previous_folder, max_bytes=MAX_CACHE_BYTES)
    reused = 0

    def read_segments() -> Iterator[tuple[list[str], Keys, list[TextTokens | None]]]:
        for block in blocks:
            for span in split_segments(block):
                keys = hash_texts(block[span])
                yield block[span], keys, previous.find_cached(keys) if previous else [None] * len(keys)

    segments_to_write, segments_to_encode = tee(read_segments())
    encoded_segments = map_blocks(
        encode,
        (
            [text for text, tokens in zip(texts, cached, strict=True) if tokens is None]
            for texts, _, cached in segments_to_encode
        ),
    )
    for (texts, keys, cached), encoded in zip(segments_to_write, encoded_segments, strict=True):
        reused += len(texts) - len(encoded)
        new_tokens = iter(encoded)
        write_segment(folder, keys, [tokens or next(new_tokens) for tokens in cached], model, encoder.dimensions)
    return reused


class TokenStore:
    """An opened token store.

    ``cache``, ``max_bytes``: Folder of the vectors that are encoded on demand, and its maximum size.
    """

    def __init__(self, folder: Path, *, expected: str, cache: Path, max_bytes: int = MAX_CACHE_BYTES) -> None:
        metadata = open_description(folder / "meta.json", VERSION, expected)
        self.meta = StoreMeta(**metadata)
        self.pieces = TermIndex(folder / "pieces")
        self._folder, self._cache_folder, self._max_bytes = folder, cache, max_bytes
        self._caches: dict[str, TokenCache] = {}

    def __len__(self) -> int:
        return self.meta.chunks

    def tokens(self, encoder: Encoder) -> TokenCache:
        """Token cache of an encoder or of a view of it; contains the store's vectors if they are its own."""
        model = f"{encoder.model_id}@{encoder.revision}"
        if model not in self._caches:
            folder = self._cache_folder / content_id("tokens", model)
            folder.mkdir(parents=True, exist_ok=True)
            has_segments = model == self.meta.model_id and self.meta.vectors
            self._caches[model] = TokenCache(
                folder,
                encoder,
                model,
                bounded_folder=self._cache_folder,
                max_bytes=self._max_bytes,
                asset_folders=[self._folder / "segments"] if has_segments else [],
            )
        return self._caches[model]


CorpusWeights = dict[Path, npt.NDArray[np.float64]]
"""Corpus weight of each term of a segment, by its path."""
TOKENS_PER_TILE = 1 << 16
"""Tokens of a pool in memory at a time."""


class TokenTexts(TextCollection):
    """Texts; the ``i``-th concatenates cached texts ``members[bounds[i] : bounds[i + 1]]``.

    ``terms``, ``weighting``: Term statistics of the corpus, and the weighting of tokens.
    ``corpus_weights``: Corpus weights of the terms of segments, filled on demand; texts of equal statistics share it.
    """

    def __init__(
        self,
        cached: CachedTexts,
        terms: TermIndex,
        weighting: TokenWeighting,
        dimensions: int,
        members: IntArray,
        bounds: IntArray,
        corpus_weights: CorpusWeights | None = None,
    ) -> None:
        self._cached, self._terms, self._weighting, self._dimensions = cached, terms, weighting, dimensions
        self._members, self._bounds = members, bounds
        self._weights_of_segments: CorpusWeights = {} if corpus_weights is None else corpus_weights

    @classmethod
    def from_cached(
        cls,
        cached: CachedTexts,
        terms: TermIndex,
        weighting: TokenWeighting,
        dimensions: int,
        corpus_weights: CorpusWeights | None = None,
    ) -> TokenTexts:
        members, bounds = np.arange(len(cached)), np.arange(len(cached) + 1)
        return cls(cached, terms, weighting, dimensions, members, bounds, corpus_weights)

    def __len__(self) -> int:
        return len(self._bounds) - 1

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def _corpus_weights(self, number: int) -> npt.NDArray[np.float64]:
        """Corpus weight of each surface form of a segment."""
        segment = self._cached.segments[number]
        if segment.path not in self._weights_of_segments:
            self._weights_of_segments[segment.path] = self._terms.corpus_weights(segment.terms, self._weighting)
        return self._weights_of_segments[segment.path]

    def select(self, numbers: Sequence[int] | IntArray) -> TokenPool:
        """The chosen texts, in their order, in memory."""
        cached, ranges, lengths = self._cached, list[tuple[int, slice]](), list[int]()
        for text in numbers:
            members = self._members[self._bounds[text] : self._bounds[text + 1]].tolist()
            numbers_of_text = [(int(cached.segment_numbers[m]), int(cached.text_numbers[m])) for m in members]
            rows_of_text = [(s, cached.segments[s].rows(t)) for s, t in numbers_of_text]
            ranges += rows_of_text
            lengths.append(sum(rows.stop - rows.start for _, rows in rows_of_text))
        if not ranges:
            return TokenPool(np.zeros((0, self._dimensions), np.float16), [0], np.zeros(0))
        segments = cached.segments
        vectors = np.concatenate([segments[s].vectors[rows] for s, rows in ranges])
        weights = np.concatenate([self._corpus_weights(s)[segments[s].codes[rows]] for s, rows in ranges])
        if self._weighting == "text":
            counts = np.concatenate([segments[s].counts[rows] for s, rows in ranges]).astype(np.float64)
            tokens = np.array([rows.stop - rows.start for _, rows in ranges])
            weights = np.asarray(term_weight(weights, counts, np.repeat(tokens, tokens), self._terms.average))
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return TokenPool(vectors, offsets, weights)

    def tiles(self) -> Iterator[tuple[int, TokenPool]]:
        """All texts in order, in tiles, each with the number of its first text."""
        first = 0
        for pool, _ in self.parts(np.arange(len(self))):
            yield first, pool
            first += len(pool)

    def parts(self, texts: npt.NDArray[np.int64]) -> Iterator[tuple[TokenPool, npt.NDArray[np.int64]]]:
        if not len(texts):
            return
        lengths = np.add.reduceat(self._cached.lengths[self._members], self._bounds[:-1])[texts]
        tile_numbers = np.cumsum(lengths) // TOKENS_PER_TILE
        starts = np.flatnonzero(np.concatenate([[True], tile_numbers[1:] != tile_numbers[:-1]]))
        for start, end in pairwise([*starts.tolist(), len(texts)]):
            yield self.select(texts[start:end]), np.arange(end - start)
