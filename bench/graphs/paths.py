"""A graph of a million nodes and ten million edges: build, open, expand; against the same rule in plain Python.

Every neighbourhood (3 hops, hub cap, edges among what was found) is checked: its nodes against the plain expansion for
the first seeds, its edges against a look at all edges of the graph. Seeds are drawn twice: evenly over the nodes, and
by degree, as the concepts of questions are rather hubs. Wall time is what is asked for; processor time is printed
beside it, for a machine that others use as well.

Run: python -m bench.graphs.paths [--nodes 1000000 --edges 10000000 --questions 100]
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from bench.measuring import make_parser, resident, timed
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
        new_layer: set[int] = set()
        for node in frontier:
            row = graph.neighbours[graph.offsets[node] : graph.offsets[node + 1]].tolist()
            new_nodes = sorted(
                {other for other in row if other not in visited}, key=lambda other: (-score[other], other)
            )
            new_layer.update(new_nodes[:cap])
        visited |= new_layer
        frontier = new_layer
    return visited


def measure(graph: GraphArrays, name: str, sample: np.ndarray, cap: int, score: np.ndarray) -> None:
    """Time the neighbourhood of each row of seeds, and print what it took."""
    our_seconds, busy, baseline, pairs, sizes = [], [], [], [], []
    for number, seeds in enumerate(sample):
        start, cpu = time.perf_counter(), time.process_time()
        neighbourhood = graph.neighbourhood(seeds, hops=HOPS, cap=cap, score=score.take)
        our_seconds.append(time.perf_counter() - start)
        busy.append(time.process_time() - cpu)
        sizes.append((len(neighbourhood.nodes), len(neighbourhood.edges), len(neighbourhood.dropped)))
        if number < CHECKED:
            same, seconds = timed(expand_in_python, graph, seeds.tolist(), cap, score)
            baseline.append(seconds)
            pairs.append(baseline[-1] / our_seconds[-1])
            assert same == set(neighbourhood.nodes.tolist()), "the vectorised expansion differs from the plain one"
            inside = np.zeros(graph.n_nodes, dtype=bool)
            inside[neighbourhood.nodes] = True
            assert np.array_equal(neighbourhood.edges, np.flatnonzero(inside[graph.heads] & inside[graph.tails]))
    nodes, edges, dropped = np.median(sizes, axis=0)
    low, middle, high, worst = 1000 * np.quantile(our_seconds, [0.05, 0.5, 0.95, 1.0])
    print(
        f"{name}: {len(sample)} draws of {sample.shape[1]} seeds, {HOPS} hops, cap {cap}: {nodes:,.0f} nodes, "
        f"{edges:,.0f} edges, {dropped:,.0f} cut (medians)\n"
        f"  median {middle:.1f} ms, 5 % to 95 % {low:.1f} to {high:.1f} ms, slowest {worst:.1f} ms "
        f"(processor time: median {1000 * np.median(busy):.1f}, slowest {1000 * max(busy):.1f} ms)\n"
        f"  plain Python, nodes alone: {1000 * np.median(baseline):.0f} ms, {np.median(pairs):.0f} times as long"
    )


def main() -> None:
    parser = make_parser(__doc__)
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
        arrays, seconds = timed(GraphArrays.from_edges, arguments.nodes, heads, relations, tails)
        print(f"build {seconds:.1f} s")
        arrays.save(folder)
        del arrays, heads, relations, tails
        graph, seconds = timed(GraphArrays.open, folder)
        print(f"open {1000 * seconds:.1f} ms, memory-mapped")
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
    print(f"peak memory {resident('VmHWM') / 1024:.2f} GiB")


if __name__ == "__main__":
    main()
