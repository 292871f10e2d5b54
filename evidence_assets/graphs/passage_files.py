"""Memory-mapped files of node passages: vectors, owners and an index.

``means`` has one vector per node, the mean of its passages, and an index over these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from evidence_assets.graphs.arrays import BoolArray, FloatArray, IntArray, find_positions
from evidence_assets.lake.array_files import ArrayWriter, open_array, open_asset_file, open_batches, sorted_unique
from evidence_assets.lake.errors import StaleInput
from evidence_assets.models.vectors import Array, row_positions, unit_rows
from evidence_assets.retrieval import index_building
from evidence_assets.retrieval.embedding import vector_matrix
from evidence_assets.retrieval.vector_index import IndexMeta, VectorIndex

SimilarityMethod = Literal["vector", "multi_vector"]
LOCATION_SCHEMA = pa.schema([("passage_id", pa.string()), ("char_start", pa.int32()), ("char_end", pa.int32())])
PASSAGE_COLUMNS = ["owner_kind", "owner_id", "ordinal", *LOCATION_SCHEMA.names, "vector"]
NODES_PER_BATCH = 4096
ROWS_PER_BLOCK = 4096
"""Vectors in memory at a time while they are compared with a question: 768 dimensions have 32 MB."""
SIMILARITY_DIGITS = 6
"""Decimal places of similarities; rounding makes ties independent of the order of computation."""


def write_passage_files(
    folder: Path,
    node_ids: pl.Series,
    batches: Iterable[pa.RecordBatch],
    dimensions: int,
    *,
    built_from: str,
    model_id: str,
    memory: int,
    report: Callable[[int, int], None] = lambda count, total: None,
) -> IndexMeta:
    """Write the passages of nodes into ``folder``; ``batches`` have the columns ``PASSAGE_COLUMNS``.

    ``order.npy`` lists the rows of ``vectors.npy`` by node, ``bounds.npy`` the start of each node in it, ``owners.npy``
    the node of each row. Memory: one batch, 12 bytes per passage, and the index.
    """
    owners, ordinals = _copy_passages(folder, node_ids, batches, dimensions)
    order = np.lexsort((ordinals, owners))
    bounds = np.searchsorted(owners[order], np.arange(len(node_ids) + 1))
    if (np.diff(bounds) == 0).any():
        raise StaleInput("some nodes have no passage; materialize the graph's passages again")
    for name, array in (("owners", owners), ("order", order), ("bounds", bounds)):
        np.save(folder / f"{name}.npy", array.astype(np.int32 if len(owners) < 2**31 else np.int64))
    options: dict[str, Any] = {"built_from": built_from, "model_id": model_id, "memory": memory, "progress": report}
    (folder / "means").mkdir()
    _write_means(folder, order, bounds, dimensions)
    index_building.write_index(folder / "means", **options)
    return index_building.write_index(folder, **options)


def _copy_passages(
    folder: Path, node_ids: pl.Series, batches: Iterable[pa.RecordBatch], dimensions: int
) -> tuple[IntArray, IntArray]:
    """Write vectors and locations of the passages of nodes; returns the node and the ordinal of each."""
    owners: list[IntArray] = [np.zeros(0, np.int64)]
    ordinals: list[IntArray] = [np.zeros(0, np.int64)]
    with (
        ArrayWriter(folder / "vectors.npy", np.float16, (dimensions,)) as vectors,
        pa.OSFile(str(folder / "passages.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, LOCATION_SCHEMA) as locations,
    ):
        for batch in batches:
            rows = batch.filter(pa.compute.equal(batch.column("owner_kind"), "node"))
            if not len(rows):
                continue
            numbers = find_positions(node_ids, pl.Series(rows.column("owner_id")))
            if (numbers < 0).any():
                raise StaleInput(
                    "some passages have nodes that are not in the graph; materialize the graph's passages again"
                )
            owners.append(numbers)
            ordinals.append(rows.column("ordinal").to_numpy())
            vectors.add(vector_matrix(rows.column("vector")))
            locations.write_batch(rows.select(LOCATION_SCHEMA.names).cast(LOCATION_SCHEMA))
    return np.concatenate(owners), np.concatenate(ordinals)


def _write_means(folder: Path, order: IntArray, bounds: IntArray, dimensions: int) -> None:
    vectors = open_array(folder / "vectors.npy")
    with ArrayWriter(folder / "means" / "vectors.npy", np.float16, (dimensions,)) as means:
        for first in range(0, len(bounds) - 1, NODES_PER_BATCH):
            node_bounds = bounds[first : first + NODES_PER_BATCH + 1]
            rows = vectors[order[node_bounds[0] : node_bounds[-1]]].astype(np.float32)
            means.add(unit_rows(np.add.reduceat(rows, node_bounds[:-1] - node_bounds[0], axis=0)))


class PassageFiles:
    """The opened passage files and their index, read lazily."""

    def __init__(self, folder: Path, index: VectorIndex) -> None:
        self._folder = folder
        self._index = index
        self._owners, self._order, self._bounds, self._vectors = (
            open_array(folder / f"{name}.npy") for name in ("owners", "order", "bounds", "vectors")
        )

    @cached_property
    def _means(self) -> tuple[VectorIndex, NDArray[np.float16]]:
        folder = self._folder / "means"
        return VectorIndex(folder, expected=self._index.meta.built_from), open_array(folder / "vectors.npy")

    @cached_property
    def _locations(self) -> pa.Table:
        return pa.Table.from_batches(open_asset_file(self._folder / "passages.arrow", open_batches), LOCATION_SCHEMA)

    def rows_of(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """Rows of nodes, concatenated, and the start of each node's rows."""
        counts = self._bounds[nodes + 1] - self._bounds[nodes]
        return self._order[row_positions(self._bounds, nodes)], np.cumsum(counts) - counts

    def similarities(self, query: FloatArray, nodes: IntArray, method: SimilarityMethod) -> Array:
        """Similarity of a question to nodes: to the mean of their passages, or to the nearest passage."""
        if not len(nodes):
            return np.zeros(0)
        if method == "vector":
            scores = _inner_products(self._means[1], nodes, query)
        else:
            rows, first = self.rows_of(nodes)
            scores = np.maximum.reduceat(_inner_products(self._vectors, rows, query), first)
        return np.asarray(np.round(scores.astype(np.float64), SIMILARITY_DIGITS), dtype=np.float64)

    def nearest(self, query: FloatArray, allowed: BoolArray, k: int, method: SimilarityMethod) -> IntArray:
        """Find the ``k`` nearest allowed nodes, best first, ties broken by node number; fewer if fewer are allowed."""
        index = self._means[0] if method == "vector" else self._index
        n_results = min(k, int(allowed.sum()))
        n_candidates = min(4 * k, index.meta.vectors)
        while n_results:
            scores, rows = index.search(query[None], n_candidates)
            nodes = rows[0].astype(np.int64) if method == "vector" else self._owners[rows[0]].astype(np.int64)
            nodes = sorted_unique(nodes[allowed[nodes]])
            similarities = self.similarities(query, nodes, method)
            order = np.lexsort((nodes, -similarities))[:n_results]
            # Complete if no unread vector can be as near as the last result, up to rounding.
            is_complete = len(order) == n_results and similarities[order[-1]] > scores[0, -1] + 10**-SIMILARITY_DIGITS
            if is_complete or n_candidates == index.meta.vectors:
                return nodes[order]
            n_candidates = min(4 * n_candidates, index.meta.vectors)
        return np.zeros(0, np.int64)

    def best_passage(self, query: FloatArray, node: int) -> tuple[str, int, int, float] | None:
        """Find the nearest passage of a node's document: id, start, end and similarity."""
        rows, _ = self.rows_of(np.array([node]))
        passages = [tuple(self._locations.slice(row, 1).to_pylist()[0].values()) for row in rows.tolist()]
        document_rows = [n for n, (_, start, end) in enumerate(passages) if end > start >= 0]
        if not document_rows:
            return None
        scores = _inner_products(self._vectors, rows[document_rows], query)
        best = int(scores.argmax())
        return (*passages[document_rows[best]], round(float(scores[best]), SIMILARITY_DIGITS))


def _inner_products(vectors: NDArray[np.float16], rows: IntArray, query: FloatArray) -> FloatArray:
    """Inner products of rows with a query; results do not depend on the other rows."""
    products: FloatArray = np.empty(len(rows), np.result_type(np.float32, query))
    for start in range(0, len(rows), ROWS_PER_BLOCK):
        block = slice(start, start + ROWS_PER_BLOCK)
        products[block] = (vectors[rows[block]].astype(np.float32) * query).sum(axis=1)
    return products
