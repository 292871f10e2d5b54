"""Many texts as one block of token vectors, in memory or in a memory-mapped file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evidence_assets.models.vectors import Array

from .ground_cost import CostLike, get_ground_cost
from .measure import TokenMeasure

IntArray = NDArray[np.int64]


def normalise_texts(weights: Array, lengths: IntArray) -> Array:
    """Weights normalised to 1 within each text of these lengths; uniform if all are zero."""
    starts = np.cumsum(lengths) - lengths
    top = np.repeat(np.maximum.reduceat(weights, starts), lengths)
    scaled = np.where(top > 0, weights / np.where(top > 0, top, 1.0), 1.0)
    return np.asarray(scaled / np.repeat(np.add.reduceat(scaled, starts), lengths))


def group_equal(numbers: IntArray) -> list[IntArray]:
    """Positions of an array in groups of equal neighbours."""
    return np.split(np.arange(len(numbers)), np.flatnonzero(np.diff(numbers)) + 1)


class TextCollection(ABC):
    """Texts with their tokens, read in parts."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def select(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> TokenPool:
        """Load texts into memory, in the order of ``indices``."""

    @abstractmethod
    def parts(self, texts: IntArray) -> Iterator[tuple[TokenPool, IntArray]]:
        """Chosen texts in order: pools, each with the numbers of its chosen texts."""

    def measure(self, text: int, cost: CostLike, temperature: float = 1.0) -> TokenMeasure:
        """One text as a measure under a cost, in float64, for exact distances."""
        return self.select([text]).measure(0, cost, temperature)


class TokenPool(TextCollection):
    r"""Texts as token measures, stored end to end.

    A pool has three arrays for ``np.save`` and ``np.load(..., mmap_mode="r")``:

    ========== ============ ===================================================================================
    ``vectors``  N × d        token vectors of all texts, one after another; float16 is enough for contextual ones
    ``offsets``  n + 1        int64; text ``t`` has the rows ``offsets[t]`` to ``offsets[t + 1] - 1``; no text is empty
    ``weights``  N            masses before normalisation (BM25, idf …), not negative; uniform if all of a text are zero
    ========== ============ ===================================================================================

    >>> pool = TokenPool([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0, 2, 3], [1, 3, 2])
    >>> len(pool), pool.measure(0, "cosine").masses.tolist()
    (2, [0.25, 0.75])
    """

    def __init__(self, vectors: ArrayLike, offsets: ArrayLike, weights: ArrayLike) -> None:
        self.vectors: NDArray[Any] = vectors if isinstance(vectors, np.ndarray) else np.asarray(vectors, np.float64)
        self.offsets: NDArray[np.int64] = np.asarray(offsets, dtype=np.int64)
        self.weights: Array = np.asarray(weights, dtype=np.float64)
        if (np.diff(self.offsets) < 1).any() or not self.offsets[-1] == len(self.vectors) == len(self.weights):
            raise ValueError("texts need at least one token each, and tokens one vector and one weight each")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def dimensions(self) -> int:
        return int(self.vectors.shape[1])

    def select(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> TokenPool:
        slices = [slice(int(self.offsets[text]), int(self.offsets[text + 1])) for text in indices]
        offsets = np.cumsum([0, *(part.stop - part.start for part in slices)])
        vectors = np.concatenate([self.vectors[:0], *(self.vectors[part] for part in slices)])
        weights = np.concatenate([self.weights[:0], *(self.weights[part] for part in slices)])
        return TokenPool(vectors, offsets, weights)

    def parts(self, texts: IntArray) -> Iterator[tuple[TokenPool, IntArray]]:
        if len(texts):
            yield self, texts

    def measure(self, text: int, cost: CostLike, temperature: float = 1.0) -> TokenMeasure:
        rows = slice(int(self.offsets[text]), int(self.offsets[text + 1]))
        return get_ground_cost(cost).measure(self.vectors[rows], self.weights[rows], temperature)

    def blocks(self, tokens: int) -> Iterator[tuple[int, int]]:
        """Ranges of whole texts with about ``tokens`` rows each, at least one text."""
        start = 0
        while start < len(self):
            end = int(np.searchsorted(self.offsets, self.offsets[start] + tokens, side="right")) - 1
            end = max(end, start + 1)
            yield start, end
            start = end
