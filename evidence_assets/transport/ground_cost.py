"""What a ground cost is, and the register of all that there are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from evidence_assets.models.vectors import Array
from evidence_assets.text.spelling import closest_name

from .measure import TokenMeasure

Array32 = NDArray[np.float32]
ROUNDING_UNIT = 2.0**-24
"""Greatest relative error of one rounding to float32."""


def sum_error(terms: int) -> float:
    """Greatest relative error of a float32 sum of so many products."""
    return terms * ROUNDING_UNIT / (1 - terms * ROUNDING_UNIT)


class Workspace:
    """Memory for one block of pool rows on one device, allocated once, and the functions that are fastest there.

    ``tokens``, ``rows``, ``width``: Query tokens, the most rows of a block, and dimensions.
    ``by_numpy``: Whether these functions are numpy's, as on a processor if not given: exp, cos and sin take it a third
        of torch's time.
    """

    def __init__(self, tokens: int, rows: int, width: int, device: torch.device, by_numpy: bool | None = None) -> None:
        self.tokens, self.device = tokens, device
        self._numpy = device.type == "cpu" if by_numpy is None else by_numpy
        self._rows = torch.empty((3, rows, width), dtype=torch.float32, device=device)
        self._products = torch.empty((3, tokens * rows), dtype=torch.float32, device=device)

    def rows(self, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Room for a block of ``count`` rows, three times; its points come in the first."""
        first, second, third = self._rows[:, :count]
        return first, second, third

    def products(self, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Room for a number for each query token and row, three times."""
        first, second, third = self._products[:, : self.tokens * count].view(3, self.tokens, count)
        return first, second, third

    def apply(self, name: Literal["exp", "cos", "sin"], x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """The function of that name of each number of ``x``, written to ``out``."""
        if self._numpy:
            with np.errstate(all="ignore"):
                getattr(np, name)(x.numpy(), out=out.numpy())
        else:
            getattr(torch, name)(x, out=out)
        return out

    def product(self, feature: torch.Tensor, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Inner products of a feature of each query token with each row of ``x``, written to ``out``."""
        if self._numpy:
            with np.errstate(all="ignore"):
                np.matmul(feature.numpy(), x.numpy().T, out=out.numpy())
        else:
            torch.mm(feature, x.T, out=out)
        return out


class GroundCost(ABC):
    r"""What it costs to move one unit of mass from a token of one text to a token of another.

    A cost has three parts: the points that are compared (:meth:`vectors`, :meth:`factors`, :meth:`points`), their exact
    matrix in float64, and a lower bound of it in float32 (:meth:`features`, :meth:`lower`), by which the search leaves
    out texts unsolved. Its docstring states the formula and why the bound is one.

    ``name``: What settings call it.
    ``symmetric``: Whether C(x, y) = C(y, x).
    ``zero_on_itself``: Whether C(x, x) = 0 for every x that is not a zero vector.
    ``layers``: Hidden layers of the encoder that a token's vector is made of; 0 for the vectors that the encoder gives.
    ``weighting``: How tokens must be weighted, where the cost is defined with that alone.
    """

    name: ClassVar[str]
    symmetric: ClassVar[bool] = True
    zero_on_itself: ClassVar[bool] = True
    layers: ClassVar[int] = 0
    weighting: ClassVar[str | None] = None

    def vectors(self, layers: Array) -> Array:
        """Vectors of tokens from their hidden layers (tokens × layers × d), where :attr:`layers` asks for some."""
        return layers[:, -1]

    def factors(self, weights: Array, temperature: float) -> Array | None:
        """If given, the point of a token is made of factor · vector (:meth:`points`); else it is the vector."""
        return None

    def points(self, scaled: Array) -> Array:
        """Points of tokens from their vectors times :meth:`factors`."""
        return scaled

    def measure(self, vectors: ArrayLike, weights: ArrayLike, temperature: float = 1.0) -> TokenMeasure:
        """A text as a measure under this cost: its points, and its weights (BM25, idf …) as masses."""
        text = TokenMeasure(vectors, weights)
        factors = self.factors(text.weights, temperature)
        return text if factors is None else TokenMeasure(self.points(text.points * factors[:, None]), text.weights)

    @abstractmethod
    def matrix(self, x: Array, y: Array) -> Array:
        """Exact cost of each point of ``x`` to each of ``y``, n × m, in float64."""

    def features(self, points: Array) -> tuple[Array32, ...]:
        """What :meth:`lower` needs of a query's points: arrays of one row a token, made once in float64."""
        return ()

    def lower(
        self, features: tuple[torch.Tensor, ...], x: torch.Tensor, factors: torch.Tensor | None, work: Workspace
    ) -> torch.Tensor:
        """Lower bounds of the costs between the query's tokens and a block of rows, n × m, NaN where float32 gave up.

        ``x`` are the vectors of the rows, which may be overwritten, ``factors`` those of :meth:`factors` for them.
        Where a cost states no bound, every text is solved exactly.
        """
        return work.products(len(x))[0].fill_(-torch.inf)


CostLike = str | GroundCost
_REGISTERED: dict[str, GroundCost] = {}


def register_cost(cost: type[GroundCost]) -> type[GroundCost]:
    """Make a cost known by its name; a decorator of its class."""
    _REGISTERED[cost.name] = cost()
    return cost


def list_ground_costs() -> dict[str, GroundCost]:
    """All costs by their names, in the order of these."""
    return dict(sorted(_REGISTERED.items()))


def get_ground_cost(cost: CostLike) -> GroundCost:
    """The cost of that name; a cost itself is handed through.

    Raises ValueError where there is none: it names the one whose name is most like it.
    """
    if isinstance(cost, GroundCost):
        return cost
    if cost not in _REGISTERED:
        near = closest_name(cost, _REGISTERED)
        raise ValueError(f"there is no cost {cost!r}; known: {', '.join(list_ground_costs())}; did you mean {near!r}?")
    return _REGISTERED[cost]
