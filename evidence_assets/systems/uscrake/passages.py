"""The chunks that USCRaKE ranks, with their tokens and those of their titles.

Belongs here: which tokens stand for a chunk, and where they are read or encoded. How they are ranked is ``chunk_ranking``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evidence_assets.models.protocols import Encoder
from evidence_assets.retrieval.bm25 import BM25Index
from evidence_assets.retrieval.token_store import TokenStore
from evidence_assets.retrieval.vector_index import VectorIndex
from evidence_assets.transport import TokenPool

Ints = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Passages:
    """The chunks of a corpus in the index's order, with their tokens; with those of titles where they are ranked, too."""

    version: str
    ids: Sequence[str]
    texts: Sequence[str]
    titles: Sequence[str]
    sentences: Sequence[Sequence[tuple[int, int]]]
    index: VectorIndex
    store: TokenStore
    title_store: TokenStore | None = None
    title_number: Mapping[str, int] = field(default_factory=dict)
    """Place of each title in its store."""

    @contextmanager
    def at(self, positions: Ints, encoder: Encoder, words: bool = False) -> Iterator[Passages]:
        """Some of the chunks, in their order, with tokens encoded now; ``words`` where those are whole words."""
        chosen = positions.tolist()
        ids, texts = [self.ids[i] for i in chosen], [self.texts[i] for i in chosen]
        titles, sentences = [self.titles[i] for i in chosen], [self.sentences[i] for i in chosen]
        with TemporaryDirectory() as folder:
            store = self.store.encode(Path(folder) / "tokens", ids, texts, encoder, words)
            yield Passages(self.version, ids, texts, titles, sentences, self.index, store)

    @contextmanager
    def titled(self, positions: Ints, encoder: Encoder, words: bool = False) -> Iterator[Passages]:
        """The same chunks; those at ``positions`` have the tokens of their titles, each encoded once and for itself."""
        titles = sorted({self.titles[i] for i in positions.tolist()} - {""})
        with TemporaryDirectory() as folder:
            store = self.store.encode(Path(folder) / "titles", titles, titles, encoder, words) if titles else None
            yield replace(self, title_store=store, title_number={title: i for i, title in enumerate(titles)})

    def weighted(self, reading: Literal["corpus", "idf"]) -> Passages:
        """The same chunks, their tokens weighted by the corpus alone."""
        titles = self.title_store.weighted(reading) if self.title_store else None
        return replace(self, store=self.store.weighted(reading), title_store=titles)

    def gather(self, chunks: Ints) -> TokenPool:
        """The tokens of some chunks, before them those of their titles."""
        texts, _ = self.store.gather(chunks)
        if self.title_store is None:
            return texts
        places = [(i, self.title_number[t]) for i, c in enumerate(chunks.tolist()) if (t := self.titles[c])]
        titles, _ = self.title_store.gather([number for _, number in places])
        lengths = np.zeros(len(texts), np.int64)
        lengths[[i for i, _ in places]] = np.diff(titles.offsets)
        starts = np.repeat(texts.offsets[:-1], lengths)
        return TokenPool(
            np.insert(texts.vectors, starts, titles.vectors, axis=0),
            texts.offsets + np.concatenate([[0], np.cumsum(lengths)]),
            np.insert(texts.weights, starts, titles.weights),
            check=False,
        )

    @cached_property
    def lexical(self) -> BM25Index:
        """Inverted index over the tokens' surface forms, made when a hybrid pool first asks for it."""
        return BM25Index([self.store.pieces_of(i) for i in range(len(self.ids))], form="plus_one")
