"""A graph of a million nodes and ten million edges: build, open, expand; against networkx-style expansion in Python.

Run: python bench/bench_graph.py [--nodes 1000000 --edges 10000000]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from evidence_assets.methods.graph import Graph


def hub_graph(n_nodes: int, n_edges: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges whose tails follow a power law, so that a few hubs touch a large share of all edges."""
    heads = rng.integers(0, n_nodes, n_edges, dtype=np.int32)
    tails = (n_nodes * rng.random(n_edges) ** 3).astype(np.int32)
    return heads, rng.integers(0, 15, n_edges, dtype=np.int32), rng.permutation(n_nodes).astype(np.int32)[tails]


def expand_in_python(graph: Graph, seeds: list[int], hops: int, cap: int, score: np.ndarray) -> set[int]:
    """The same rule, one node at a time: the baseline, and the check of the result."""
    seen, frontier = set(seeds), set(seeds)
    for _ in range(hops):
        new: set[int] = set()
        for node in frontier:
            row = graph.neighbours[graph.offsets[node] : graph.offsets[node + 1]].tolist()
            fresh = sorted({other for other in row if other not in seen}, key=lambda other: (-score[other], other))
            new.update(fresh[:cap])
        seen |= new
        frontier = new
    return seen


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--cap", type=int, default=16)
    parser.add_argument("--questions", type=int, default=20)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        heads, relations, tails = hub_graph(arguments.nodes, arguments.edges, rng)
        start = time.perf_counter()
        built = Graph.from_edges(arguments.nodes, heads, relations, tails)
        print(f"build {time.perf_counter() - start:.1f} s")
        built.save(folder)
        del built, heads, relations, tails
        start = time.perf_counter()
        graph = Graph.open(folder)
        print(f"open {1000 * (time.perf_counter() - start):.1f} ms, memory-mapped")
        degrees = np.diff(graph.offsets)
        print(f"largest hub {degrees.max():,} edges, mean {degrees.mean():.1f}")
        score = rng.random(arguments.nodes).astype(np.float32)
        ours, theirs, sizes, edges = [], [], [], []
        for seeds in rng.integers(0, arguments.nodes, (arguments.questions, 5)):
            start = time.perf_counter()
            part = graph.neighbourhood(seeds, hops=3, cap=arguments.cap, score=score)
            ours.append(time.perf_counter() - start)
            start = time.perf_counter()
            same = expand_in_python(graph, seeds.tolist(), 3, arguments.cap, score)
            theirs.append(time.perf_counter() - start)
            assert same == set(part.nodes.tolist()), "the vectorised expansion differs from the plain one"
            sizes.append(len(part.nodes))
            edges.append(len(part.edges))
        print(f"3 hops from 5 seeds, cap {arguments.cap}: {np.median(sizes):.0f} nodes, {np.median(edges):.0f} edges")
        print(
            f"median {1000 * np.median(ours):.1f} ms, slowest {1000 * max(ours):.1f} ms; "
            f"plain Python (nodes alone) {1000 * np.median(theirs):.1f} ms: "
            f"{np.median(theirs) / np.median(ours):.1f} times faster"
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


if __name__ == "__main__":
    main()
