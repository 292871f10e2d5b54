"""Exact search for the k nearest texts of a pool, with few transport problems solved.

1. Solve the transport problems of a few texts, likely near ones if the caller knows them. Their dual potentials u also
   fit the other texts.
2. In a large pool, compute a bound of every text in one pass, block by block, on all CPUs: the relaxed bound of the
   cost (:meth:`~.ground_cost.GroundCost.relax`) if it has one, otherwise the bound from the mean potential.
3. Take groups of texts in the order of these bounds. Compute the lower bounds of all ground costs of a group, and from
   them the bounds of its texts by each potential (:class:`~.bounds.TextBounds`). Solve the texts with the least bounds
   first: each solution tightens the others. Stop where the least bound exceeds the k-th distance.

Pruned texts are provably farther than the k-th, so the result equals that of solving all texts. Texts are solved in
waves of a fixed size, so that all that is returned is the same for any number of threads.

Where the vectors are on a device (:mod:`.on_device`), step 2 is left out, and the device computes the bounds of all
texts and the costs of those that are solved. The nearest are solved again from the costs that the CPU computes, so that
the result is the same to the bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evidence_assets.models.inference import native_thread_pools, torch_threads
from evidence_assets.models.vectors import Array

from .bounds import BoundPass, TextBounds
from .exact import Solution, solve_transport
from .ground_cost import CostLike, GroundCost, get_ground_cost
from .measure import TokenMeasure
from .on_device import DeviceBounds, DevicePool
from .pool import IntArray, TextCollection

SEED_TEXTS = 16
MIN_SEED_TEXTS = 3  # solved before the pass over the pool; more of them hardly tighten the bounds
TEXTS_PER_SEED = 16  # in a small pool, more seeds would cost more than their bounds save
MIN_FILTERED_TEXTS = 1024  # in a smaller pool, bounds of all texts take less time than two passes
FIRST_TEXTS = 256
GROUP_TEXTS = 1024  # texts of the first group, after which the k-th distance is nearly final; others
WAVE_TEXTS = 4  # texts solved at a time, all with the bounds before them
SLACK = 1e-10  # rounding error of bounds in float64; distances of the solver are exact to 1e-6


def add_slack(distance: float) -> float:
    """A bound that exceeds this is of a greater distance."""
    return distance + SLACK * (1 + abs(distance))


@dataclass(frozen=True, eq=False)
class NearestTexts:
    """The nearest texts by ascending distance, ties by position, and the number of exactly solved texts.

    ``n_pruned``: Texts pruned by each bound: ``filter`` (step 2) and ``potentials`` (step 3).
    """

    indices: NDArray[np.int64]
    distances: Array
    n_solved: int
    n_pruned: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _SolvedText:
    """A solved text: its tokens with mass, and the solution; the points of a device stay there."""

    text: int
    points: Array
    masses: Array
    solution: Solution


class _Query:
    """State of one query: its tokens with mass, the exact distances and the potentials so far.

    ``limit``: A text with a greater lower bound is farther than the k-th.
    """

    def __init__(self, measure: TokenMeasure, k: int, likely: Sequence[int], limit: float) -> None:
        self.points, self.masses = measure.with_mass()
        self.k = k
        self.likely = likely
        self.distances: dict[int, float] = {}
        self.potentials: dict[int, Array] = {}
        self.limit = add_slack(limit)
        self.n_filtered = 0

    def add(self, solved: _SolvedText) -> None:
        self.distances[solved.text] = solved.solution.value
        self.potentials[solved.text] = solved.solution.potential
        if len(self.distances) >= self.k:
            kth = float(np.partition(list(self.distances.values()), self.k - 1)[self.k - 1])
            self.limit = min(self.limit, add_slack(kth))

    def nearest(self) -> list[int]:
        """The k nearest texts so far, ties by position."""
        return sorted(self.distances, key=lambda text: (self.distances[text], text))[: self.k]

    def result(self, n_texts: int) -> NearestTexts:
        nearest = self.nearest()
        distances = np.array([self.distances[text] for text in nearest], dtype=np.float64)
        n_solved = len(self.distances)
        pruned = {"filter": self.n_filtered, "potentials": n_texts - n_solved - self.n_filtered}
        return NearestTexts(np.array(nearest, dtype=np.int64), distances, n_solved, pruned)


def _open_queries(
    measures: Sequence[TokenMeasure], k: int, likely: Sequence[Sequence[int]] | None, limits: Sequence[float] | None
) -> list[_Query]:
    all_likely = likely or [()] * len(measures)
    all_limits = limits or [np.inf] * len(measures)
    fields = zip(measures, all_likely, all_limits, strict=True)
    return [_Query(measure, k, likely_texts, limit) for measure, likely_texts, limit in fields]


def count_processors() -> int:
    """Number of CPUs available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def find_nearest_texts(
    measures: Sequence[TokenMeasure],
    pool: TextCollection,
    k: int,
    cost: CostLike = "jsd",
    temperature: float = 1.0,
    threads: int | None = None,
    likely: Sequence[Sequence[int]] | None = None,
    limits: Sequence[float] | None = None,
) -> list[NearestTexts]:
    """Find the exact k nearest texts of a pool for each query, by optimal transport cost.

    ``measures``: Queries as measures under the cost (such as the options of a question), which share the pass.
    ``pool``: A :class:`~.pool.TokenPool`, which may be memory-mapped, other texts that are read in parts, or a
        :class:`~.on_device.DevicePool`.
    ``k``: At least 1; a smaller pool returns all of its texts.
    ``cost``: The name of a registered cost (:mod:`.costs`) or a GroundCost; ``temperature`` is its T > 0.
    ``threads``: Worker threads; default: all CPUs of this process, or none for a pool too small to gain from them.
    ``likely``: For each query, texts that are probably near, best first; they only save time.
    ``limits``: For each query, a distance that no returned text needs to exceed, such as the k-th of other texts: of a
        pool in groups, the k nearest are among those of each group within the k-th distance of the groups before.

    >>> from evidence_assets.transport import TokenPool
    >>> pool = TokenPool([[5.0], [0.0]], [0, 1, 2], [1, 1])
    >>> (nearest,) = find_nearest_texts([TokenMeasure([[1.0]], [1])], pool, 1, cost="euclidean")
    >>> nearest.indices.tolist(), nearest.distances.tolist()
    ([1], [1.0])
    """
    ground = get_ground_cost(cost)
    queries = _open_queries(measures, k, likely, limits)
    if not queries or not len(pool):
        return [query.result(0) for query in queries]
    is_small = len(pool) < MIN_FILTERED_TEXTS
    n_threads = threads or (1 if is_small else count_processors())
    make_search: type[_Search] = _DeviceSearch if isinstance(pool, DevicePool) else _Search
    if is_small and make_search is _Search:
        pool = pool.select(range(len(pool)))  # in memory, as texts are read again
    # Several threads of BLAS sum in another order; those of torch would wait for each other. Callers search small pools
    # in threads of their own, which must not change the number that torch keeps for all.
    with (
        nullcontext() if is_small and n_threads == 1 else torch_threads(1),
        native_thread_pools().limit(limits=1),
        ThreadPoolExecutor(n_threads) as executor,
    ):
        run = map if n_threads == 1 else executor.map
        search = make_search(ground, pool, temperature, n_threads, run)
        seeds = [search.solve_seeds(query) for query in queries]
        search.solve_nearest(queries, seeds)
    return [query.result(len(pool)) for query in queries]


