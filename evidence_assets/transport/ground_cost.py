"""Interface and registry of ground costs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from evidence_assets.models.vectors import Array
from evidence_assets.text.spelling import did_you_mean

from .measure import TokenMeasure

Array32 = NDArray[np.float32]
ROUNDING_UNIT = 2.0**-24
"""Maximum relative error of rounding to float32."""


def sum_error(terms: int) -> float:
    """Maximum relative error γ of a float32 sum of ``terms`` products."""
    return terms * ROUNDING_UNIT / (1 - terms * ROUNDING_UNIT)


class Workspace:
    """Preallocated memory of one thread, on the CPU or another device.

    ``tokens``, ``chunk``: Query tokens and pool rows of a chunk, whose products are kept; ``block``: rows of which the
    vectors are in memory at a time; ``width``: dimensions.
    """

    def __init__(self, tokens: int, chunk: int, block: int, width: int, device: torch.device | None = None) -> None:
        self.tokens = tokens
        self.block = block
        self.device = device
        self._rows = torch.empty((2, block, width), dtype=torch.float32, device=device)
        self._products = torch.empty((3, tokens * chunk), dtype=torch.float32, device=device)

    def rows(self, count: int) -> tuple[torch.Tensor, ...]:
        """Two buffers of ``count`` rows; the first one receives the points."""
        return self._rows[:, :count].unbind()

    def products(self, count: int) -> tuple[torch.Tensor, ...]:
        """Three buffers of query tokens × ``count`` rows."""
        return self._products[:, : self.tokens * count].view(3, self.tokens, count).unbind()


@dataclass(frozen=True)
class Chunk:
    """Rows of a pool; ``factors`` are those of :meth:`GroundCost.factors` for them.

    ``vectors``: Of the whole pool; a tensor has those of the rows only, on its device.
    """

    vectors: NDArray[Any] | torch.Tensor
    rows: NDArray[np.int64]
    factors: Array | None = None

    def blocks(self, work: Workspace, factor: float = 1.0) -> Iterator[tuple[slice, torch.Tensor]]:
        """Vectors in float32, multiplied by ``factor`` · :attr:`factors`, in blocks that stay in the cache.

        Blocks need only the large operations: beside small ones, threads would wait for Python's lock.
        """
        scale = None
        if self.factors is not None:
            scale = torch.from_numpy(factor * self.factors).to(work.device, torch.float32)[:, None]
        for start in range(0, len(self.rows), work.block):
            block = slice(start, min(start + work.block, len(self.rows)))
            x = work.rows(block.stop - start)[0]
            x.copy_(self._read(block))
            yield block, x if scale is None else x.mul_(scale[block])

    def _read(self, block: slice) -> torch.Tensor:
        if isinstance(self.vectors, torch.Tensor):
            return self.vectors[block]
        return torch.from_numpy(self.vectors.take(self.rows[block], axis=0))


class GroundCost(ABC):
    r"""Cost of moving one unit of mass from a token of one text to a token of another.

    A cost has three parts: the points to compare (:meth:`vectors`, :meth:`factors`, :meth:`points`), their exact matrix
    in float64 (:meth:`matrix`, and :meth:`device_matrix` for points on a device), and a lower bound in float32
    (:meth:`features`, :meth:`lower`; on the device of the features), by which the search prunes texts. A cost
    whose bound is expensive may add a cheaper, lower one (:meth:`relax`, :meth:`relaxed_lower`). The docstrings have
    the formulas and the proofs of the bounds.

    ``name``: Name in settings.
    ``layers``: Number of hidden layers that :meth:`vectors` combines; 0 for the encoder's token vectors.
    ``weighting``: Required token weighting, if the cost is defined for only one.
    ``is_convex``: Whether the cost is jointly convex in its two points. Then, by Jensen's inequality, the cost between
        the mean points of two texts is a lower bound of their transport cost.
    """

    name: ClassVar[str]
    layers: ClassVar[int] = 0
    weighting: ClassVar[Literal["text", "corpus", "idf"] | None] = None
    is_convex: ClassVar[bool] = False

    def vectors(self, layers: Array) -> Array:
        """Token vectors from hidden layers (tokens × layers × d), if :attr:`layers` is not 0."""
        return layers[:, -1]

    def factors(self, weights: Array, temperature: float) -> Array | None:
        """Factors that scale vectors before :meth:`points`; None uses the vectors as points."""
        return None

    def points(self, scaled: torch.Tensor) -> torch.Tensor:
        """Points from vectors multiplied by :meth:`factors`."""
        return scaled

    def measure(self, vectors: ArrayLike, weights: ArrayLike, temperature: float = 1.0) -> TokenMeasure:
        """A text as a measure: its points, and its weights (BM25, idf …) as masses."""
        text = TokenMeasure(vectors, weights)
        factors = self.factors(text.weights, temperature)
        if factors is None:
            return text
        points = self.points(torch.from_numpy(text.points * factors[:, None]))
        return TokenMeasure(points.numpy(), text.weights)

    @abstractmethod
    def matrix(self, x: Array, y: Array) -> Array:
        """Exact costs between the points of ``x`` and ``y``, n × m, in float64."""

    @abstractmethod
    def device_matrix(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """As :meth:`matrix`, to rounding in float64, of points on one device."""

    @abstractmethod
    def features(self, points: Array) -> tuple[Array32, ...]:
        """Features of a query's points for :meth:`lower`, computed once in float64: arrays with one row per token."""

    @abstractmethod
    def lower(self, features: tuple[torch.Tensor, ...], chunk: Chunk, work: Workspace) -> torch.Tensor:
        """Lower bounds of the costs between query tokens and the rows of a chunk, n × m; NaN if float32 overflows."""

    def relax(self, points: Array, others: Array, plan: Array) -> tuple[Array32, ...] | None:
        """Features of a query's points for :meth:`relaxed_lower`, fitted where mass moves; None: the cost has none.

        ``others``, ``plan``: Points of some texts, and the mass that optimal plans move to them (n × m).
        """
        return None

    def relaxed_lower(self, features: tuple[torch.Tensor, ...], chunk: Chunk, work: Workspace) -> torch.Tensor:
        """Like :meth:`lower`, but cheaper and lower."""
        raise NotImplementedError

    def relaxed_matrix(self, features: tuple[Array32, ...], others: Array) -> Array:
        """What :meth:`relaxed_lower` computes, for points."""
        raise NotImplementedError


CostLike = str | GroundCost
_registered_costs: dict[str, GroundCost] = {}


def register_cost(cost: type[GroundCost]) -> type[GroundCost]:
    """Class decorator that registers a cost under its name."""
    _registered_costs[cost.name] = cost()
    return cost


def list_ground_costs() -> dict[str, GroundCost]:
    """All costs by name, in alphabetical order."""
    return dict(sorted(_registered_costs.items()))


def get_ground_cost(cost: CostLike) -> GroundCost:
    """The cost of this name; a GroundCost is returned unchanged.

    Raises ValueError with a similar name if there is none.
    """
    if isinstance(cost, GroundCost):
        return cost
    if cost not in _registered_costs:
        raise ValueError(f"unknown cost {cost!r}{did_you_mean(cost, list_ground_costs())}")
    return _registered_costs[cost]
