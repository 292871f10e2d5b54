"""Many texts as one block of token vectors that may lie in a memory-mapped file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evidence_assets.models.vectors import Array

from .ground_cost import CostLike, get_ground_cost
from .measure import TokenMeasure


class TextCollection(ABC):
    """Texts with their tokens, of which a few at a time are read."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """Numbers of a token's vector."""

    @abstractmethod
    def select(self, chosen: Sequence[int] | NDArray[np.integer[Any]]) -> TokenPool:
        """Some of the texts, in the order asked, in memory."""

    @abstractmethod
    def tiles(self) -> Iterator[tuple[int, TokenPool]]:
        """All texts in order, each part with the number of its first."""

    def measure(self, text: int, cost: CostLike, temperature: float = 1.0) -> TokenMeasure:
        """One text as a measure under a cost, in float64: what every exact distance is computed from."""
        return self.select([text]).measure(0, cost, temperature)


class TokenPool(TextCollection):
    r"""Texts as token measures, stored end to end.

    A store is three plain arrays, each of which ``np.save`` writes and ``np.load(..., mmap_mode="r")`` opens:

    ========== ============ ===================================================================================
    ``vectors``  N × d        token vectors of all texts, one after another; float16 is enough for contextual ones
    ``offsets``  n + 1        int64; text ``t`` has the rows ``offsets[t]`` to ``offsets[t + 1] - 1``; no text is empty
    ``weights``  N            masses before normalisation (BM25, idf …), not negative; all zero in a text: uniform
    ========== ============ ===================================================================================

    >>> pool = TokenPool([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0, 2, 3], [1, 3, 2])
    >>> len(pool), pool.measure(0, "cosine").masses.tolist()
    (2, [0.25, 0.75])
    """

    def __init__(self, vectors: ArrayLike, offsets: ArrayLike, weights: ArrayLike) -> None:
        v: NDArray[Any] = vectors if isinstance(vectors, np.ndarray) else np.asarray(vectors, dtype=np.float64)
        if v.dtype not in (np.float16, np.float32, np.float64):
            v = v.astype(np.float64)
        self.vectors = v
        self.offsets: NDArray[np.int64] = np.asarray(offsets, dtype=np.int64)
        self.weights: Array = np.asarray(weights, dtype=np.float64)
        if v.ndim != 2 or (len(v) and not v.shape[1]):
            raise ValueError(f"vectors have shape {v.shape}: give one row a token")
        if self.offsets.ndim != 1 or not len(self.offsets) or self.offsets[0] != 0 or self.offsets[-1] != len(v):
            raise ValueError(f"offsets must run from 0 to the {len(v)} rows of vectors")
        lengths = np.diff(self.offsets)
        if (lengths < 1).any():
            raise ValueError(f"text {int(np.argmin(lengths))} has no token: leave empty texts out of the pool")
        if self.weights.shape != (len(v),):
            raise ValueError(f"weights have shape {self.weights.shape}: give one number for each of the {len(v)} rows")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def dimensions(self) -> int:
        return int(self.vectors.shape[1])

    def select(self, chosen: Sequence[int] | NDArray[np.integer[Any]]) -> TokenPool:
        """Some of the texts, in the order asked."""
        rows = [slice(int(self.offsets[text]), int(self.offsets[text + 1])) for text in chosen]
        offsets = np.concatenate([[0], np.cumsum([own.stop - own.start for own in rows])]).astype(np.int64)
        vectors = np.concatenate([self.vectors[:0], *(self.vectors[own] for own in rows)])
        weights = np.concatenate([self.weights[:0], *(self.weights[own] for own in rows)])
        return TokenPool(vectors, offsets, weights)

    def tiles(self) -> Iterator[tuple[int, TokenPool]]:
        if len(self):
            yield 0, self

    def measure(self, text: int, cost: CostLike, temperature: float = 1.0) -> TokenMeasure:
        rows = slice(int(self.offsets[text]), int(self.offsets[text + 1]))
        return get_ground_cost(cost).measure(self.vectors[rows], self.weights[rows], temperature)

    def masses(self) -> Array:
        """Weights normalised to 1 within each text; uniform where all of a text are zero."""
        if not len(self):
            return np.empty(0)
        starts, lengths = self.offsets[:-1], np.diff(self.offsets)
        top = np.repeat(np.maximum.reduceat(self.weights, starts), lengths)
        scaled = np.where(top > 0, self.weights / np.where(top > 0, top, 1.0), 1.0)
        return np.asarray(scaled / np.repeat(np.add.reduceat(scaled, starts), lengths))

    def blocks(self, tokens: int) -> Iterator[tuple[int, int]]:
        """Ranges of whole texts that hold about ``tokens`` rows each, at least one text."""
        start = 0
        while start < len(self):
            end = int(np.searchsorted(self.offsets, self.offsets[start] + tokens, side="right")) - 1
            end = max(end, start + 1)
            yield start, end
            start = end
