"""Token vectors of a corpus on disk: every chunk's contextual tokens, with what BM25 must know of them.

A store is plain ``.npy`` files that open memory-mapped, so that a ranking reads the rows of its pool and no others:

=================== ======== =====================================================================
``vectors.npy``     N × d    float16, tokens of all chunks end to end, chunks in the index's order
``offsets.npy``     n + 1    rows of each chunk
``spans.npy``       N × 2    characters of the chunk's text that the token stands for
``words.npy``       N        word of the chunk that it belongs to, from 0
``pieces.npy``      N        its surface form, a position in ``texts.json``
``weights.npy``     N        BM25 weight within its chunk, idf as printed and clipped at 0
``counts.npy``      V × 2    chunks that hold each surface form, its saturated frequency summed over all
``word_counts.npy`` W × 2    the same of whole words, into whatever pieces they are cut
=================== ======== =====================================================================

Of a corpus whose vectors would not fit, the store keeps the BM25 statistics alone, and a ranking encodes the chunks of
its pools when it needs them (:meth:`TokenStore.encode`); both ways give the same numbers.

A chunk without any token keeps one of zeros, so that every chunk has a row; it is far from everything. The store knows
what it was built from and is refused when the corpus or the encoder has changed since.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, Tokenizer, TokenVectors
from evidence_assets.retrieval.bm25 import CorpusStatistics, term_weight
from evidence_assets.transport import TokenPool

VERSION = "2"
TEXTS_AT_ONCE = 512
"""Texts whose vectors are held in memory together while a store is written."""

_FORM = re.compile(r"\w+|[^\w\s]")
Ints = npt.NDArray[np.integer[Any]]
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Counts:
    """What a corpus says of its tokens: BM25 statistics, and the frequencies that equation 7.9 as printed sums."""

    statistics: CorpusStatistics
    totals: dict[str, float]
    """Σ over texts of f (k1 + 1) / (f + k1 (1 − b + b |S| / avgdl)) for each token."""

    @classmethod
    def of(cls, texts: Callable[[], Iterable[Sequence[str]]]) -> Counts:
        """Count over token lists, which are gone through twice."""
        statistics = CorpusStatistics.from_texts(texts())
        totals: dict[str, float] = {}
        for text in texts():
            for token, f in Counter(text).items():
                totals[token] = totals.get(token, 0.0) + term_weight(1.0, f, len(text), statistics.average_length)
        return cls(statistics, totals)

    def table(self) -> tuple[list[str], Array]:
        """Names in order, and for each the texts that hold it and its total."""
        names = sorted(self.totals)
        found = self.statistics.document_frequencies
        return names, np.array([[found[n], self.totals[n]] for n in names], dtype=np.float64).reshape(-1, 2)

    @classmethod
    def from_table(cls, names: Sequence[str], table: Array, texts: int, tokens: int) -> Counts:
        """The inverse of :meth:`table`."""
        frequencies = dict(zip(names, table[:, 0].astype(np.int64).tolist(), strict=True))
        average = tokens / texts if texts else 0.0
        return cls(CorpusStatistics(texts, average, frequencies), dict(zip(names, table[:, 1].tolist(), strict=True)))

    def value(self, name: str, reading: Literal["corpus", "idf"]) -> float:
        """Weight of a token that does not depend on its own text: summed over the corpus, or its rarity alone."""
        if reading == "idf":
            return self.statistics.idf(name, "plus_one")
        return self.statistics.idf(name, "printed") * self.totals.get(name, 0.0)


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
    words: int = 0
    """Whole words and marks of all chunks."""


def word_forms(text: str) -> list[str]:
    """The words and marks of a text, case folded: what document frequencies of words are counted over.

    Examples
    --------
    >>> word_forms("It's sweet.")
    ['it', "'", 's', 'sweet', '.']
    """
    return _FORM.findall(text.casefold())


def source_version(chunk_ids: Sequence[str], model_id: str) -> str:
    """What a store of these chunks, in this order, by this encoder is built from; chunk ids are content hashes."""
    return content_id("token_store", VERSION, list(chunk_ids), model_id)


def _before(folder: Path, model_id: str) -> tuple[TokenStore | None, dict[str, int]]:
    """An older store whose vectors may be taken over, and its chunks by the hash of their text."""
    path = folder / "meta.json"
    if not path.exists():
        return None, {}
    stated = json.loads(path.read_text())
    if stated["version"] != VERSION or stated["model_id"] != model_id or not stated["vectors"]:
        return None, {}
    store = TokenStore(folder, expected=stated["built_from"])
    return store, {h: i for i, h in enumerate(json.loads((folder / "texts.json").read_text())["hashes"])}


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
    counts: Counts | None = None,
) -> tuple[StoreMeta, int]:
    """Write the store of ``texts``, in their order, into ``folder`` in place of what is there.

    Vectors of texts that the store held before are taken over where the encoder is the same; the second number
    returned says how many. ``counts`` are those that the tokens are weighted by, where the texts are but a part of
    the corpus.

    Raises
    ------
    BadInput
        Where a vector does not fit into float16, or the encoder counts other tokens than it gives.
    """
    hashes = [content_id("tokens", text, model_id) for text in texts]
    before, place = _before(folder, model_id)
    kept = {i: place[h] for i, h in enumerate(hashes) if h in place}
    todo = [i for i in range(len(texts)) if i not in kept]
    lengths = np.zeros(len(texts), np.int64)
    if before is not None and kept:
        lengths[list(kept)] = np.diff(before.offsets)[list(kept.values())]
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
            new = [i for i in block if i not in kept]
            encoded = dict(zip(new, encoder.tokens([texts[i] for i in new]) if new else [], strict=True))
            for i in block:
                known = before.tokens_of(kept[i]) if before is not None and i in kept else encoded[i]
                tokens = _at_least_one(known, encoder.dimensions)
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
        cut = [[pieces[p] for p in piece_ids[a:b].tolist()] for a, b in pairwise(offsets.tolist())]
        known_counts = counts or Counts.of(lambda: cut)
        weights = [known_counts.statistics.token_weights(text) for text in cut]
        arrays: dict[str, npt.NDArray[Any]] = {
            "offsets": offsets, "spans": spans, "words": words, "pieces": piece_ids,
            "weights": np.concatenate(weights) if weights else np.zeros(0),
        }  # fmt: skip
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", array)
        meta = StoreMeta(source_version(chunk_ids, model_id), model_id, len(texts), total, encoder.dimensions)
        if counts is None:
            meta = _write_counts(temporary, meta, known_counts, texts, hashes)
        else:
            (temporary / "texts.json").write_text(json.dumps({"pieces": pieces, "hashes": hashes}, ensure_ascii=False))
        (temporary / "meta.json").write_text(json.dumps({"version": VERSION, **asdict(meta)}, indent=1) + "\n")
    return meta, len(texts) - len(todo)


def _numbered(names: Sequence[str]) -> tuple[list[str], npt.NDArray[np.int32]]:
    """Distinct names in order, and the place of each name among them."""
    pieces = sorted(set(names))
    place = {name: i for i, name in enumerate(pieces)}
    return pieces, np.fromiter((place[name] for name in names), np.int32, len(names))


def _write_counts(
    folder: Path, meta: StoreMeta, pieces: Counts, texts: Sequence[str], hashes: Sequence[str]
) -> StoreMeta:
    """Write what the corpus says of its pieces and of its words; the meta with the number of words."""
    words = Counts.of(lambda: (word_forms(text) for text in texts))
    names, table = pieces.table()
    word_names, word_table = words.table()
    np.save(folder / "counts.npy", table)
    np.save(folder / "word_counts.npy", word_table)
    stated = {"pieces": names, "words": word_names, "hashes": list(hashes)}
    (folder / "texts.json").write_text(json.dumps(stated, ensure_ascii=False))
    return replace(meta, words=round(words.statistics.average_length * len(texts)))


def build_statistics(
    folder: Path, chunk_ids: Sequence[str], texts: Sequence[str], tokenizer: Tokenizer, model_id: str, dimensions: int
) -> StoreMeta:
    """Write a store of statistics alone, which costs no run of the network and little memory."""
    tokens = 0

    def cut() -> Iterable[Sequence[str]]:
        nonlocal tokens
        tokens = 0
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            for pieces in tokenizer.pieces(texts[start : start + TEXTS_AT_ONCE]):
                own = pieces or ("",)
                tokens += len(own)
                yield own

    counts = Counts.of(cut)
    meta = StoreMeta(source_version(chunk_ids, model_id), model_id, len(texts), tokens, dimensions, vectors=False)
    with replacing_folder(folder) as temporary:
        meta = _write_counts(temporary, meta, counts, texts, [])
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
        self._folder = folder
        self._value: Callable[[str], float] | None = None
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
    def counts(self) -> Counts:
        """What the corpus says of the store's tokens."""
        return Counts.from_table(
            self.vocabulary, np.load(self._folder / "counts.npy"), self.meta.chunks, self.meta.tokens
        )

    @cached_property
    def word_counts(self) -> Counts:
        """What the corpus says of whole words."""
        names = json.loads((self._folder / "texts.json").read_text())["words"]
        return Counts.from_table(names, np.load(self._folder / "word_counts.npy"), self.meta.chunks, self.meta.words)

    @property
    def statistics(self) -> CorpusStatistics:
        """BM25 statistics of the corpus, over the tokens' surface forms."""
        return self.counts.statistics

    def token_weights(self, tokens: Sequence[str]) -> Array:
        """Weights of the tokens of a text that is compared with the store's: as those are weighted."""
        if self._value is None:
            return self.statistics.token_weights(tokens, "printed")
        return np.array([self._value(token) for token in tokens], dtype=np.float64)

    def weighted(self, reading: Literal["corpus", "idf"]) -> TokenStore:
        """The same tokens with weights that depend on the surface form alone; see :meth:`Counts.value`."""
        made = copy(self)
        counts = made.counts
        made._value = lambda name: counts.value(name, reading)
        values = np.array([counts.value(name, reading) for name in self.vocabulary], dtype=np.float64)
        made.weights = values[self.pieces] if len(values) else np.zeros(0)
        return made

    @cached_property
    def piece_number(self) -> dict[str, int]:
        """Position of each surface form in the vocabulary."""
        return {piece: i for i, piece in enumerate(self.vocabulary)}

    def encode(
        self, folder: Path, chunk_ids: Sequence[str], texts: Sequence[str], encoder: Encoder, words: bool = False
    ) -> TokenStore:
        """A store in ``folder`` of some chunks alone, weighted by what the whole corpus says of pieces or of words."""
        counts = self.word_counts if words else self.counts
        build(folder, chunk_ids, texts, encoder, self.meta.model_id, counts)
        made = TokenStore(folder, expected=source_version(chunk_ids, self.meta.model_id))
        made.counts = counts
        return made

    def rows_of(self, chunk: int) -> slice:
        """The token rows of one chunk."""
        return slice(int(self.offsets[chunk]), int(self.offsets[chunk + 1]))

    def tokens_of(self, chunk: int) -> TokenVectors:
        """The tokens of one chunk, as an encoder gives them but for the rounding to float16."""
        rows = self.rows_of(chunk)
        names = tuple(self.pieces_of(chunk))
        return TokenVectors(
            self.vectors[rows].astype(np.float32), np.asarray(self.spans[rows]), np.asarray(self.words[rows]), names
        )

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
