r"""Texts whose token vectors are on a device: it computes masses, costs and bounds, and the host solves.

The host gets one lower bound for each text, and the masses and costs of the texts that it solves. For N tokens of d
dimensions in float16, a query of n tokens, and texts of up to c/32 tokens, a search has at most

.. math:: (2d + 4n + 48)\,N + (24d + 48n)\,c

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
    ``masses``, ``lengths``: Masses of all tokens, and the number of tokens of each text, on the device.
    """

    def __init__(self, vectors: Sequence[Sequence[torch.Tensor]], weights: Array) -> None:
        self._vectors = vectors
        self._weights = weights
        self._device = vectors[0][0].device
        self._offsets: IntArray = np.cumsum([0, *(sum(map(len, pieces)) for pieces in vectors)])
        self.lengths = self.put(np.diff(self._offsets))
        self.masses = _normalise_texts(self.put(weights), self.lengths)

    def __len__(self) -> int:
        return len(self._vectors)

    def put(self, array: NDArray[Any]) -> torch.Tensor:
        """A copy of an array on the device."""
        return torch.tensor(array, device=self._device)

    def select(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> TokenPool:
        positions = np.asarray(indices, dtype=np.int64)
        offsets = np.cumsum([0, *np.diff(self._offsets)[positions]])
        weights = self._weights[row_positions(self._offsets, positions)]
        return TokenPool(self._join(positions).cpu().numpy(), offsets, weights)

    def parts(self, texts: IntArray) -> Iterator[tuple[TokenPool, IntArray]]:
        yield self.select(texts), np.arange(len(texts))

    def costs(self, text: int, cost: GroundCost, points: Array, temperature: float) -> tuple[Array, Array]:
        """Masses of a text's tokens, and their exact costs from a query's points, for the solver on the host."""
        tokens = slice(int(self._offsets[text]), int(self._offsets[text + 1]))
        has_mass = self.masses[tokens] > 0
        scaled = self._join([text])[has_mass].double()
        factors = cost.factors(self._weights[tokens], temperature)
        if factors is not None:
            scaled *= self.put(factors)[has_mass, None]
        costs = cost.device_matrix(self.put(points), cost.points(scaled) if factors is not None else scaled)
        return self.masses[tokens][has_mass].cpu().numpy(), costs.cpu().numpy()

    def low_costs(self, cost: GroundCost, points: Array, temperature: float) -> Iterator[torch.Tensor]:
        """Lower bounds of the costs between a query's points and the tokens of each chunk of texts, in float32."""
        features = tuple(self.put(feature) for feature in cost.features(points))
        for texts in group_equal(self._offsets[:-1] // CHUNK_TOKENS):
            vectors = self._join(texts)
            n_tokens = len(vectors)
            start = int(self._offsets[texts[0]])
            factors = cost.factors(self._weights[start : start + n_tokens], temperature)
            chunk = Chunk(vectors, np.arange(n_tokens), factors)
            work = Workspace(len(points), n_tokens, n_tokens, vectors.shape[1], self._device)
            yield cost.lower(features, chunk, work).clone()  # the workspace is freed

    def _join(self, texts: Sequence[int] | IntArray) -> torch.Tensor:
        return torch.cat([piece for text in texts for piece in self._vectors[text]])


class DeviceBounds:
    """Lower bounds of the transport costs from a query to texts on a device, which each dual potential tightens.

    ``values``: The bounds, in the host's memory; minus infinity before the first potential, and where float32
    overflows.
    """

    def __init__(self, pool: DevicePool, cost: GroundCost, points: Array, masses: Array, temperature: float) -> None:
        # The default. The error of products in TF32 would exceed the margin of the bounds.
        torch.set_float32_matmul_precision("highest")
        self._pool = pool
        self._query_masses = masses
        with _CHUNK_WORK:
            self._low_costs = list(pool.low_costs(cost, points, temperature))
        self.values = np.full(len(pool), -np.inf)

    def tighten(self, potential: Array) -> None:
        """As :meth:`.bounds.TextBounds.tighten`."""
        rounded = potential.astype(np.float32)
        u = self._pool.put(rounded)[:, None]
        reduced = torch.cat([(costs - u).amin(dim=0) for costs in self._low_costs]).double()
        reduced = self._pool.masses * (reduced - 2 * ROUNDING_UNIT * reduced.abs())
        sums = torch.segment_reduce(reduced, "sum", lengths=self._pool.lengths).cpu().numpy()
        bounds = sums + self._query_masses @ rounded.astype(np.float64)
        np.maximum(self.values, bounds, out=self.values, where=np.isfinite(bounds))


def _normalise_texts(weights: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """As :func:`~.pool.normalise_texts`."""
    top = torch.segment_reduce(weights, "max", lengths=lengths).repeat_interleave(lengths)
    scaled = torch.where(top > 0, weights / top, 1.0)
    return scaled / torch.segment_reduce(scaled, "sum", lengths=lengths).repeat_interleave(lengths)
