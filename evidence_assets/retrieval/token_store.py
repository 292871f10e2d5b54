"""What a corpus says of its tokens (BM25 over the encoder's pieces and over whole words), and their vectors.

The vectors of all texts are part of a store, or encoded on demand and kept in a cache; both give the same numbers.
"""

from __future__ import annotations

import json
import re
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
from evidence_assets.retrieval.bm25 import Ints, Reading, TermIndex, TermIndexWriter, term_weight
from evidence_assets.retrieval.corpus_files import keys_of
from evidence_assets.retrieval.embedding import EncodeBlock, OverBlocks
from evidence_assets.retrieval.token_cache import KeptTexts, Keys, TextTokens, TokenCache, in_segments, write_segment
from evidence_assets.transport import TokenPool
from evidence_assets.transport.pool import TextCollection

VERSION = "3"
TEXTS_AT_ONCE = 2048
"""Texts whose forms are held in memory together while a store is written."""
LIMIT = 20 << 30
"""Bytes of a cache, where nobody says how many."""

_FORM = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class StoreMeta:
    """What a store is and what it was built from."""

    built_from: str
    model_id: str
    chunks: int
    tokens: int
    dimensions: int
    vectors: bool = True
    """Whether it holds the vectors of all texts."""


def word_forms(text: str) -> list[str]:
    """The words and marks of a text, case folded: what document frequencies of words are counted over."""
    return _FORM.findall(text.casefold())


def source_version(chunks_version: str, model: str) -> str:
    """What a store of these chunks by this encoder is built from."""
    return content_id("token_store", VERSION, chunks_version, model)


def build(
    folder: Path,
    texts: Iterable[Sequence[str]],
    encoder: Encoder,
    model: str,
    chunks_version: str,
    *,
    vectors: bool = True,
    encode: EncodeBlock | None = None,
    over: OverBlocks = map,
) -> tuple[StoreMeta, int]:
    """Write the store of ``texts``, given in the corpus's order in blocks of any size; and how many were reused.

    ``encode`` gives the tokens of a block (`encoded`), ``over`` is how blocks are encoded, as ``map`` does it.
    Raises BadInput where the encoder cannot say what its tokens are, or gives a number that float16 cannot hold.
    """
    if not isinstance(encoder, Tokenizer):
        raise BadInput(f"{encoder.model_id} does not say what the tokens of a text are: choose another token_encoder")
    chunks = reused = 0
    with replacing_folder(folder) as temporary:
        pieces = TermIndexWriter(temporary / "pieces")
        forms = TermIndexWriter(temporary / "forms", postings=False)

        def counted() -> Iterator[list[str]]:
            nonlocal chunks
            flat = chain.from_iterable(texts)
            while block := list(islice(flat, TEXTS_AT_ONCE)):
                pieces.add([own or ("",) for own in encoder.split_tokens(block)])
                forms.add([word_forms(text) for text in block])
                chunks += len(block)
                yield block

        if vectors:
            encode = encode or partial(encoded, encoder)
            reused = _write_segments(folder, temporary / "segments", counted(), encoder, model, encode, over)
        else:
            deque(counted(), maxlen=0)
        pieces.finish()
        forms.finish()
        tokens = TermIndex(temporary / "pieces").tokens
        built_from = source_version(chunks_version, model)
        meta = StoreMeta(built_from, model, chunks, tokens, encoder.dimensions, vectors)
        (temporary / "meta.json").write_text(json.dumps({"version": VERSION, **asdict(meta)}, indent=1) + "\n")
    return meta, reused


def encoded(encoder: Encoder, texts: Sequence[str]) -> list[TextTokens]:
    """The tokens of a block of texts, as they are kept."""
    return [TextTokens.of(tokens, encoder.dimensions) for tokens in encoder.encode_tokens(texts)] if texts else []


def _write_segments(
    before: Path,
    folder: Path,
    blocks: Iterable[list[str]],
    encoder: Encoder,
    model: str,
    encode: EncodeBlock,
    over: OverBlocks,
) -> int:
    """Write the tokens of all texts, those of the store before taken over; returns how many these are."""
    folder.mkdir()
    stated = open_json(before / "meta.json") if (before / "meta.json").exists() else {}
    same = stated.get("version") == VERSION and stated.get("model_id") == model
    held = TokenCache(before / "segments", encoder, model, within=before, limit=LIMIT) if same else None
    reused = 0

    def parts() -> Iterator[tuple[list[str], Keys, list[TextTokens | None]]]:
        for block in blocks:
            for part in in_segments(block):
                keys = keys_of(block[part])
                yield block[part], keys, held.held(keys) if held else [None] * len(keys)

    said, asked = tee(parts())
    new = over(
        encode, ([text for text, own in zip(texts, known, strict=True) if own is None] for texts, _, known in asked)
    )
    for (texts, keys, known), made in zip(said, new, strict=True):
        reused += len(texts) - len(made)
        fresh = iter(made)
        write_segment(folder, keys, [own or next(fresh) for own in known], model, encoder.dimensions)
    return reused


