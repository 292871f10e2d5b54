"""Token vectors of a corpus on disk: every chunk's contextual tokens, with what BM25 must know of them.

A store is plain ``.npy`` files that open memory-mapped, so that a ranking reads the rows of its pool and no others:

=================== ======== =====================================================================
``vectors.npy``     N × d    float16, tokens of all chunks end to end, chunks in the index's order
``offsets.npy``     n + 1    rows of each chunk
``spans.npy``       N × 2    characters of the chunk's text that the token stands for
``words.npy``       N        word of the chunk that it belongs to, from 0
``pieces.npy``      N        its surface form, a position in ``texts.json``
``weights.npy``     N        BM25 weight within its chunk, idf as printed and clipped at 0
``frequencies.npy`` V        chunks that hold each surface form
=================== ======== =====================================================================

Of a corpus whose vectors would not fit, the store keeps the BM25 statistics alone, and a ranking encodes the chunks of
its pools when it needs them (:meth:`TokenStore.encode`); both ways give the same numbers.

A chunk without any token keeps one of zeros, so that every chunk has a row; it is far from everything. The store knows
what it was built from and is refused when the corpus or the encoder has changed since.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import replacing_folder
from evidence_assets.methods.bm25 import CorpusStatistics
from evidence_assets.methods.transport import TokenPool
from evidence_assets.models.protocols import Encoder, Tokenizer, TokenVectors

VERSION = "1"
TEXTS_AT_ONCE = 512
"""Texts whose vectors are held in memory together while a store is written."""

Ints = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class StoreMeta:
    """What a store is and what it was built from."""

    built_from: str
    model_id: str
    chunks: int
    tokens: int
    dimensions: int
    vectors: bool = True
    """Whether it holds vectors, or BM25 statistics alone."""


def source_version(chunk_ids: Sequence[str], model_id: str) -> str:
    """What a store of these chunks, in this order, by this encoder is built from; chunk ids are content hashes."""
    return content_id("token_store", VERSION, list(chunk_ids), model_id)


@dataclass(frozen=True)
class _Before:
    """The rows of an older store that may be taken over, by the hash of their text."""

    row_of: dict[str, int]
    offsets: Ints
    vectors: npt.NDArray[np.float16]
    spans: npt.NDArray[np.int32]
    words: npt.NDArray[np.int32]
    pieces: list[str]
    piece_ids: Ints

    def tokens(self, text_hash: str) -> TokenVectors | None:
        place = self.row_of.get(text_hash)
        if place is None:
            return None
        rows = slice(int(self.offsets[place]), int(self.offsets[place + 1]))
        names = tuple(self.pieces[i] for i in self.piece_ids[rows].tolist())
        # float16 to float32 and back gives the same float16.
        return TokenVectors(self.vectors[rows].astype(np.float32), self.spans[rows], self.words[rows], names)


def _before(folder: Path, model_id: str) -> _Before | None:
    path = folder / "meta.json"
    if not path.exists():
        return None
    stated = json.loads(path.read_text())
    if stated.get("version") != VERSION or stated["model_id"] != model_id or not stated["vectors"]:
        return None
    texts = json.loads((folder / "texts.json").read_text())
    return _Before(
        {h: i for i, h in enumerate(texts["hashes"])}, _load(folder, "offsets"), _load(folder, "vectors"),
        _load(folder, "spans"), _load(folder, "words"), texts["pieces"], _load(folder, "pieces"),
    )  # fmt: skip


def _load(folder: Path, name: str) -> npt.NDArray[Any]:
    return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r"))


def _at_least_one(tokens: TokenVectors, dimensions: int) -> TokenVectors:
    if len(tokens.tokens):
        return tokens
    one = np.zeros((1, 2), np.int32)
    return TokenVectors(np.zeros((1, dimensions), np.float32), one, np.zeros(1, np.int32), ("",))


def build(
    folder: Path,
    chunk_ids: Sequence[str],
    texts: Sequence[str],
    encoder: Encoder,
    model_id: str,
    statistics: CorpusStatistics | None = None,
) -> tuple[StoreMeta, int]:
    """Write the store of ``texts``, in their order, into ``folder`` in place of what is there.

    Vectors of texts that the store held before are taken over where the encoder is the same; the second number
    returned says how many. ``statistics`` are those that the tokens are weighted by, where the texts are but a part of
    the corpus.

    Raises
    ------
    BadInput
        Where a vector does not fit into float16, or the encoder counts other tokens than it gives.
    """
    hashes = [content_id("tokens", text, model_id) for text in texts]
    before = _before(folder, model_id)
    known = before.row_of if before else {}
    lengths = np.zeros(len(texts), np.int64)
    todo = [i for i, h in enumerate(hashes) if h not in known]
    for i, h in enumerate(hashes):
        if before is not None and h in known:
            lengths[i] = int(before.offsets[known[h] + 1] - before.offsets[known[h]])
    lengths[todo] = np.maximum(1, encoder.count_tokens([texts[i] for i in todo])) if todo else 0
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    total = int(offsets[-1])
    spans, words = np.zeros((total, 2), np.int32), np.zeros(total, np.int32)
    names: list[str] = []
    with replacing_folder(folder) as temporary:
        vectors = np.lib.format.open_memmap(
            temporary / "vectors.npy", mode="w+", dtype=np.float16, shape=(total, encoder.dimensions)
        )
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            block = range(start, min(start + TEXTS_AT_ONCE, len(texts)))
            found = {i: before.tokens(hashes[i]) if before else None for i in block}
            new = [i for i, tokens in found.items() if tokens is None]
            found.update(zip(new, encoder.tokens([texts[i] for i in new]) if new else [], strict=True))
            for i in block:
                tokens = found[i]
                assert tokens is not None
                tokens = _at_least_one(tokens, encoder.dimensions)
                if len(tokens.tokens) != lengths[i]:
                    raise BadInput(
                        f"{model_id} counts {lengths[i]} tokens in chunk {chunk_ids[i]} but gives {len(tokens.tokens)}"
                    )
                rows = slice(int(offsets[i]), int(offsets[i + 1]))
                with np.errstate(over="ignore"):
                    vectors[rows] = tokens.vectors
                if not np.isfinite(vectors[rows]).all():
                    raise BadInput(
                        f"{model_id} gives a number beyond 65,504 in chunk {chunk_ids[i]}, which float16 cannot hold: "
                        "choose another token_encoder"
                    )
                spans[rows], words[rows] = tokens.offsets, tokens.words
                names += tokens.tokens
        vectors.flush()
        del vectors
        pieces, piece_ids = _numbered(names)
        frequencies, weights = _bm25(pieces, piece_ids, offsets, statistics)
        arrays: dict[str, npt.NDArray[Any]] = {
            "offsets": offsets, "spans": spans, "words": words, "pieces": piece_ids, "weights": weights,
            "frequencies": frequencies,
        }  # fmt: skip
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", array)
        (temporary / "texts.json").write_text(json.dumps({"pieces": pieces, "hashes": hashes}, ensure_ascii=False))
        meta = StoreMeta(source_version(chunk_ids, model_id), model_id, len(texts), total, encoder.dimensions)
        (temporary / "meta.json").write_text(json.dumps({"version": VERSION, **asdict(meta)}, indent=1) + "\n")
    return meta, len(texts) - len(todo)


def _numbered(names: Sequence[str]) -> tuple[list[str], npt.NDArray[np.int32]]:
    """Distinct names in order, and the place of each name among them."""
    pieces = sorted(set(names))
    place = {name: i for i, name in enumerate(pieces)}
    return pieces, np.fromiter((place[name] for name in names), np.int32, len(names))


def _bm25(
    pieces: list[str], piece_ids: Ints, offsets: Ints, statistics: CorpusStatistics | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Chunks that hold each piece, and the weight of each token within its own chunk."""
    texts = [[pieces[p] for p in piece_ids[a:b].tolist()] for a, b in pairwise(offsets.tolist())]
    known = CorpusStatistics.from_texts(texts) if statistics is None else statistics
    frequencies = np.array([known.document_frequencies.get(p, 0) for p in pieces], dtype=np.int64)
    weights = [known.token_weights(text) for text in texts]
    return frequencies, np.concatenate(weights) if weights else np.zeros(0)


