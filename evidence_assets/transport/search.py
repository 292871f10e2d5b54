"""The exact k nearest texts of a pool, almost none of which are solved.

1. A few texts, evenly spread, are solved: their dual potentials u fit the other texts of the pool nearly as well.
2. One pass over the pool bounds every text from below (:mod:`.bounds`), block by block, on all processors.
3. Texts are taken in the order of their bounds. Each gets its exact costs and a sharper bound from the potentials
   solved so far, and is solved if that bound does not exceed the k-th distance found. The first text whose bound of
   step 2 exceeds it ends the search: no later one can be nearer.

What is left out is proved to be farther than the k-th, so the answer is that of solving everything.
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

SEED_TEXTS = 16  # texts solved before the pass; more sharpen the bounds little
MAX_POTENTIALS = 24  # potentials tried on a text before it is solved
SLACK = 1e-10  # what float64 may lose in a bound; distances are equal to 1e-6


@dataclass(frozen=True, eq=False)
class NearestTexts:
    """The nearest texts, ascending by distance, ties by position, and how many needed an exact solve."""

    indices: NDArray[np.int64]
    distances: Array
    n_solved: int


class _Query:
    """One query during a search: its tokens with mass, what was solved and the potentials found."""

    def __init__(self, measure: TokenMeasure, k: int, cost: GroundCost) -> None:
        masses = measure.masses
        kept = masses > 0
        self.points, self.masses = measure.points[kept], masses[kept] / masses[kept].sum()
        self.k, self.cost = k, cost
        self.found: dict[int, float] = {}
        self.potentials: list[Array] = []
        self.reach = np.inf

    def visit(self, text: int, other: TokenMeasure, always: bool = False) -> None:
        """Solve a text unless a bound from its exact costs shows that it cannot be among the nearest."""
        b = other.masses
        kept = b > 0
        b, points = b[kept], other.points[kept]
        costs = self.cost.matrix(self.points, points)
        if not always and np.isfinite(self.reach):
            tried = np.stack(self.potentials[-MAX_POTENTIALS:])
            if dual_bound(self.masses, b, costs, tried) > self.reach + SLACK * (1 + abs(self.reach)):
                return
        solution = solve_transport(self.masses, b, costs)
        self.found[text] = solution.value
        self.potentials.append(solution.potential)
        if len(self.found) >= self.k:
            self.reach = float(np.partition(list(self.found.values()), self.k - 1)[self.k - 1])

    def finish(self, bounds: Array, pool: TextCollection, temperature: float) -> NearestTexts:
        for text in np.argsort(bounds, kind="stable"):
            if bounds[text] > self.reach + SLACK * (1 + abs(self.reach)):
                break
            if int(text) not in self.found:
                self.visit(int(text), pool.measure(int(text), self.cost, temperature))
        ranked = sorted(self.found.items(), key=lambda item: (item[1], item[0]))[: self.k]
        indices = np.array([i for i, _ in ranked], dtype=np.int64)
        return NearestTexts(indices, np.array([d for _, d in ranked], dtype=np.float64), len(self.found))


def count_processors() -> int:
    """Processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def find_nearest_texts(
    asked: Sequence[TokenMeasure],
    pool: TextCollection,
    k: int,
    cost: CostLike = "jsd",
    temperature: float = 1.0,
    threads: int | None = None,
    device: str = "cpu",
) -> list[NearestTexts]:
    """Exact k nearest texts of a pool for each query, under the optimal transport cost.

    ``asked``: Queries as measures under the cost, which share the work on the pool (the options of a question).
    ``pool``: A :class:`~.pool.TokenPool`, which may be memory-mapped, or other texts, which are read part by part.
    ``k``: At least 1; a pool that holds fewer gives all of its texts.
    ``cost``: The name of a registered cost (:mod:`.costs`), or a cost of one's own; ``temperature`` its T.
    ``threads``: Worker threads; all processors of this process if not given.
    ``device``: ``cpu``, or a torch device such as ``cuda`` for the pass over the pool; results are the same.

    >>> from evidence_assets.transport import TokenPool
    >>> pool = TokenPool([[5.0], [0.0]], [0, 1, 2], [1, 1])
    >>> (nearest,) = find_nearest_texts([TokenMeasure([[1.0]], [1])], pool, 1, cost="euclidean")
    >>> nearest.indices.tolist(), nearest.distances.tolist()
    ([1], [1.0])
    """
    if k < 1:
        raise ValueError(f"k is {k}: ask for at least one text")
    ground = get_ground_cost(cost)
    queries = [_Query(m, k, ground) for m in asked]
    if not queries:
        return []
    if not len(pool):
        return [NearestTexts(np.empty(0, dtype=np.int64), np.empty(0), 0) for _ in queries]
    for q in queries:
        if q.points.shape[1] != pool.dimensions:
            raise ValueError(f"the query's points have {q.points.shape[1]} dimensions, the pool's {pool.dimensions}")
    with single_threaded_blas():
        return _solve_nearest(queries, pool, ground, temperature, threads or count_processors(), device)


def _solve_nearest(
    queries: Sequence[_Query], pool: TextCollection, ground: GroundCost, temperature: float, threads: int, device: str
) -> list[NearestTexts]:
    seeds = np.unique(np.linspace(0, len(pool) - 1, min(SEED_TEXTS, len(pool))).astype(np.int64))
    for text in seeds:
        measure = pool.measure(int(text), ground, temperature)
        for q in queries:
            q.visit(int(text), measure, always=True)
    if len(seeds) == len(pool):
        bounds = [np.full(len(pool), -np.inf) for _ in queries]
    else:
        potentials = [np.mean(q.potentials, axis=0) for q in queries]
        reading = BoundPass(ground, [q.points for q in queries], [q.masses for q in queries], potentials, device)
        bounds = reading.run(pool, temperature, threads)
    return [q.finish(b, pool, temperature) for q, b in zip(queries, bounds, strict=True)]
