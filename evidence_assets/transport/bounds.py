r"""Lower bounds of the transport cost of every text of a pool, from lower bounds of the ground costs.

**From costs to transport.** For any vector u over the query's tokens put v_j = min_i (C_ij − u_i). Then
u_i + v_j ≤ C_ij for all i, j, so that every plan T with marginals a, b costs

.. math:: \langle C, T\rangle \ge \sum_{ij} (u_i + v_j)\, T_{ij} = a \cdot u + b \cdot v .

The right side is therefore a lower bound of the optimum for any u (weak duality), also if C is replaced by a matrix
below it. The optimal u of the texts of a pool are similar, so the potentials of a few solved texts suffice.

The matrix below C comes from the ground cost (:meth:`~.ground_cost.GroundCost.lower`), in float32 minus its rounding
error. Devices return one number per text; exact solving runs on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray

from evidence_assets.models.inference import native_thread_pools
from evidence_assets.models.vectors import Array

from .ground_cost import ROUNDING_UNIT, GroundCost, Workspace
from .pool import TextCollection, TokenPool

BLOCK_TOKENS = 768
"""Rows of a block on a CPU; intermediate results fit the second-level cache."""
DEVICE_TOKENS = 1 << 16
"""Rows of a block on a device."""
REGISTER_WIDTH = 8
"""Query tokens are padded to whole vector registers: 24 are multiplied a third faster than 22."""


def dual_bound(a: Array, b: Array, costs: Array, potentials: Array) -> float:
    """Best weak-duality bound over several potentials (one per row), in float64.

    >>> dual_bound(np.array([1.0]), np.array([0.5, 0.5]), np.array([[1.0, 3.0]]), np.array([[0.0]]))
    2.0
    """
    reduced = (costs[None, :, :] - potentials[:, :, None]).min(axis=1)
    return float((potentials @ a + reduced @ b).max())


def bound_texts(
    costs: torch.Tensor, a: Array, masses: torch.Tensor, owner: torch.Tensor, texts: int, potential: Array
) -> torch.Tensor:
    """Dual bounds of the texts of a block; minus infinity if float32 overflows. ``owner`` is each row's text."""
    u = torch.from_numpy(potential.astype(np.float32)).to(costs.device)
    reduced = (costs - u[:, None]).amin(dim=0).double()
    # Any u gives a bound, so rounding u is harmless. Rounding preserves order, so the computed minimum is the rounded
    # minimum, which is off by at most one unit.
    reduced.sub_(reduced.abs(), alpha=2 * ROUNDING_UNIT).mul_(masses)
    values = torch.zeros(texts, dtype=torch.float64, device=costs.device).index_add_(0, owner, reduced)
    values += float(a @ u.double().cpu().numpy())
    return values.masked_fill_(~values.isfinite(), -torch.inf)


class BoundPass:
    """One pass over a pool that computes lower bounds of all texts for all queries.

    ``points``, ``masses``, ``potentials``: For each query, its tokens with mass, their masses, and dual potentials of
        similar texts.
    ``by_numpy``: See :class:`~.ground_cost.Workspace`.
    """

    def __init__(
        self,
        cost: GroundCost,
        points: Sequence[Array],
        masses: Sequence[Array],
        potentials: Sequence[Array],
        device: str = "cpu",
        by_numpy: bool | None = None,
    ) -> None:
        self._cost, self._masses, self._potentials = cost, masses, potentials
        self._device, self._by_numpy = torch.device(device), by_numpy
        self._edges = np.cumsum([0, *map(len, points)]).tolist()
        self._tokens = -(-self._edges[-1] // REGISTER_WIDTH) * REGISTER_WIDTH
        self._features = tuple(self._pad(f) for f in cost.features(np.concatenate(points)))

    def _pad(self, feature: NDArray[np.float32]) -> torch.Tensor:
        rows = np.zeros((self._tokens, *feature.shape[1:]), dtype=np.float32)
        rows[: len(feature)] = feature
        return torch.from_numpy(rows).to(self._device)

    def run(self, texts: TextCollection, temperature: float, threads: int) -> list[Array]:
        """Lower bounds of all texts for each query."""
        bounds = torch.empty((len(self._masses), len(texts)), dtype=torch.float64, device=self._device)
        precision = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")  # TF32 exceeds the error margins
        try:
            for first, pool in texts.tiles():
                self._bound_tile(pool, bounds[:, first : first + len(pool)], temperature, threads)
                del pool  # free its memory before the next tile
        finally:
            torch.set_float32_matmul_precision(precision)
        return list(bounds.cpu().numpy())

    def _bound_tile(self, pool: TokenPool, bounds: torch.Tensor, temperature: float, threads: int) -> None:
        """Write the bounds of the texts of a pool in memory or in a memory-mapped file."""
        weights, factors = pool.masses(), self._cost.factors(pool.weights, temperature)
        is_cpu = self._device.type == "cpu"
        blocks = list(pool.blocks(BLOCK_TOKENS if is_cpu else DEVICE_TOKENS))
        max_rows = max(int(pool.offsets[b] - pool.offsets[a]) for a, b in blocks)

        def run(assigned_blocks: list[tuple[int, int]]) -> None:
            # blocks run in parallel, so libraries must not start threads inside one
            with native_thread_pools().limit(limits=1, user_api="openmp"):
                workspace = Workspace(self._tokens, max_rows, pool.vectors.shape[1], self._device, self._by_numpy)
                for first, last in assigned_blocks:
                    bounds[:, first:last] = self._bound_block(pool, weights, factors, workspace, first, last)

        if not is_cpu or threads == 1 or len(blocks) == 1:
            run(blocks)
        else:
            with ThreadPoolExecutor(threads) as executor:
                list(executor.map(run, [blocks[i::threads] for i in range(threads)]))

    def _bound_block(
        self, pool: TokenPool, masses: Array, factors: Array | None, workspace: Workspace, first: int, last: int
    ) -> torch.Tensor:
        low, high = int(pool.offsets[first]), int(pool.offsets[last])
        rows = np.flatnonzero(masses[low:high] > 0)  # tokens without mass have no transport cost
        x = workspace.rows(len(rows))[0].copy_(torch.from_numpy(pool.vectors[low:high][rows]))
        scale = None if factors is None else self._to_device(factors[low:high][rows])
        costs = self._cost.lower(self._features, x, scale, workspace)
        weight = self._to_device(masses[low:high][rows])
        owner = self._to_device(np.repeat(np.arange(last - first), np.diff(pool.offsets[first : last + 1]))[rows])
        parts = [
            bound_texts(costs[a:b], self._masses[q], weight, owner, last - first, self._potentials[q])
            for q, (a, b) in enumerate(zip(self._edges[:-1], self._edges[1:], strict=True))
        ]
        return torch.stack(parts)

    def _to_device(self, array: NDArray[np.int64] | Array) -> torch.Tensor:
        return torch.from_numpy(array).to(self._device)
