"""Exact search for the k nearest texts of a pool, with few transport problems solved.

1. Solve the transport problems of a few texts, likely near ones if the caller knows them. Their dual potentials u also
   fit the other texts.
2. In a large pool, if the cost has a relaxed bound (:meth:`~.ground_cost.GroundCost.relax`), compute it for all texts.
   Do steps 3 and 4 for the few texts where it is least, so that the k-th distance is nearly final, and then for the
   other texts whose relaxed bounds do not exceed it.
3. Compute tight lower bounds of the texts (:mod:`.bounds`) in one pass, block by block, on all CPUs.
4. Visit texts in the order of their bounds. Compute the exact costs and a tighter bound from the potentials so far, and
   solve a text's problem if that bound does not exceed the k-th distance. Stop at the first text whose bound of
   step 3 exceeds the k-th distance: no later text can be nearer.

Pruned texts are provably farther than the k-th, so the result equals that of solving all texts. Texts are visited in
waves of a fixed size, so that all that is returned is the same for any number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from evidence_assets.models.inference import single_threaded_blas
from evidence_assets.models.vectors import Array

from .bounds import BoundPass, LowerBound, dual_bound
from .exact import Solution, TokenPair, solve_transport, strongest_pairs
from .ground_cost import Array32, CostLike, GroundCost, get_ground_cost
from .measure import TokenMeasure
from .pool import IntArray, TextCollection

SEED_TEXTS, MIN_SEED_TEXTS = 16, 3  # solved before the pass over the pool; more of them hardly tighten the bounds
TEXTS_PER_SEED = 16  # in a small pool, more seeds would cost more than their bounds save
MAX_POTENTIALS = 24  # potentials used for the tighter bound of a text
MIN_RELAXED_TEXTS = 1024  # in a smaller pool, tight bounds of all texts take less time than two passes
FIRST_TEXTS = 256  # texts with the least relaxed bounds, which are searched first
WAVE_TEXTS = 8  # texts visited at a time, all with the k-th distance before them
SLACK = 1e-10  # rounding error of bounds in float64; distances of the solver are exact to 1e-6


@dataclass(frozen=True, eq=False)
class NearestTexts:
    """The nearest texts by ascending distance, ties by position, and the number of exactly solved texts.

    ``pairs``: The strongest token pairs of each text's plan, if they were requested.
    ``n_pruned``: Texts pruned by each bound: ``relaxed``, ``tokens`` (tight bounds) and ``costs`` (exact costs).
    """

    indices: NDArray[np.int64]
    distances: Array
    n_solved: int
    pairs: Sequence[Sequence[TokenPair]] = ()
    n_pruned: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Visit:
    """A visited text: its tokens with mass, and the solution and its strongest pairs unless it was pruned."""

    text: int
    points: Array
    masses: Array
    solution: Solution | None = None
    pairs: Sequence[TokenPair] = ()


VisitMap = Callable[[Callable[[int], _Visit], Iterable[int]], Iterable[_Visit]]
"""``map`` over texts, in parallel or not."""


class _Query:
    """State of one query: its tokens with mass, the exact distances and the potentials so far.

    ``tokens``: The numbers of the tokens with mass.
    ``limit``: A text with a greater lower bound is farther than the k-th.
    """

    def __init__(self, measure: TokenMeasure, k: int, cost: GroundCost, n_pairs: int) -> None:
        masses = measure.masses
        has_mass = masses > 0
        self.points, self.masses = measure.points[has_mass], masses[has_mass] / masses[has_mass].sum()
        self.k, self.cost, self.tokens = k, cost, np.flatnonzero(has_mass)
        self.n_pairs, self.pairs = n_pairs, dict[int, Sequence[TokenPair]]()
        self.distances: dict[int, float] = {}
        self.potentials: dict[int, Array] = {}
        self.limit = np.inf
        self.pruned_by_relaxed = self.pruned_by_costs = 0

    def visit(self, text: int, other: TokenMeasure, force: bool = False) -> _Visit:
        """Solve a text unless its exact costs prove that it is not among the nearest. Does not change the state."""
        b = other.masses
        has_mass = b > 0
        b, points = b[has_mass], other.points[has_mass]
        costs = self.cost.matrix(self.points, points)
        if not force and np.isfinite(self.limit):
            potentials = np.stack(list(islice(reversed(self.potentials.values()), MAX_POTENTIALS)))
            if dual_bound(self.masses, b, costs, potentials) > self.limit:
                return _Visit(text, points, b)
        solution = solve_transport(self.masses, b, costs)
        pairs: list[TokenPair] = []
        if self.n_pairs and solution.value <= self.limit:
            targets = np.flatnonzero(has_mass)
            pairs = [
                TokenPair(int(self.tokens[p.source]), int(targets[p.target]), p.mass, p.cost)
                for p in strongest_pairs(solution.plan, costs, self.n_pairs)
            ]
        return _Visit(text, points, b, solution, pairs)

    def add(self, visit: _Visit) -> None:
        if visit.solution is None:
            self.pruned_by_costs += 1
            return
        self.distances[visit.text] = visit.solution.value
        self.potentials[visit.text] = visit.solution.potential
        self.pairs[visit.text] = visit.pairs
        if len(self.distances) >= self.k:
            kth = float(np.partition(list(self.distances.values()), self.k - 1)[self.k - 1])
            self.limit = kth + SLACK * (1 + abs(kth))

    def nearest(self) -> list[int]:
        """The k nearest texts so far, ties by position."""
        return sorted(self.distances, key=lambda text: (self.distances[text], text))[: self.k]

    def result(self, n_texts: int) -> NearestTexts:
        nearest = self.nearest()
        distances = np.array([self.distances[text] for text in nearest], dtype=np.float64)
        pairs = [self.pairs[text] for text in nearest] if self.n_pairs else []
        pruned = {"relaxed": self.pruned_by_relaxed, "costs": self.pruned_by_costs}
        pruned["tokens"] = n_texts - len(self.distances) - sum(pruned.values())
        return NearestTexts(np.array(nearest, dtype=np.int64), distances, len(self.distances), pairs, pruned)


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
    likely: Sequence[Sequence[int]] | None = None,
    n_pairs: int = 0,
) -> list[NearestTexts]:
    """Find the exact k nearest texts of a pool for each query, by optimal transport cost.

    ``measures``: Queries as measures under the cost (such as the options of a question), which share the pass.
    ``pool``: A :class:`~.pool.TokenPool`, which may be memory-mapped, or other texts that are read in parts.
    ``k``: At least 1; a smaller pool returns all of its texts.
    ``cost``: The name of a registered cost (:mod:`.costs`) or a GroundCost; ``temperature`` is its T.
    ``threads``: Worker threads; default: all CPUs of this process.
    ``device``: ``cpu``, or a torch device such as ``cuda`` for the pass over the pool; results are the same.
    ``likely``: For each query, texts that are probably near, best first; they only save time.
    ``n_pairs``: Number of strongest token pairs to return for each text (:func:`~.exact.find_strongest_pairs`).

    >>> from evidence_assets.transport import TokenPool
    >>> pool = TokenPool([[5.0], [0.0]], [0, 1, 2], [1, 1])
    >>> (nearest,) = find_nearest_texts([TokenMeasure([[1.0]], [1])], pool, 1, cost="euclidean")
    >>> nearest.indices.tolist(), nearest.distances.tolist()
    ([1], [1.0])
    """
    if k < 1:
        raise ValueError(f"k is {k}: it must be at least 1")
    ground = get_ground_cost(cost)
    queries = [_Query(measure, k, ground, n_pairs) for measure in measures]
    if not queries or not len(pool):
        return [query.result(0) for query in queries]
    for q in queries:
        if q.points.shape[1] != pool.dimensions:
            raise ValueError(f"the query has {q.points.shape[1]} dimensions, but the pool has {pool.dimensions}")
    n_threads = threads or count_processors()
    with single_threaded_blas(), _visit_map(n_threads) as map_visits:
        search = _Search(ground, pool, temperature, n_threads, device, map_visits)
        seeds = [search.solve_seeds(q, likely[i] if likely else ()) for i, q in enumerate(queries)]
        search.solve_nearest(queries, seeds)
    return [query.result(len(pool)) for query in queries]


@contextmanager
def _visit_map(threads: int) -> Iterator[VisitMap]:
    if threads == 1:
        yield map
        return
    with ThreadPoolExecutor(threads) as executor:
        yield executor.map


@dataclass(frozen=True, eq=False)
class _Search:
    """A search of a pool, for several queries."""

    cost: GroundCost
    pool: TextCollection
    temperature: float
    threads: int
    device: str
    map_visits: VisitMap

    def solve_seeds(self, query: _Query, likely: Sequence[int]) -> list[_Visit]:
        """Solve the first texts of a query: the likely nearest, or evenly spaced ones."""
        n_texts = len(self.pool)
        n_seeds = min(max(n_texts // TEXTS_PER_SEED, MIN_SEED_TEXTS), SEED_TEXTS, n_texts)
        spaced = np.unique(np.linspace(0, n_texts - 1, n_seeds).astype(np.int64)).tolist()
        return self._visit_all(query, list(likely[:n_seeds]) or spaced, force=True)

    def solve_nearest(self, queries: Sequence[_Query], seeds: Sequence[Sequence[_Visit]]) -> None:
        every_text = np.arange(len(self.pool))
        if all(q.k >= len(self.pool) for q in queries):
            for query in queries:
                self._search(query, every_text, np.full(len(self.pool), -np.inf))
            return
        relaxed = self._relaxed_bounds(queries, seeds) if len(self.pool) >= MIN_RELAXED_TEXTS else None
        if relaxed is None:
            potentials = [np.mean(list(q.potentials.values()), axis=0) for q in queries]
            for query, bounds in zip(queries, self._tight_bounds(queries, potentials, every_text), strict=True):
                self._search(query, every_text, bounds)
            return
        for query, bounds in zip(queries, relaxed, strict=True):
            order = np.argsort(bounds, kind="stable")
            self._search_tightly(query, np.sort(order[:FIRST_TEXTS]))
            others = order[FIRST_TEXTS:]
            is_pruned = bounds[others] > query.limit
            query.pruned_by_relaxed = sum(text not in query.distances for text in others[is_pruned].tolist())
            self._search_tightly(query, np.sort(others[~is_pruned]))

    def _search_tightly(self, query: _Query, texts: IntArray) -> None:
        if len(texts):
            potential = np.mean([query.potentials[text] for text in query.nearest()], axis=0)
            (bounds,) = self._tight_bounds([query], [potential], texts)
            self._search(query, texts, bounds)

    def _search(self, query: _Query, texts: IntArray, bounds: Array) -> None:
        """Visit texts in the order of their bounds until no later one can be among the nearest."""
        order = iter([i for i in np.argsort(bounds, kind="stable").tolist() if int(texts[i]) not in query.distances])
        while wave := [int(texts[i]) for i in islice(order, WAVE_TEXTS) if not bounds[i] > query.limit]:
            self._visit_all(query, wave)

    def _visit_all(self, query: _Query, texts: Sequence[int], force: bool = False) -> list[_Visit]:
        visits = list(self.map_visits(partial(self._visit, query, force=force), texts))
        for visit in visits:
            query.add(visit)
        return visits

    def _visit(self, query: _Query, text: int, force: bool) -> _Visit:
        return query.visit(text, self.pool.measure(text, self.cost, self.temperature), force)

    def _relaxed_bounds(self, queries: Sequence[_Query], seeds: Sequence[Sequence[_Visit]]) -> list[Array] | None:
        """Relaxed bounds of all texts for each query; None if the cost has none."""
        features, potentials = [], []
        for query, visits in zip(queries, seeds, strict=True):
            plans = [visit.solution.plan for visit in visits if visit.solution]
            relaxed = self.cost.relax(query.points, np.concatenate([v.points for v in visits]), np.hstack(plans))
            if relaxed is None:
                return None
            features.append(relaxed)
            # potentials of the relaxed costs prune a twentieth more texts than those of the exact costs
            solutions = [
                solve_transport(query.masses, v.masses, self.cost.relaxed_matrix(relaxed, v.points)) for v in visits
            ]
            potentials.append(np.mean([solution.potential for solution in solutions], axis=0))
        return self._bounds(queries, self.cost.relaxed_lower, features, potentials, np.arange(len(self.pool)))

    def _tight_bounds(self, queries: Sequence[_Query], potentials: Sequence[Array], texts: IntArray) -> list[Array]:
        features = [self.cost.features(query.points) for query in queries]
        return self._bounds(queries, self.cost.lower, features, potentials, texts)

    def _bounds(
        self,
        queries: Sequence[_Query],
        lower: LowerBound,
        features: Sequence[tuple[Array32, ...]],
        potentials: Sequence[Array],
        texts: IntArray,
    ) -> list[Array]:
        masses = [query.masses for query in queries]
        bound_pass = BoundPass(self.cost, lower, features, masses, potentials, self.device)
        return bound_pass.run(self.pool, self.temperature, self.threads, texts)
