r"""Texts whose token vectors are on a device: it computes masses, costs and bounds, and the host solves.

The host gets one lower bound for each text, and the masses and costs of the texts that it solves. For N tokens of d
dimensions in float16, a query of n tokens, and texts of up to c/32 tokens, a search has at most

.. math:: (2d + 4n + 64)\,N + (24d + 48n)\,c

bytes on the device, and what its libraries take: the vectors, the lower bounds of the ground costs, some numbers for
each token, and the work on a chunk of about c tokens (:data:`~.bounds.CHUNK_TOKENS`) or on sixteen texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evidence_assets.models.vectors import Array, row_positions

from .bounds import CHUNK_TOKENS
from .ground_cost import ROUNDING_UNIT, Chunk, GroundCost, Workspace
from .pool import IntArray, TextCollection, TokenPool, group_equal

_CHUNK_WORK = Lock()
"""Threads that search take turns with the work on chunks, which bounds its memory."""


class DevicePool(TextCollection):
    """Texts whose token vectors are on a device, such as the card that has just encoded them.

    ``vectors``: Of each text, in pieces (tokens × d); ``weights``: Of the tokens of all texts, in the host's memory.
    ``masses``, ``has_mass``: Of all tokens; ``lengths``: Number of the tokens with mass of each text.
    """

    def __init__(self, vectors: Sequence[Sequence[torch.Tensor]], weights: Array) -> None:
        self._vectors = vectors
        self._weights = weights
        self.device = vectors[0][0].device
        self._offsets: IntArray = np.cumsum([0, *(sum(map(len, pieces)) for pieces in vectors)])
        lengths = self.put(np.diff(self._offsets))
        self.masses = _normalise_texts(self.put(weights), lengths)
        self.has_mass = self.masses > 0
        self.lengths = torch.segment_reduce(self.has_mass.double(), "sum", lengths=lengths).long()

    def __len__(self) -> int:
        return len(self._vectors)

    def put(self, array: NDArray[Any]) -> torch.Tensor:
        """A copy of an array on the device."""
        return torch.tensor(array, device=self.device)

    def select(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> TokenPool:
        vectors = self._join(indices).cpu().numpy()
        positions = np.asarray(indices, dtype=np.int64)
        lengths = np.diff(self._offsets)[positions]
        return TokenPool(vectors, np.cumsum([0, *lengths]), self._weights[row_positions(self._offsets, positions)])

    def parts(self, texts: IntArray) -> Iterator[tuple[TokenPool, IntArray]]:
        if len(texts):
            yield self.select(texts), np.arange(len(texts))

    def costs(self, text: int, cost: GroundCost, points: Array, temperature: float) -> tuple[Array, Array]:
        """Masses of a text's tokens, and their exact costs from a query's points, for the solver on the host."""
        tokens = slice(int(self._offsets[text]), int(self._offsets[text + 1]))
        has_mass = self.has_mass[tokens]
        own_points = self._join([text])[has_mass].double()
        factors = cost.factors(self._weights[tokens], temperature)
        if factors is not None:
            own_points = cost.points(own_points * self.put(factors)[has_mass, None])
        matrix = cost.device_matrix(self.put(points), own_points)
        return self.masses[tokens][has_mass].cpu().numpy(), matrix.cpu().numpy()

    def low_costs(self, cost: GroundCost, points: Array, temperature: float) -> torch.Tensor:
        """Lower bounds of the costs between a query's points and the tokens with mass of all texts, in float32."""
        features = tuple(self.put(feature) for feature in cost.features(points))
        factors = cost.factors(self._weights, temperature)
        chunks = group_equal(self._offsets[:-1] // CHUNK_TOKENS)
        ranges = [(int(self._offsets[texts[0]]), int(self._offsets[texts[-1] + 1])) for texts in chunks]
        largest = max(end - start for start, end in ranges)
        work = Workspace(len(points), largest, largest, self._vectors[0][0].shape[1], self.device)
        costs = features[0].new_empty((len(points), int(self.has_mass.sum())))
        first = 0
        for texts, (start, end) in zip(chunks, ranges, strict=True):
            rows = self.has_mass[start:end].nonzero().squeeze(1)
            chunk_factors = None if factors is None else self.put(factors[start:end])[rows]
            last = first + len(rows)
            costs[:, first:last] = cost.lower(features, Chunk(self._join(texts), rows, chunk_factors), work)
            first = last
        return costs

    def _join(self, texts: Sequence[int] | NDArray[np.integer[Any]]) -> torch.Tensor:
        return torch.cat([piece for text in texts for piece in self._vectors[text]])


class DeviceBounds:
    """Lower bounds of the transport costs from a query to texts: those of :class:`~.bounds.TextBounds`, on a device.

    ``values``: The bounds, in the host's memory; minus infinity where float32 overflows.
    """

    def __init__(self, pool: DevicePool, cost: GroundCost, points: Array, masses: Array, temperature: float) -> None:
        # The default. The error of products in TF32 would exceed the margin of the bounds.
        torch.set_float32_matmul_precision("highest")
        self._put = pool.put
        self._query_masses = pool.put(masses)
        self._masses = pool.masses[pool.has_mass]
        self._lengths = pool.lengths
        with _CHUNK_WORK:
            self._low_costs = pool.low_costs(cost, points, temperature)
        self.values = np.full(len(pool), -np.inf)
        relaxed = torch.zeros(len(pool), dtype=torch.float64, device=pool.device)
        for mass, costs in zip(self._query_masses, self._low_costs, strict=True):
            relaxed += mass * torch.segment_reduce(costs, "min", lengths=self._lengths).double()
        self._increase(relaxed)
        self.tighten(np.zeros(len(masses)))

    def tighten(self, potential: Array) -> None:
        """Raise the bounds to those of a dual potential of the query's tokens, such as that of a similar text."""
        rounded = self._put(potential.astype(np.float32))  # any u gives a bound, so rounding u is harmless
        least = torch.full_like(self._low_costs[0], torch.inf)
        for costs, u in zip(self._low_costs, rounded, strict=True):  # one by one, to need no second matrix
            torch.minimum(least, costs - u, out=least)
        reduced = least.double()
        reduced = self._masses * (reduced - 2 * ROUNDING_UNIT * reduced.abs())
        sums = torch.segment_reduce(reduced, "sum", lengths=self._lengths)
        self._increase(sums + self._query_masses @ rounded.double())

    def _increase(self, bounds: torch.Tensor) -> None:
        values = bounds.cpu().numpy()
        np.maximum(self.values, values, out=self.values, where=np.isfinite(values))


def _normalise_texts(weights: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """As :func:`~.pool.normalise_texts`."""
    top = torch.segment_reduce(weights, "max", lengths=lengths).repeat_interleave(lengths)
    scaled = torch.where(top > 0, weights / top, 1.0)
    return scaled / torch.segment_reduce(scaled, "sum", lengths=lengths).repeat_interleave(lengths)
