"""Texts as they are ranked: their tokens with weights, read from what is kept, a tile at a time.

Belongs here: what makes a text of kept tokens, a title before its text where titles are ranked, and what weighs each token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from evidence_assets.retrieval.bm25 import term_weight
from evidence_assets.retrieval.term_index import Reading, TermIndex
from evidence_assets.retrieval.token_cache import KeptTexts
from evidence_assets.transport import TokenPool
from evidence_assets.transport.pool import Texts

TILE = 1 << 16
"""Tokens of a tile: what is in memory of a pool at a time."""

Ints = npt.NDArray[np.integer[Any]]


class TokenTexts(Texts):
    """Texts, each made of one or more kept ones end to end.

    ``kept``, ``members``, ``bounds``: Text ``i`` is made of the kept texts ``members[bounds[i] : bounds[i + 1]]``; each
        has at least one.
    ``terms``, ``reading``: What the corpus says of the tokens' forms, and how they are weighed by it
        (:meth:`~.term_index.TermIndex.values`).
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

    def some(self, chosen: Sequence[int] | Ints) -> TokenPool:
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
            yield start, self.some(range(start, end))
