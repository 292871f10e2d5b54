"""The rows of a matrix that are nearest to queries. The matrix may be memory-mapped: memory is bounded by blocks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evidence_assets.graphs.arrays import FloatArray, IntArray
from evidence_assets.retrieval.vector_index import faiss

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


def find_nearest(vectors: FloatArray, queries: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
    """Scores in single precision and rows of the ``k`` nearest of each query; reads the matrix once, in blocks."""
    library = faiss()
    scores, rows = library.knn(queries, vectors, min(k, len(vectors)), metric=library.METRIC_INNER_PRODUCT)
    return scores, rows
