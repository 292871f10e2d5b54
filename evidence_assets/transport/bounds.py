r"""Lower bounds of the transport cost of every text of a pool, from lower bounds of the ground costs.

**From costs to transport.** For any vector u over the query's tokens put v_j = min_i (C_ij − u_i). Then
u_i + v_j ≤ C_ij for all i, j, so that every plan T with marginals a, b costs

.. math:: \langle C, T\rangle \ge \sum_{ij} (u_i + v_j)\, T_{ij} = a \cdot u + b \cdot v .

The right side is therefore a lower bound of the optimum for any u (weak duality), also if C is replaced by a matrix
below it. The optimal u of the texts of a pool are similar, so the potentials of a few solved texts suffice.

The matrix below C comes from the ground cost (:meth:`~.ground_cost.GroundCost.lower` or, as a first filter,
:meth:`~.ground_cost.GroundCost.relaxed_lower`), in float32 minus its rounding error. Devices return one number per
token; exact solving runs on the CPU.

A pass reads texts in chunks, which worker threads take in turn, and multiplies blocks of their rows. Chunks and blocks
do not depend on the number of threads, so neither does any bit of a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray

from evidence_assets.models.inference import native_thread_pools
from evidence_assets.models.vectors import Array

from .ground_cost import ROUNDING_UNIT, Array32, GroundCost, Workspace
from .pool import IntArray, TextCollection, TokenPool, normalise_texts

BLOCK_TOKENS = 768
"""Rows of a block on a CPU; with fewer, calls take a fifth of the time."""
CHUNK_TOKENS = 1 << 14
"""Tokens of the texts that a thread takes at a time on a CPU."""
DEVICE_TOKENS = 1 << 16
"""Tokens of a chunk and of a block on a device."""
REGISTER_WIDTH = 8
"""Query tokens are padded to whole vector registers: 24 are multiplied a third faster than 22."""
LowerBound = Callable[[tuple[torch.Tensor, ...], torch.Tensor, torch.Tensor | None, Workspace], torch.Tensor]
"""Lower bounds of costs: :meth:`~.ground_cost.GroundCost.lower` or its relaxed form."""


def dual_bound(a: Array, b: Array, costs: Array, potentials: Array) -> float:
    """Best weak-duality bound over several potentials (one per row), in float64.

    >>> dual_bound(np.array([1.0]), np.array([0.5, 0.5]), np.array([[1.0, 3.0]]), np.array([[0.0]]))
    2.0
    """
    reduced = (costs[None, :, :] - potentials[:, :, None]).min(axis=1)
    return float((potentials @ a + reduced @ b).max())


class BoundPass:
    """One pass over a pool that computes lower bounds of texts for all queries.

    ``lower``: A method of ``cost``; ``features``: for each query, its features for that method.
    ``masses``, ``potentials``: For each query, the masses of its tokens, and dual potentials of similar texts.
    ``use_numpy``: See :class:`~.ground_cost.Workspace`.
    """

    def __init__(
        self,
        cost: GroundCost,
        lower: LowerBound,
        features: Sequence[tuple[Array32, ...]],
        masses: Sequence[Array],
        potentials: Sequence[Array],
        device: str = "cpu",
        use_numpy: bool | None = None,
    ) -> None:
        self._cost, self._lower = cost, lower
        self._device, self._use_numpy = torch.device(device), use_numpy
        self._edges = np.cumsum([0, *map(len, masses)]).tolist()
        self._tokens = -(-self._edges[-1] // REGISTER_WIDTH) * REGISTER_WIDTH
        self._features = tuple(self._pad(np.concatenate(f)) for f in zip(*features, strict=True))
        # Any u gives a bound, so rounding u is harmless.
        rounded = [u.astype(np.float32) for u in potentials]
        self._potentials = self._pad(np.concatenate(rounded))
        self._query_parts = [float(a @ u.astype(np.float64)) for a, u in zip(masses, rounded, strict=True)]

    def _pad(self, feature: NDArray[np.float32]) -> torch.Tensor:
        rows = np.zeros((self._tokens, *feature.shape[1:]), dtype=np.float32)
        rows[: len(feature)] = feature
        return torch.from_numpy(rows).to(self._device)

    def run(
        self, texts: TextCollection, temperature: float, threads: int, numbers: IntArray | None = None
    ) -> list[Array]:
        """Lower bounds of all texts, or of those of these numbers, for each query; minus infinity on overflow."""
        chosen = np.arange(len(texts)) if numbers is None else numbers
        bounds = np.full((len(self._query_parts), len(chosen)), -np.inf)
        precision = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")  # TF32 exceeds the error margins
        first = 0
        try:
            for pool, members in texts.parts(chosen):
                self._bound_part(pool, members, bounds[:, first : first + len(members)], temperature, threads)
                first += len(members)
                del pool  # free its memory before the next part
        finally:
            torch.set_float32_matmul_precision(precision)
        return list(np.where(np.isfinite(bounds), bounds, -np.inf))

    def _bound_part(self, pool: TokenPool, members: IntArray, bounds: Array, temperature: float, threads: int) -> None:
        """Write the bounds of texts of a pool in memory or in a memory-mapped file."""
        is_cpu = self._device.type == "cpu"
        lengths = pool.offsets[members + 1] - pool.offsets[members]
        chunk_of_text = (np.cumsum(lengths) - lengths) // (CHUNK_TOKENS if is_cpu else DEVICE_TOKENS)
        chunks = np.split(np.arange(len(members)), np.flatnonzero(np.diff(chunk_of_text)) + 1)
        queue = iter(chunks)  # shared by the threads

        def run() -> None:
            # chunks run in parallel, so libraries must not start threads inside one
            with native_thread_pools().limit(limits=1, user_api="openmp"):
                rows = BLOCK_TOKENS if is_cpu else DEVICE_TOKENS
                workspace = Workspace(self._tokens, rows, pool.vectors.shape[1], self._device, self._use_numpy)
                for chunk in queue:
                    bounds[:, chunk] = self._bound_chunk(pool, members[chunk], temperature, workspace, rows)

        threads = min(threads, len(chunks))
        if not is_cpu or threads <= 1:
            run()
        else:
            with ThreadPoolExecutor(threads) as executor:
                for future in [executor.submit(run) for _ in range(threads)]:
                    future.result()

    def _bound_chunk(
        self, pool: TokenPool, texts: IntArray, temperature: float, workspace: Workspace, block_rows: int
    ) -> Array:
        starts, lengths = pool.offsets[texts], pool.offsets[texts + 1] - pool.offsets[texts]
        first_rows = np.cumsum(lengths) - lengths
        rows = np.arange(lengths.sum()) + np.repeat(starts - first_rows, lengths)
        masses = normalise_texts(pool.weights[rows], lengths)
        has_mass = masses > 0  # tokens without mass have no transport cost
        first_rows = np.cumsum(np.add.reduceat(has_mass, first_rows, dtype=np.int64))
        first_rows = np.concatenate([[0], first_rows[:-1]])
        rows, masses = rows[has_mass], masses[has_mass]
        factors = self._cost.factors(pool.weights[rows], temperature)
        reduced = np.empty((len(self._query_parts), len(rows)))
        for block in _slices(len(rows), block_rows):
            vectors = torch.from_numpy(np.asarray(pool.vectors).take(rows[block], axis=0))
            x = workspace.rows(len(vectors))[0].copy_(vectors)
            scale = None if factors is None else torch.from_numpy(factors[block]).to(self._device)
            costs = self._lower(self._features, x, scale, workspace).sub_(self._potentials[:, None])
            for query, (low, high) in enumerate(zip(self._edges[:-1], self._edges[1:], strict=True)):
                reduced[query, block] = costs[low:high].amin(dim=0).cpu().numpy()
        # Rounding preserves order, so the computed minimum is the rounded minimum, which is off by at most one unit.
        reduced -= 2 * ROUNDING_UNIT * np.abs(reduced)
        reduced *= masses
        return np.asarray(np.add.reduceat(reduced, first_rows, axis=1) + np.array(self._query_parts)[:, None])


def _slices(length: int, size: int) -> Iterator[slice]:
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))
