r"""Lower bounds of the transport cost of every text of a pool, from lower bounds of the ground costs.

**From costs to transport.** For any vector u over the query's tokens put v_j = min_i (C_ij − u_i). Then
u_i + v_j ≤ C_ij for all i, j, so that every plan T with marginals a, b costs

.. math:: \langle C, T\rangle \ge \sum_{ij} (u_i + v_j)\, T_{ij} = a \cdot u + b \cdot v .

The right side is therefore a lower bound of the optimum for any u (weak duality), also if C is replaced by a matrix
below it. The optimal u of the texts of a pool are similar, so those of a few solved texts suffice.

The matrix below C comes from the ground cost (:meth:`~.ground_cost.GroundCost.lower` or, as a first filter,
:meth:`~.ground_cost.GroundCost.relaxed_lower`), in float32 minus its rounding error.

A pass reads texts in chunks, which worker threads take in turn, and multiplies blocks of their rows. Chunks and blocks
do not depend on the number of threads, so bounds are reproducible to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch

from evidence_assets.models.vectors import Array, row_positions

from .ground_cost import ROUNDING_UNIT, Array32, Chunk, GroundCost, Workspace
from .pool import IntArray, TextCollection, TokenPool, group_equal, normalise_texts

BLOCK_TOKENS = 768
"""Rows whose vectors a thread has in memory at a time."""
CHUNK_TOKENS = 1 << 14
"""Tokens of the texts that a thread takes at a time, for which the small operations are done once."""
REGISTER_WIDTH = 8
"""Query tokens are padded to whole vector registers: 24 are multiplied a third faster than 22."""
Item = TypeVar("Item")
LowerBound = Callable[[tuple[torch.Tensor, ...], Chunk, Workspace], torch.Tensor]
"""Lower bounds of costs: :meth:`~.ground_cost.GroundCost.lower` or its relaxed form."""


class TextBounds:
    r"""Lower bounds of the transport costs from a query to texts, which each dual potential tightens.

    The first bounds move each token to its nearest token of the other side (relaxed transport):

    .. math:: \mathrm{OT}(q, y) \ge \max\Bigl(\sum_i a_i \min_j C_{ij}, \sum_j b_j \min_i C_{ij}\Bigr)

    ``low_costs``: Lower bounds of the ground costs between query tokens and the tokens of all texts, in float32.
    ``query_masses``, ``masses``: Masses of the tokens; ``first_tokens``: number of the first token of each text.
    ``values``: The bounds; minus infinity where float32 overflows.
    """

    def __init__(self, low_costs: Array32, query_masses: Array, masses: Array, first_tokens: IntArray) -> None:
        self._low_costs = low_costs
        self._query_masses = query_masses
        self._masses = masses
        self._first_tokens = first_tokens
        self.values = np.full(len(first_tokens), -np.inf)
        self._increase(query_masses @ np.minimum.reduceat(low_costs, first_tokens, axis=1))
        self.tighten(np.zeros(len(query_masses)))

    def tighten(self, potential: Array) -> None:
        """Raise the bounds to those of a dual potential of the query's tokens, such as that of a similar text."""
        rounded = potential.astype(np.float32)  # any u gives a bound, so rounding u is harmless
        reduced = (self._low_costs - rounded[:, None]).min(axis=0).astype(np.float64)
        reduced = self._masses * (reduced - 2 * ROUNDING_UNIT * np.abs(reduced))
        self._increase(np.add.reduceat(reduced, self._first_tokens) + self._query_masses @ rounded.astype(np.float64))

    def _increase(self, bounds: Array) -> None:
        np.maximum(self.values, bounds, out=self.values, where=np.isfinite(bounds))


