"""A graph of a million nodes and ten million edges: build, open, expand; against the same rule in plain Python.

Every neighbourhood (3 hops, hub cap, edges among what was found) is checked: its nodes against the plain expansion for
the first seeds, its edges against a look at all edges of the graph. Seeds are drawn twice: evenly over the nodes, and
by degree, as the concepts of questions are rather hubs. Wall time is what is asked for; processor time is printed
beside it, for a machine that others use as well.

Run: python bench/bench_graph.py [--nodes 1000000 --edges 10000000 --questions 100]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from evidence_assets.graphs.arrays import GraphArrays

HOPS = 3
CHECKED = 5
"""Neighbourhoods of each draw that are worked out in plain Python as well."""


def hub_graph(n_nodes: int, n_edges: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges whose tails follow a power law, so that a few hubs touch a large share of all edges."""
    heads = rng.integers(0, n_nodes, n_edges, dtype=np.int32)
    tails = (n_nodes * rng.random(n_edges) ** 3).astype(np.int32)
    return heads, rng.integers(0, 15, n_edges, dtype=np.int32), rng.permutation(n_nodes).astype(np.int32)[tails]


def expand_in_python(graph: GraphArrays, seeds: list[int], cap: int, score: np.ndarray) -> set[int]:
    """The same rule, one node at a time: the baseline, and the check of the result."""
    visited, frontier = set(seeds), set(seeds)
    for _ in range(HOPS):
        new: set[int] = set()
        for node in frontier:
            row = graph.neighbours[graph.offsets[node] : graph.offsets[node + 1]].tolist()
            fresh = sorted({other for other in row if other not in visited}, key=lambda other: (-score[other], other))
            new.update(fresh[:cap])
        visited |= new
        frontier = new
    return visited


def measure(graph: GraphArrays, name: str, sample: np.ndarray, cap: int, score: np.ndarray) -> None:
    """Time the neighbourhood of each row of seeds, and print what it took."""
    ours, busy, theirs, pairs, sizes = [], [], [], [], []
    for number, seeds in enumerate(sample):
        start, cpu = time.perf_counter(), time.process_time()
        part = graph.neighbourhood(seeds, hops=HOPS, cap=cap, score=score.take)
        ours.append(time.perf_counter() - start)
        busy.append(time.process_time() - cpu)
        sizes.append((len(part.nodes), len(part.edges), len(part.dropped)))
        if number < CHECKED:
            start = time.perf_counter()
            same = expand_in_python(graph, seeds.tolist(), cap, score)
            theirs.append(time.perf_counter() - start)
            pairs.append(theirs[-1] / ours[-1])
            assert same == set(part.nodes.tolist()), "the vectorised expansion differs from the plain one"
            inside = np.zeros(graph.n_nodes, dtype=bool)
            inside[part.nodes] = True
            assert np.array_equal(part.edges, np.flatnonzero(inside[graph.heads] & inside[graph.tails]))
    nodes, edges, dropped = np.median(sizes, axis=0)
    low, middle, high, worst = 1000 * np.quantile(ours, [0.05, 0.5, 0.95, 1.0])
    print(
        f"{name}: {len(sample)} draws of {sample.shape[1]} seeds, {HOPS} hops, cap {cap}: {nodes:,.0f} nodes, "
        f"{edges:,.0f} edges, {dropped:,.0f} cut (medians)\n"
        f"  median {middle:.1f} ms, 5 % to 95 % {low:.1f} to {high:.1f} ms, slowest {worst:.1f} ms "
        f"(processor time: median {1000 * np.median(busy):.1f}, slowest {1000 * max(busy):.1f} ms)\n"
        f"  plain Python, nodes alone: {1000 * np.median(theirs):.0f} ms, {np.median(pairs):.0f} times as long"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--cap", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--questions", type=int, default=100)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        heads, relations, tails = hub_graph(arguments.nodes, arguments.edges, rng)
        start = time.perf_counter()
        built = GraphArrays.from_edges(arguments.nodes, heads, relations, tails)
        print(f"build {time.perf_counter() - start:.1f} s")
        built.save(folder)
        del built, heads, relations, tails
        start = time.perf_counter()
        graph = GraphArrays.open(folder)
        print(f"open {1000 * (time.perf_counter() - start):.1f} ms, memory-mapped")
        degrees = np.diff(graph.offsets)
        print(f"largest hub {degrees.max():,} edges, mean {degrees.mean():.1f}")
        score = rng.random(arguments.nodes).astype(np.float32)
        shape = (arguments.questions, arguments.seeds)
        measure(graph, "any nodes", rng.integers(0, arguments.nodes, shape), arguments.cap, score)
        by_degree = np.where(
            rng.random(shape) < 0.5,
            graph.heads[rng.integers(0, arguments.edges, shape)],
            graph.tails[rng.integers(0, arguments.edges, shape)],
        )
        measure(graph, "nodes by degree", by_degree, arguments.cap, score)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


if __name__ == "__main__":
    main()
