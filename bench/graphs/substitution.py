"""A query of three triplets over 10 million typed edges, beside plain Python sets over the same graph.

Run: ``python -m bench.graphs.substitution [--edges 10000000] [--nodes 1000000] [--queries 12]``
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace

import numpy as np

from bench.measuring import make_parser, resident, timed
from evidence_assets.graphs.arrays import TypedGraph
from evidence_assets.graphs.substitution import Constant, TriplePattern, Variable, substitute

NODE_TYPES, EDGE_TYPES = 10, 18


def generated(nodes: int, edges: int, generator: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Each edge type joins two node types; both ends are skewed, so that there are hubs."""
    node_types = np.sort(generator.integers(0, NODE_TYPES, nodes))
    first = np.searchsorted(node_types, np.arange(NODE_TYPES + 1))
    kinds = generator.integers(0, EDGE_TYPES, edges)
    ends = generator.integers(0, NODE_TYPES, (EDGE_TYPES, 2))
    node_ids = []
    for side in (0, 1):
        low, high = first[ends[kinds, side]], first[ends[kinds, side] + 1]
        node_ids.append((low + (high - low) * generator.random(edges) ** 3).astype(np.int64))
    return node_types, node_ids[0], kinds, node_ids[1], ends, first


class PlainSets:
    """The baseline: dictionaries of sets, and the same narrowing in plain Python."""

    def __init__(self, heads: np.ndarray, kinds: np.ndarray, tails: np.ndarray) -> None:
        self.out: dict[tuple[int, int], set[int]] = defaultdict(set)
        self.into: dict[tuple[int, int], set[int]] = defaultdict(set)
        for head, kind, tail in zip(heads.tolist(), kinds.tolist(), tails.tolist(), strict=True):
            self.out[kind, head].add(tail)
            self.into[kind, tail].add(head)

    def narrow(self, patterns: list[TriplePattern], target: Variable, of_type: dict[Variable, set[int]]) -> set[int]:
        candidates: dict[Variable | Constant, set[int]] = dict(of_type.items())
        candidates |= {t: set(t.nodes) for p in patterns for t in (p.head, p.tail) if isinstance(t, Constant)}
        changed = True
        while changed:
            changed = False
            for p in patterns:
                kind = p.edge_type or 0
                for near_end, far_end, table in ((p.tail, p.head, self.out), (p.head, p.tail, self.into)):
                    neighbours: set[int] = set()
                    for node in candidates[far_end]:
                        neighbours |= table.get((kind, node), set())
                    narrowed = candidates[near_end] & neighbours
                    changed |= len(narrowed) < len(candidates[near_end])
                    candidates[near_end] = narrowed
        return candidates[target]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=12)
    arguments = parser.parse_args()
    generator = np.random.default_rng(0)
    node_types, heads, kinds, tails, ends, first = generated(arguments.nodes, arguments.edges, generator)
    start, before = time.perf_counter(), resident()
    graph = TypedGraph(node_types, heads, kinds, tails)
    for kind in (None, *graph.edge_types):
        for outgoing in (True, False):
            graph.pairs(kind, np.arange(0), outgoing=outgoing)
    print(
        f"{arguments.edges:,} edges, {arguments.nodes:,} nodes: rows of all types, and of any type, built in "
        f"{time.perf_counter() - start:.1f} s, {resident() - before:.0f} MiB"
    )
    plain, seconds = timed(PlainSets, heads, kinds, tails)
    print(f"baseline's dictionaries built in {seconds:.1f} s")
    corrected: list[float] = []
    agnostic: list[float] = []
    baseline: list[float] = []
    while len(corrected) < arguments.queries:
        # constant - e1 - x - e2 - y - e3 - constant, each end taken from a real edge so that types agree.
        e1, e2, e3 = generator.integers(0, EDGE_TYPES, 3)
        x, y = Variable("x", int(ends[e2, 0])), Variable("y", int(ends[e2, 1]))
        left = np.flatnonzero(kinds == e1)[generator.integers(1000)]
        right = np.flatnonzero(kinds == e3)[generator.integers(1000)]
        if ends[e1, 1] != ends[e2, 0] or ends[e3, 1] != ends[e2, 1]:
            continue
        patterns = [
            TriplePattern(Constant("a", (int(heads[left]),)), int(e1), x),
            TriplePattern(x, int(e2), y),
            TriplePattern(Constant("b", (int(heads[right]),)), int(e3), y),
        ]
        narrowed, seconds = timed(substitute, graph, patterns, x)
        corrected.append(seconds)
        any_type = [replace(pattern, edge_type=None) for pattern in patterns]
        agnostic.append(timed(substitute, graph, any_type, x)[1])
        of_type = {v: set(range(*first[ends[e2, side] + np.arange(2)])) for side, v in enumerate((x, y))}
        expected, seconds = timed(plain.narrow, patterns, x, of_type)
        baseline.append(seconds)
        assert set(narrowed.candidates.tolist()) == expected
    print(
        f"chain of three triplets, {len(corrected)} queries: ours median {1000 * np.median(corrected):.1f} ms, largest "
        f"{1000 * max(corrected):.1f} ms; ignoring edge types median {1000 * np.median(agnostic):.1f} ms, largest "
        f"{1000 * max(agnostic):.1f} ms; Python sets median {1000 * np.median(baseline):.1f} ms; ratio "
        f"{np.median(baseline) / np.median(corrected):.0f}×, equal results"
    )
    x, z = Variable("x", int(ends[0, 0])), Variable("z", int(ends[0, 0]))
    y, w = Variable("y", int(ends[0, 1])), Variable("w", int(ends[0, 1]))
    patterns = [TriplePattern(x, 0, y), TriplePattern(z, 0, y), TriplePattern(x, 0, w)]
    print(f"no constant at all: {1000 * timed(substitute, graph, patterns, x)[1]:.1f} ms")


if __name__ == "__main__":
    main()
