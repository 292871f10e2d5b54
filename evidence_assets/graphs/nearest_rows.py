"""The rows of a matrix that are nearest to queries. The matrix may be memory-mapped: memory is bounded by blocks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evidence_assets.graphs.arrays import FloatArray, IntArray

ROWS_PER_BLOCK = 1 << 15
SCORE_DIGITS = 9
"""Decimal places of scores; rounding makes ties independent of the order of computation."""
MARGIN = 1e-4
"""More than the error of an inner product of unit vectors in single precision."""


def inner_products(vectors: FloatArray, rows: IntArray, query: FloatArray) -> npt.NDArray[np.float64]:
    """Inner products of rows with a query in double precision, rounded."""
    products = np.empty(len(rows))
    for start in range(0, len(rows), ROWS_PER_BLOCK):
        block = slice(start, start + ROWS_PER_BLOCK)
        products[block] = vectors[rows[block]].astype(np.float64) @ query
    return np.round(products, SCORE_DIGITS)


def find_candidates(vectors: FloatArray, queries: FloatArray, k: int) -> list[IntArray]:
    """Rows for each query, ascending, that include its ``k`` nearest and all that tie with the last of these.

    Reads the matrix once, in single precision: rows that are less near than the k-th by a margin are left out.
    """
    nearest = [_Nearest(k) for _ in queries]
    for start in range(0, len(vectors), ROWS_PER_BLOCK):
        products = np.asarray(vectors[start : start + ROWS_PER_BLOCK] @ queries.T)
        for candidates, scores in zip(nearest, products.T, strict=True):
            candidates.add(start, scores)
    return [candidates.rows for candidates in nearest]


class _Nearest:
    """Rows of the blocks read so far that may be among the ``k`` nearest."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._least = -np.inf
        self._scores = np.zeros(0, np.float32)
        self.rows: IntArray = np.zeros(0, np.int64)

    def add(self, start: int, scores: FloatArray) -> None:
        """Add the scores of a block whose first row is ``start``."""
        is_near = np.flatnonzero(scores >= self._least)
        self.rows = np.concatenate([self.rows, is_near + start])
        self._scores = np.concatenate([self._scores, scores[is_near]])
        if len(self._scores) <= self._k:
            return
        nth = len(self._scores) - self._k
        self._least = float(np.partition(self._scores, nth)[nth]) - MARGIN
        is_near = np.flatnonzero(self._scores >= self._least)
        self.rows = self.rows[is_near]
        self._scores = self._scores[is_near]