class BoundPass:
    """One pass over a pool that computes lower bounds of texts for all queries.

    ``lower``: A method of ``cost``; ``features``: for each query, its features for that method.
    ``masses``, ``potentials``: For each query, the masses of its tokens, and dual potentials of similar texts.
    ``temperature``: That of the cost; ``threads``: Worker threads.
    """

    def __init__(
        self,
        cost: GroundCost,
        lower: LowerBound,
        features: Sequence[tuple[Array32, ...]],
        masses: Sequence[Array],
        potentials: Sequence[Array] = (),
        temperature: float = 1.0,
        threads: int = 1,
    ) -> None:
        self._cost = cost
        self._lower = lower
        self._temperature = temperature
        self._threads = threads
        self._masses = masses
        self._edges = np.cumsum([0, *map(len, masses)]).tolist()
        self._tokens = -(-self._edges[-1] // REGISTER_WIDTH) * REGISTER_WIDTH
        self._features = tuple(self._pad(np.concatenate(f)) for f in zip(*features, strict=True))
        # Any u gives a bound, so rounding u is harmless.
        rounded = [u.astype(np.float32) for u in potentials or [np.zeros(len(a)) for a in masses]]
        self._potentials = self._pad(np.concatenate(rounded))
        self._query_parts = [float(a @ u.astype(np.float64)) for a, u in zip(masses, rounded, strict=True)]

    def _pad(self, feature: Array32) -> torch.Tensor:
        rows = np.zeros((self._tokens, *feature.shape[1:]), dtype=np.float32)
        rows[: len(feature)] = feature
        return torch.from_numpy(rows)

    def run(self, texts: TextCollection) -> list[Array]:
        """Lower bounds of all texts for each query; minus infinity on overflow."""
        bounds = np.full((len(self._query_parts), len(texts)), -np.inf)
        first = 0
        for pool, members in texts.parts(np.arange(len(texts))):
            self._bound_part(pool, members, bounds[:, first : first + len(members)])
            first += len(members)
            del pool  # free its memory before the next part
        return list(np.where(np.isfinite(bounds), bounds, -np.inf))

    def text_bounds(self, texts: TextCollection, numbers: IntArray) -> list[TextBounds]:
        """Bounds of these texts for each query, with the lower bounds of all ground costs in memory."""
        low_costs = list[Array32]()
        masses = list[Array]()
        first_tokens = list[IntArray]()
        n_tokens = 0
        for pool, members in texts.parts(numbers):
            tokens = _MassTokens(pool, members)
            costs = np.empty((self._tokens, len(tokens.rows)), dtype=np.float32)

            def write(part: slice, workspace: Workspace, tokens: _MassTokens = tokens, costs: Array32 = costs) -> None:
                costs[:, part] = self._costs(tokens, part, workspace).numpy()

            self._map(write, list(self._slices(len(tokens.rows))), pool.dimensions)
            low_costs.append(costs)
            masses.append(tokens.masses)
            first_tokens.append(tokens.first_rows + n_tokens)
            n_tokens += len(tokens.rows)
        shared = np.concatenate(masses), np.concatenate(first_tokens)
        all_costs = np.hstack(low_costs)
        return [
            TextBounds(all_costs[low:high], query_masses, *shared)
            for low, high, query_masses in zip(self._edges[:-1], self._edges[1:], self._masses, strict=True)
        ]

    def _bound_part(self, pool: TokenPool, members: IntArray, bounds: Array) -> None:
        """Write the bounds of texts of a pool, which may be memory-mapped."""
        lengths = pool.offsets[members + 1] - pool.offsets[members]
        chunks = group_equal((np.cumsum(lengths) - lengths) // CHUNK_TOKENS)

        def write(chunk: IntArray, workspace: Workspace) -> None:
            bounds[:, chunk] = self._bound_chunk(_MassTokens(pool, members[chunk]), workspace)

        self._map(write, chunks, pool.dimensions)

    def _map(self, work: Callable[[Item, Workspace], None], items: Sequence[Item], dimensions: int) -> None:
        """Do the work for all items, in parallel; each thread has a workspace.

        The caller keeps libraries to one thread, as items run in parallel.
        """
        queue = iter(items)  # shared by the threads

        def run() -> None:
            workspace = Workspace(self._tokens, CHUNK_TOKENS, BLOCK_TOKENS, dimensions)
            for item in queue:
                work(item, workspace)

        threads = min(self._threads, len(items))
        if threads <= 1:
            run()
        else:
            with ThreadPoolExecutor(threads) as executor:
                for future in [executor.submit(run) for _ in range(threads)]:
                    future.result()

    def _bound_chunk(self, tokens: _MassTokens, workspace: Workspace) -> Array:
        reduced = np.empty((len(self._query_parts), len(tokens.rows)))
        for part in self._slices(len(tokens.rows)):
            costs = self._costs(tokens, part, workspace).sub_(self._potentials[:, None])
            for query, (low, high) in enumerate(zip(self._edges[:-1], self._edges[1:], strict=True)):
                reduced[query, part] = costs[low:high].amin(dim=0).numpy()
        # Rounding preserves order, so the computed minimum is the rounded minimum, which is off by at most one unit.
        reduced -= 2 * ROUNDING_UNIT * np.abs(reduced)
        reduced *= tokens.masses
        return np.asarray(np.add.reduceat(reduced, tokens.first_rows, axis=1) + np.array(self._query_parts)[:, None])

    def _slices(self, length: int) -> Iterator[slice]:
        for start in range(0, length, CHUNK_TOKENS):
            yield slice(start, min(start + CHUNK_TOKENS, length))

    def _costs(self, tokens: _MassTokens, part: slice, workspace: Workspace) -> torch.Tensor:
        """Lower bounds of the ground costs of some tokens."""
        rows = tokens.rows[part]
        factors = self._cost.factors(tokens.pool.weights[rows], self._temperature)
        return self._lower(self._features, Chunk(np.asarray(tokens.pool.vectors), rows, factors), workspace)


class _MassTokens:
    """The tokens with mass in some texts of a pool; tokens without mass have no transport cost.

    ``rows``: Rows of the tokens in the pool; ``masses``: their masses; ``first_rows``: number of the first of each
    text.
    """

    def __init__(self, pool: TokenPool, texts: IntArray) -> None:
        lengths = pool.offsets[texts + 1] - pool.offsets[texts]
        first_rows = np.cumsum(lengths) - lengths
        rows = row_positions(pool.offsets, texts)
        masses = normalise_texts(pool.weights[rows], lengths)
        has_mass = masses > 0
        last_rows = np.cumsum(np.add.reduceat(has_mass, first_rows, dtype=np.int64))
        self.pool = pool
        self.rows = rows[has_mass]
        self.masses = masses[has_mass]
        self.first_rows: IntArray = np.concatenate([[0], last_rows[:-1]])