class TokenStore:
    """A store opened for reading.

    ``cache``, ``limit``: Where what is encoded on demand is kept, and how many bytes of it.
    """

    def __init__(self, folder: Path, *, expected: str, cache: Path, limit: int = LIMIT) -> None:
        stated = open_description(folder / "meta.json", VERSION, expected)
        self.meta = StoreMeta(**stated)
        self.pieces, self.forms = TermIndex(folder / "pieces"), TermIndex(folder / "forms")
        self._folder, self._within, self._limit = folder, cache, limit
        self._caches: dict[str, TokenCache] = {}

    def __len__(self) -> int:
        return self.meta.chunks

    def tokens(self, encoder: Encoder) -> TokenCache:
        """The tokens that an encoder, or another view of it, gives; all there are and those that will be asked for."""
        model = f"{encoder.model_id}@{encoder.revision}"
        if model not in self._caches:
            own = self._within / content_id("tokens", model)
            own.mkdir(parents=True, exist_ok=True)
            whole = [self._folder / "segments"] if model == self.meta.model_id and self.meta.vectors else []
            made = TokenCache(own, encoder, model, within=self._within, limit=self._limit, whole=whole)
            self._caches[model] = made
        return self._caches[model]


TILE = 1 << 16
"""Tokens of a tile: what is in memory of a pool at a time."""


class TokenTexts(TextCollection):
    """Texts; the ``i``-th is made of the kept texts ``members[bounds[i] : bounds[i + 1]]``, at least one, end to end.

    ``terms``, ``reading``: What the corpus says of the tokens' forms, and how they are weighed by it.
    """

    def __init__(
        self, kept: KeptTexts, terms: TermIndex, reading: Reading, dimensions: int, members: Ints, bounds: Ints
    ) -> None:
        self._kept, self._terms, self._reading, self._dimensions = kept, terms, reading, dimensions
        self._members, self._bounds = members, bounds
        self._values: dict[int, npt.NDArray[np.float64]] = {}

    @classmethod
    def each(cls, kept: KeptTexts, terms: TermIndex, reading: Reading, dimensions: int) -> TokenTexts:
        return cls(kept, terms, reading, dimensions, np.arange(len(kept)), np.arange(len(kept) + 1))

    def __len__(self) -> int:
        return len(self._bounds) - 1

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def _value(self, segment: int) -> npt.NDArray[np.float64]:
        """What the corpus says of each form of a segment."""
        if segment not in self._values:
            self._values[segment] = self._terms.values(self._kept.segments[segment].terms, self._reading)
        return self._values[segment]

    def select(self, chosen: Sequence[int] | Ints) -> TokenPool:
        """Some of the texts, in the order asked, in memory."""
        kept, places, lengths = self._kept, list[tuple[int, slice]](), list[int]()
        for text in chosen:
            members = self._members[self._bounds[text] : self._bounds[text + 1]].tolist()
            own = [(int(kept.of[m]), kept.segments[kept.of[m]].rows(int(kept.text[m]))) for m in members]
            places += own
            lengths.append(sum(rows.stop - rows.start for _, rows in own))
        if not places:
            return TokenPool(np.zeros((0, self._dimensions), np.float16), [0], np.zeros(0))
        segments = kept.segments
        vectors = np.concatenate([segments[s].vectors[rows] for s, rows in places])
        weights = np.concatenate([self._value(s)[segments[s].codes[rows]] for s, rows in places])
        if self._reading == "text":
            counts = np.concatenate([segments[s].counts[rows] for s, rows in places]).astype(np.float64)
            tokens = np.array([rows.stop - rows.start for _, rows in places])
            weights = np.asarray(term_weight(weights, counts, np.repeat(tokens, tokens), self._terms.average))
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return TokenPool(vectors, offsets, weights)

    def tiles(self) -> Iterator[tuple[int, TokenPool]]:
        """All texts in order, some at a time, each part with the number of its first."""
        if not len(self):
            return
        lengths = self._kept.lengths[self._members]
        of_tile = np.cumsum(np.add.reduceat(lengths, self._bounds[:-1])) // TILE
        starts = np.flatnonzero(np.concatenate([[True], of_tile[1:] != of_tile[:-1]]))
        for start, end in pairwise([*starts.tolist(), len(self)]):
            yield start, self.select(range(start, end))
