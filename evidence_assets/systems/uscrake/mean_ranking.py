r"""Narrows a pool by one vector per chunk, so that only the rest of the pool is encoded and ranked exactly.

For a jointly convex ground cost C and any plan T between texts with masses a and b, Jensen's inequality gives

.. math:: \sum_{ij} T_{ij}\, C(x_i, y_j) \ge C\Bigl(\sum_i a_i x_i, \sum_j b_j y_j\Bigr) .

The cost between the mean points of query and chunk is thus a lower bound of transport. For Euclidean costs it is the
word centroid distance (Kusner et al., 2015). The mean points of all chunks are computed once, in a file that a killed
process leaves to the next one.
"""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from evidence_assets.lake.array_files import continue_array, open_array, release_memory
from evidence_assets.lake.atomic import raise_if_disk_full
from evidence_assets.lake.ids import content_id
from evidence_assets.models.inference import torch_threads
from evidence_assets.models.vectors import Array, top_positions
from evidence_assets.retrieval.bm25 import IntArray
from evidence_assets.systems.uscrake.passages import EncodedPassages, Hypothesis, Pool, Query
from evidence_assets.systems.uscrake.settings import MeanFirstSettings
from evidence_assets.transport import GroundCost, get_ground_cost

VERSION = "1"
CHUNKS_PER_BLOCK = 4096
"""Chunks whose tokens are requested together while the file is written."""


def write_chunk_means(path: Path, passages: EncodedPassages, cost: GroundCost) -> None:
    """Write the mean point of each chunk, in the order of the corpus, as float16.

    Another process waits. Rows that a killed process left are kept.
    """
    n_chunks = len(passages.corpus)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    try:
        with part.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if path.exists():  # written while this process waited
                part.unlink(missing_ok=True)
                return
            first = continue_array(file, np.float16, (n_chunks, passages.encoder.dimensions))
            report = passages.start_report(first)
            for start in range(first, n_chunks, CHUNKS_PER_BLOCK):
                end = min(start + CHUNKS_PER_BLOCK, n_chunks)
                for means in _compute_means(passages, np.arange(start, end), cost):
                    file.write(means.data)
                file.flush()
                os.fsync(file.fileno())  # after a loss of power, rows must not be zeros
                report(end, n_chunks)
            part.replace(path)
    except OSError as error:
        raise_if_disk_full(error, path)
        raise


def _compute_means(passages: EncodedPassages, chunks: IntArray, cost: GroundCost) -> Iterator[Array]:
    """The mean points of chunks, in blocks of rows."""
    texts = passages.texts(chunks)
    for pool, members in texts.parts(np.arange(len(texts))):
        with torch_threads(1):  # threads would wait for each other: a text is a small operation
            means = np.stack([pool.measure(i, cost).mean() for i in members.tolist()])
        yield means.astype(np.float16)
    del texts  # frees its space before the next block is encoded
    release_memory()


class MeanRanking:
    """Ranks the chunks of a pool by the lower bound of their mean points."""

    def __init__(self, settings: MeanFirstSettings, passages: EncodedPassages) -> None:
        self._settings = settings
        self._passages = passages
        self._cost = get_ground_cost(settings.cost)

    @property
    def path(self) -> Path:
        """File of the chunks' mean points, named by all that they depend on; ``find_orphans`` reads the first part."""
        passages = self._passages
        model = f"{passages.encoder.model_id}@{passages.encoder.revision}"
        settings = content_id("chunk means", VERSION, model, self._cost.name, passages.weighting, passages.titles)
        return passages.store.cache_folder / f"{passages.store.meta.built_from}-{settings}.npy"

    @cached_property
    def _means(self) -> Array:
        """Mean points of all chunks, memory-mapped; the first use encodes the whole corpus."""
        if not self.path.exists():
            write_chunk_means(self.path, self._passages, self._cost)
        return open_array(self.path)

    def bounds(self, query: Query, pool: Pool) -> Array:
        """Lower bounds of the transport costs of a pool's chunks, for a query with tokens."""
        weights = self._passages.token_weights(query.tokens.tokens)
        mean = self._cost.measure(query.tokens.vectors, weights).mean()
        means = self._means[pool.chunks].astype(np.float64)
        return self._cost.matrix(mean[None], means).ravel()

    def narrow(self, hypotheses: Sequence[Hypothesis], pools: Sequence[Pool]) -> list[Pool]:
        """The part of each pool that is ranked exactly: the chunks with the least bounds, at least k."""
        return [self._narrow(hypothesis.query, pool) for hypothesis, pool in zip(hypotheses, pools, strict=True)]

    def _narrow(self, query: Query, pool: Pool) -> Pool:
        n_chunks = len(pool.chunks)
        n_kept = max(self._settings.k, math.ceil(self._settings.exact_share * n_chunks))
        if n_kept >= n_chunks or not len(query):
            return pool
        return pool.select(np.sort(top_positions(-self.bounds(query, pool), n_kept)))