def build_statistics(
    folder: Path, chunk_ids: Sequence[str], texts: Sequence[str], tokenizer: Tokenizer, model_id: str, dimensions: int
) -> StoreMeta:
    """Write a store of statistics alone, which costs no run of the network and little memory."""
    counts: Counter[str] = Counter()
    total = 0
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        for pieces in tokenizer.pieces(texts[start : start + TEXTS_AT_ONCE]):
            own = pieces or ("",)
            counts.update(set(own))
            total += len(own)
    names = sorted(counts)
    meta = StoreMeta(source_version(chunk_ids, model_id), model_id, len(texts), total, dimensions, vectors=False)
    with replacing_folder(folder) as temporary:
        np.save(temporary / "frequencies.npy", np.array([counts[name] for name in names], dtype=np.int64))
        (temporary / "texts.json").write_text(json.dumps({"pieces": names, "hashes": []}, ensure_ascii=False))
        (temporary / "meta.json").write_text(json.dumps({"version": VERSION, **asdict(meta)}, indent=1) + "\n")
    return meta


class TokenStore:
    """A store opened for reading; vectors stay on disk until they are asked for."""

    def __init__(self, folder: Path, *, expected: str) -> None:
        path = folder / "meta.json"
        if not path.exists():
            raise StaleInput(f"there is no token store at {folder}: materialize the asset that builds it")
        stated = json.loads(path.read_text())
        if stated.pop("version") != VERSION or stated["built_from"] != expected:
            raise StaleInput(
                f"the token store at {folder} was built from other chunks or by another encoder than are in use now: "
                "materialize it again"
            )
        self.meta = StoreMeta(**stated)
        self._frequencies: npt.NDArray[np.int64] = np.load(folder / "frequencies.npy")
        self.vocabulary: list[str] = json.loads((folder / "texts.json").read_text())["pieces"]
        if self.meta.vectors:
            self.vectors: npt.NDArray[np.float16] = np.load(folder / "vectors.npy", mmap_mode="r")
            self.offsets: npt.NDArray[np.int64] = np.load(folder / "offsets.npy")
            self.spans: Ints = np.load(folder / "spans.npy", mmap_mode="r")
            self.words: Ints = np.load(folder / "words.npy", mmap_mode="r")
            self.pieces: Ints = np.load(folder / "pieces.npy", mmap_mode="r")
            self.weights: npt.NDArray[np.float64] = np.load(folder / "weights.npy", mmap_mode="r")

    def __len__(self) -> int:
        return self.meta.chunks

    @cached_property
    def statistics(self) -> CorpusStatistics:
        """BM25 statistics of the corpus, over the tokens' surface forms."""
        average = self.meta.tokens / self.meta.chunks if self.meta.chunks else 0.0
        counts = dict(zip(self.vocabulary, self._frequencies.tolist(), strict=True))
        return CorpusStatistics(self.meta.chunks, average, counts)

    @cached_property
    def piece_number(self) -> dict[str, int]:
        """Position of each surface form in the vocabulary."""
        return {piece: i for i, piece in enumerate(self.vocabulary)}

    def encode(self, folder: Path, chunk_ids: Sequence[str], texts: Sequence[str], encoder: Encoder) -> TokenStore:
        """A store in ``folder`` of some chunks alone, weighted by the statistics of the whole corpus."""
        build(folder, chunk_ids, texts, encoder, self.meta.model_id, self.statistics)
        made = TokenStore(folder, expected=source_version(chunk_ids, self.meta.model_id))
        made.statistics = self.statistics
        return made

    def rows_of(self, chunk: int) -> slice:
        """The token rows of one chunk."""
        return slice(int(self.offsets[chunk]), int(self.offsets[chunk + 1]))

    def pieces_of(self, chunk: int) -> list[str]:
        """Surface forms of one chunk's tokens."""
        return [self.vocabulary[i] for i in self.pieces[self.rows_of(chunk)].tolist()]

    def gather(self, chunks: Sequence[int] | Ints) -> tuple[TokenPool, Ints]:
        """The tokens of some chunks as a pool in memory, in the order asked, and their rows in the store."""
        parts = [np.arange(self.offsets[c], self.offsets[c + 1]) for c in chunks]
        rows: Ints = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        vectors = (
            np.concatenate([self.vectors[self.rows_of(int(c))] for c in chunks])
            if parts
            else np.zeros((0, self.meta.dimensions), np.float16)
        )
        return TokenPool(vectors, offsets, np.asarray(self.weights[rows]), check=False), rows
