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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import overload

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from .bounds import BlockBounds, dual_bound, query_features, text_bounds
from .costs import Cost, cost_matrix
from .device import DevicePass
from .exact import solve
from .measure import TokenMeasure
from .pool import TokenPool

__all__ = ["TopK", "top_k"]

Array = NDArray[np.float64]
SEEDS = 16  # texts solved before the pass; more sharpen the bounds little
KEPT_POTENTIALS = 24  # potentials tried on a text before it is solved
BLOCK_TOKENS = 768  # rows of a block: its features stay in the second-level cache
SLACK = 1e-10  # what float64 may lose in a bound; distances are equal to 1e-6


@dataclass(frozen=True, eq=False)
class TopK:
    """The nearest texts, ascending by distance, ties by position, and how many needed an exact solve."""

    indices: NDArray[np.int64]
    distances: Array
    solved: int


class _Query:
    """One query during a search: its tokens with mass, what was solved and the potentials found."""

    def __init__(self, measure: TokenMeasure, k: int, cost: Cost) -> None:
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
        costs = cost_matrix(self.points, points, self.cost)
        if not always and np.isfinite(self.reach):
            tried = np.stack(self.potentials[-KEPT_POTENTIALS:])
            if dual_bound(self.masses, b, costs, tried) > self.reach + SLACK * (1 + abs(self.reach)):
                return
        solution = solve(self.masses, b, costs)
        self.found[text] = solution.value
        self.potentials.append(solution.potential)
        if len(self.found) >= self.k:
            self.reach = float(np.partition(list(self.found.values()), self.k - 1)[self.k - 1])

    def finish(self, bounds: Array, pool: TokenPool) -> TopK:
        for text in np.argsort(bounds, kind="stable"):
            if bounds[text] > self.reach + SLACK * (1 + abs(self.reach)):
                break
            if int(text) not in self.found:
                self.visit(int(text), pool.measure(int(text)))
        ranked = sorted(self.found.items(), key=lambda item: (item[1], item[0]))[: self.k]
        indices = np.array([i for i, _ in ranked], dtype=np.int64)
        return TopK(indices, np.array([d for _, d in ranked], dtype=np.float64), len(self.found))


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def processors() -> int:
    """Processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _pass(queries: list[_Query], pool: TokenPool, threads: int, device: str) -> list[Array]:
    """Lower bounds of every text for every query: the pool is read once for all of them."""
    cost = queries[0].cost
    assert not callable(cost)
    features = query_features(np.concatenate([q.points for q in queries]), cost)
    edges = np.concatenate([[0], np.cumsum([len(q.points) for q in queries])])
    potentials = [np.stack([np.mean(q.potentials, axis=0)]) for q in queries]
    masses = pool.masses()
    if device != "cpu":
        sides = [q.masses for q in queries]
        return DevicePass(features, edges, device).run(pool, masses, sides, [p[0] for p in potentials])
    bounds = [np.empty(len(pool)) for _ in queries]
    blocks = list(pool.blocks(BLOCK_TOKENS))
    rows = max(int(pool.offsets[b] - pool.offsets[a]) for a, b in blocks)

    def work(share: list[tuple[int, int]]) -> None:
        # Blocks are the unit of parallel work, so libraries must not start threads of their own inside one.
        with _controller().limit(limits=1):
            kernel = BlockBounds(features, rows, pool.vectors.shape[1])
            for first, last in share:
                low, high = int(pool.offsets[first]), int(pool.offsets[last])
                weight = masses[low:high]
                kept = np.flatnonzero(weight > 0)  # tokens without mass move nothing
                starts = np.searchsorted(kept, pool.offsets[first:last] - low)
                vectors = pool.vectors[low:high][kept]
                factors = None if pool.factors is None else pool.factors[low:high][kept]
                costs = kernel.costs(vectors, factors)
                for q, query in enumerate(queries):
                    part = costs[edges[q] : edges[q + 1]]
                    bounds[q][first:last] = text_bounds(part, query.masses, weight[kept], starts, potentials[q])

    if threads == 1 or len(blocks) == 1:
        work(blocks)
        return bounds
    with ThreadPoolExecutor(threads) as executor:
        list(executor.map(work, [blocks[i::threads] for i in range(threads)]))
    return bounds


@overload
def top_k(
    query: TokenMeasure,
    pool: TokenPool | Sequence[TokenMeasure],
    k: int,
    cost: Cost = ...,
    threads: int | None = ...,
    device: str = ...,
) -> TopK: ...
@overload
def top_k(
    query: Sequence[TokenMeasure],
    pool: TokenPool | Sequence[TokenMeasure],
    k: int,
    cost: Cost = ...,
    threads: int | None = ...,
    device: str = ...,
) -> list[TopK]: ...


def top_k(
    query: TokenMeasure | Sequence[TokenMeasure],
    pool: TokenPool | Sequence[TokenMeasure],
    k: int,
    cost: Cost = "jsd",
    threads: int | None = None,
    device: str = "cpu",
) -> TopK | list[TopK]:
    """Exact k nearest texts of a pool under the optimal transport cost.

    Parameters
    ----------
    query
        One measure, or several that share the work on the pool (the options of a question).
    pool
        A :class:`~.pool.TokenPool`, which may be memory-mapped, or measures.
    k
        At least 1; a pool that holds fewer gives all of its texts.
    cost
        ``jsd``, ``cosine``, ``euclidean`` or a function of two arrays of points that gives their cost matrix.
    threads
        Worker threads; all processors of this process if not given.
    device
        ``cpu``, or a torch device such as ``cuda`` for the pass over the pool; results are the same.

    Examples
    --------
    >>> near, far = TokenMeasure([[0.0]], [1]), TokenMeasure([[5.0]], [1])
    >>> found = top_k(TokenMeasure([[1.0]], [1]), [far, near], 1, cost="euclidean")
    >>> found.indices.tolist(), found.distances.tolist()
    ([1], [1.0])
    """
    if k < 1:
        raise ValueError(f"k is {k}: ask for at least one text")
    if not callable(cost) and cost not in ("jsd", "cosine", "euclidean"):
        raise ValueError(f"cost {cost!r} is unknown: give jsd, cosine, euclidean or a function of two arrays")
    store = pool if isinstance(pool, TokenPool) else TokenPool.from_measures(pool)
    queries = [_Query(m, k, cost) for m in ([query] if isinstance(query, TokenMeasure) else query)]
    if not queries:
        return []
    if not len(store):
        nothing = [TopK(np.empty(0, dtype=np.int64), np.empty(0), 0) for _ in queries]
        return nothing[0] if isinstance(query, TokenMeasure) else nothing
    for q in queries:
        if not callable(cost) and q.points.shape[1] != store.vectors.shape[1]:
            raise ValueError(
                f"the query's points have {q.points.shape[1]} dimensions, the pool's {store.vectors.shape[1]}"
            )
    seeds = np.unique(np.linspace(0, len(store) - 1, min(SEEDS, len(store))).astype(np.int64))
    for text in seeds:
        measure = store.measure(int(text))
        for q in queries:
            q.visit(int(text), measure, always=True)
    if callable(cost) or len(seeds) == len(store):
        bounds = [np.full(len(store), -np.inf) for _ in queries]
    else:
        bounds = _pass(queries, store, threads or processors(), device)
    results = [q.finish(b, store) for q, b in zip(queries, bounds, strict=True)]
    return results[0] if isinstance(query, TokenMeasure) else results