@dataclass(frozen=True, eq=False)
class _Search:
    """A search of a pool, for several queries."""

    cost: GroundCost
    pool: TextCollection
    temperature: float
    threads: int
    map: Callable[..., Iterable[Any]]

    def solve_seeds(self, query: _Query) -> list[_SolvedText]:
        """Solve the first texts of a query: the likely nearest, or evenly spaced ones."""
        n_texts = len(self.pool)
        n_seeds = min(max(n_texts // TEXTS_PER_SEED, MIN_SEED_TEXTS), SEED_TEXTS, n_texts)
        spaced = np.unique(np.linspace(0, n_texts - 1, n_seeds).astype(np.int64)).tolist()
        return self._solve_all(query, list(query.likely[:n_seeds]) or spaced)

    def solve_nearest(self, queries: Sequence[_Query], seeds: Sequence[Sequence[_SolvedText]]) -> None:
        every_text = np.arange(len(self.pool))
        if all(q.k >= len(self.pool) for q in queries):
            for query in queries:
                self._solve_all(query, [i for i in every_text.tolist() if i not in query.distances])
        elif len(self.pool) < MIN_FILTERED_TEXTS:
            for query, text_bounds in zip(queries, self._text_bounds(queries, every_text), strict=True):
                self._search(query, every_text, text_bounds)
        else:
            bounds = self._filter_bounds(queries, seeds)
            if len(queries) < self.threads:
                list(map(self._search_by_filter, queries, bounds))
            else:  # each thread searches for a query of its own: sharing the steps of one query takes longer
                list(self.map(replace(self, threads=1, map=map)._search_by_filter, queries, bounds))

    def _search_by_filter(self, query: _Query, filter_bounds: Array) -> None:
        """Search groups of texts in the order of their first bounds."""
        order = np.argsort(filter_bounds, kind="stable")
        for start, end in pairwise([0, *range(FIRST_TEXTS, len(order), GROUP_TEXTS), len(order)]):
            group = np.sort(order[start:end])
            is_pruned = filter_bounds[group] > query.limit
            query.n_filtered += sum(text not in query.distances for text in group[is_pruned].tolist())
            if not is_pruned.all():
                (tight_bounds,) = self._text_bounds([query], group[~is_pruned])
                self._search(query, group[~is_pruned], tight_bounds)

    def _search(self, query: _Query, texts: IntArray, bounds: TextBounds | DeviceBounds) -> None:
        """Solve the texts with the least bounds until no other can be among the nearest."""
        for text in query.nearest():
            bounds.tighten(query.potentials[text])
        is_open = np.array([text not in query.distances for text in texts.tolist()])
        while True:
            order = np.argsort(np.where(is_open, bounds.values, np.inf), kind="stable")[:WAVE_TEXTS]
            wave = [i for i in order.tolist() if is_open[i] and bounds.values[i] <= query.limit]
            if not wave:
                break
            is_open[wave] = False
            for solved in self._solve_all(query, texts[wave].tolist()):
                bounds.tighten(solved.solution.potential)

    def _solve_all(self, query: _Query, texts: Sequence[int]) -> list[_SolvedText]:
        solved_texts = list(self.map(partial(self._solve, query), texts))
        for solved in solved_texts:
            query.add(solved)
        return solved_texts

    def _solve(self, query: _Query, text: int) -> _SolvedText:
        """Solve a text. Threads share the query, so this does not change it."""
        points, masses = self.pool.measure(text, self.cost, self.temperature).with_mass()
        solution = solve_transport(query.masses, masses, self.cost.matrix(query.points, points))
        return _SolvedText(text, points, masses, solution)

    def _filter_bounds(self, queries: Sequence[_Query], seeds: Sequence[Sequence[_SolvedText]]) -> list[Array]:
        """Bounds of all texts for each query, in one pass: relaxed ones, or those from the mean potential."""
        lower = self.cost.relaxed_lower
        features = []
        potentials = []
        for query, solved_texts in zip(queries, seeds, strict=True):
            plans = np.hstack([solved.solution.plan for solved in solved_texts])
            relaxed = self.cost.relax(query.points, np.concatenate([s.points for s in solved_texts]), plans)
            if relaxed is None:
                lower = self.cost.lower
                features = [self.cost.features(q.points) for q in queries]
                potentials = [np.mean(list(q.potentials.values()), axis=0) for q in queries]
                break
            features.append(relaxed)
            # potentials of the relaxed costs prune a twentieth more texts than those of the exact costs
            solutions = [
                solve_transport(query.masses, s.masses, self.cost.relaxed_matrix(relaxed, s.points))
                for s in solved_texts
            ]
            potentials.append(np.mean([solution.potential for solution in solutions], axis=0))
        masses = [query.masses for query in queries]
        options = (self.temperature, self.threads)
        return BoundPass(self.cost, lower, features, masses, potentials, *options).run(self.pool)

    def _text_bounds(self, queries: Sequence[_Query], texts: IntArray) -> list[TextBounds]:
        features = [self.cost.features(query.points) for query in queries]
        masses = [query.masses for query in queries]
        options = (self.temperature, self.threads)
        return BoundPass(self.cost, self.cost.lower, features, masses, (), *options).text_bounds(self.pool, texts)


@dataclass(frozen=True, eq=False)
class _DeviceSearch(_Search):
    """A search of texts whose vectors are on a device, which computes their costs and bounds."""

    pool: DevicePool

    def solve_nearest(self, queries: Sequence[_Query], seeds: Sequence[Sequence[_SolvedText]]) -> None:
        for query in queries:
            bounds = DeviceBounds(self.pool, self.cost, query.points, query.masses, self.temperature)
            self._search(query, np.arange(len(self.pool)), bounds)
            within = [text for text, distance in query.distances.items() if distance <= query.limit]
            for solved in self.map(partial(super()._solve, query), within):
                query.distances[solved.text] = solved.solution.value

    def _solve(self, query: _Query, text: int) -> _SolvedText:
        masses, costs = self.pool.costs(text, self.cost, query.points, self.temperature)
        return _SolvedText(text, query.points[:0], masses, solve_transport(query.masses, masses, costs))
