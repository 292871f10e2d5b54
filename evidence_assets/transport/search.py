"""Exact search for the k nearest texts of a pool, with few transport problems solved.

1. Solve the transport problems of a few evenly spaced texts. Their dual potentials u also fit the other texts.
2. Compute lower bounds of all texts (:mod:`.bounds`) in one pass over the pool, block by block, on all CPUs.
3. Visit texts in the order of their bounds. Compute the exact costs and a tighter bound from the potentials so far, and
   solve a text's problem if that bound does not exceed the k-th distance. Stop at the first text whose bound of
   step 2 exceeds the k-th distance: no later text can be nearer.

Pruned texts are provably farther than the k-th, so the result equals that of solving all texts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evidence_assets.models.inference import single_threaded_blas
from evidence_assets.models.vectors import Array

from .bounds import BoundPass, dual_bound
from .exact import solve_transport
from .ground_cost import CostLike, GroundCost, get_ground_cost
from .measure import TokenMeasure
from .pool import TextCollection

SEED_TEXTS = 16  # solved before the pass over the pool; more of them hardly tighten the bounds
MAX_POTENTIALS = 24  # potentials used for the tighter bound of a text
SLACK = 1e-10  # rounding error of bounds in float64; distances of the solver are exact to 1e-6


@dataclass(frozen=True, eq=False)
class NearestTexts:
    """The nearest texts by ascending distance, ties by position, and the number of exactly solved texts."""

    indices: NDArray[np.int64]
    distances: Array
    n_solved: int


class _Query:
    """State of one query: its tokens with mass, the exact distances and the potentials so far."""

    def __init__(self, measure: TokenMeasure, k: int, cost: GroundCost) -> None:
        masses = measure.masses
        has_mass = masses > 0
        self.points, self.masses = measure.points[has_mass], masses[has_mass] / masses[has_mass].sum()
        self.k, self.cost = k, cost
        self.distances: dict[int, float] = {}
        self.potentials: list[Array] = []
        self.max_distance = np.inf

    def visit(self, text: int, other: TokenMeasure, force: bool = False) -> None:
        """Solve a text unless its exact costs prove that it is not among the nearest."""
        b = other.masses
        has_mass = b > 0
        b, points = b[has_mass], other.points[has_mass]
        costs = self.cost.matrix(self.points, points)
        if not force and np.isfinite(self.max_distance):
            potentials = np.stack(self.potentials[-MAX_POTENTIALS:])
            if dual_bound(self.masses, b, costs, potentials) > self.max_distance + SLACK * (1 + abs(self.max_distance)):
                return
        solution = solve_transport(self.masses, b, costs)
        self.distances[text] = solution.value
        self.potentials.append(solution.potential)
        if len(self.distances) >= self.k:
            self.max_distance = float(np.partition(list(self.distances.values()), self.k - 1)[self.k - 1])

    def finish(self, bounds: Array, pool: TextCollection, temperature: float) -> NearestTexts:
        for text in np.argsort(bounds, kind="stable"):
            if bounds[text] > self.max_distance + SLACK * (1 + abs(self.max_distance)):
                break
            if int(text) not in self.distances:
                self.visit(int(text), pool.measure(int(text), self.cost, temperature))
        ranking = sorted(self.distances.items(), key=lambda item: (item[1], item[0]))[: self.k]
        indices = np.array([i for i, _ in ranking], dtype=np.int64)
        return NearestTexts(indices, np.array([d for _, d in ranking], dtype=np.float64), len(self.distances))


def count_processors() -> int:
    """Number of CPUs available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def find_nearest_texts(
    measures: Sequence[TokenMeasure],
    pool: TextCollection,
    k: int,
    cost: CostLike = "jsd",
    temperature: float = 1.0,
    threads: int | None = None,
    device: str = "cpu",
) -> list[NearestTexts]:
    """Find the exact k nearest texts of a pool for each query, by optimal transport cost.

    ``measures``: Queries as measures under the cost (such as the options of a question), which share the pass.
    ``pool``: A :class:`~.pool.TokenPool`, which may be memory-mapped, or other texts that are read in parts.
    ``k``: At least 1; a smaller pool returns all of its texts.
    ``cost``: The name of a registered cost (:mod:`.costs`) or a GroundCost; ``temperature`` is its T.
    ``threads``: Worker threads; default: all CPUs of this process.
    ``device``: ``cpu``, or a torch device such as ``cuda`` for the pass over the pool; results are the same.

    >>> from evidence_assets.transport import TokenPool
    >>> pool = TokenPool([[5.0], [0.0]], [0, 1, 2], [1, 1])
    >>> (nearest,) = find_nearest_texts([TokenMeasure([[1.0]], [1])], pool, 1, cost="euclidean")
    >>> nearest.indices.tolist(), nearest.distances.tolist()
    ([1], [1.0])
    """
    if k < 1:
        raise ValueError(f"k is {k}: it must be at least 1")
    ground = get_ground_cost(cost)
    queries = [_Query(measure, k, ground) for measure in measures]
    if not queries:
        return []
    if not len(pool):
        return [NearestTexts(np.empty(0, dtype=np.int64), np.empty(0), 0) for _ in queries]
    for q in queries:
        if q.points.shape[1] != pool.dimensions:
            raise ValueError(f"the query has {q.points.shape[1]} dimensions, but the pool has {pool.dimensions}")
    with single_threaded_blas():
        return _solve_nearest(queries, pool, ground, temperature, threads or count_processors(), device)


def _solve_nearest(
    queries: Sequence[_Query], pool: TextCollection, ground: GroundCost, temperature: float, threads: int, device: str
) -> list[NearestTexts]:
    seeds = np.unique(np.linspace(0, len(pool) - 1, min(SEED_TEXTS, len(pool))).astype(np.int64))
    for text in seeds:
        measure = pool.measure(int(text), ground, temperature)
        for q in queries:
            q.visit(int(text), measure, force=True)
    if len(seeds) == len(pool):
        bounds = [np.full(len(pool), -np.inf) for _ in queries]
    else:
        potentials = [np.mean(q.potentials, axis=0) for q in queries]
        bound_pass = BoundPass(ground, [q.points for q in queries], [q.masses for q in queries], potentials, device)
        bounds = bound_pass.run(pool, temperature, threads)
    return [q.finish(b, pool, temperature) for q, b in zip(queries, bounds, strict=True)]
