"""A knowledge base of 100,000 nodes and 1 million edges, generated in STaRK's processed layout, read from disk.

The baseline is what cannot be avoided: the same files parsed with ``json`` and ``torch`` into plain dictionaries and
tensors, without types, names, documents or checks. Both run in this process, one after the other; the edges and names
that both give are asserted to be equal. Memory is what the process holds more than before (resident set), and its peak.

Then nodes are searched by their passages, by the index and by looking at each.

Run: ``python bench/bench_stark.py [--nodes 100000] [--edges 1000000] [--repeats 3]``
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import torch

from evidence_assets.benchmarks.official.stark import read_stark
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.passage_files import PassageFiles, write_passage_files
from evidence_assets.graphs.stored import ENDS, MAPPED, build_arrays
from evidence_assets.graphs.substitution import Constant, Pattern, Variable, substitute
from evidence_assets.models.vectors import unit_rows
from evidence_assets.retrieval.vector_index import VectorIndex

NODE_TYPES = ("disease", "gene/protein", "drug", "pathway", "anatomy")
EDGE_TYPES = ("ppi", "target", "indication", "expression present", "interacts with")
WORDS = ("cell", "binds", "receptor", "pathway", "of", "the", "liver", "acute", "protein", "in", "chronic", "level")


def written(folder: Path, nodes: int, edges: int) -> None:
    """The layout of PRIME: a record a node with nested details, and three tensors."""
    generator = np.random.default_rng(0)
    kinds = generator.integers(0, len(NODE_TYPES), nodes)
    words = generator.integers(0, len(WORDS), (nodes, 60))
    info = {
        str(node): {
            "id": node, "type": NODE_TYPES[kinds[node]], "name": f"thing {node}", "source": "GEN",
            "details": {"alias": [f"T{node}", f"alias {node}"], "summary": " ".join(WORDS[w] for w in words[node])},
        }
        for node in range(nodes)
    }  # fmt: skip
    (folder / "node_info.json").write_text(json.dumps(info), encoding="utf-8")
    for name, types in (("node_type_dict", NODE_TYPES), ("edge_type_dict", EDGE_TYPES)):
        (folder / f"{name}.json").write_text(json.dumps(dict(enumerate(types))), encoding="utf-8")
    torch.save(torch.from_numpy(kinds), folder / "node_types.pt")
    ends = (nodes * generator.random((2, edges)) ** 2).astype(np.int64)
    torch.save(torch.from_numpy(ends), folder / "edge_index.pt")
    torch.save(torch.from_numpy(generator.integers(0, len(EDGE_TYPES), edges)), folder / "edge_types.pt")


def plain(folder: Path) -> tuple[dict[str, dict[str, str]], torch.Tensor, torch.Tensor]:
    """The files parsed and nothing more."""
    info = json.loads((folder / "node_info.json").read_text(encoding="utf-8"))
    tensors = [torch.load(folder / f"{name}.pt", weights_only=True) for name in ("edge_index", "edge_types")]
    return info, tensors[0], tensors[1]


def resident() -> float:
    """MiB that the process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        written(folder, arguments.nodes, arguments.edges)
        size = sum(path.stat().st_size for path in folder.iterdir()) / 2**20
        times: dict[str, list[float]] = {"plain": [], "read_stark": []}
        held = 0.0
        for repeat in range(arguments.repeats):
            gc.collect()
            before = resident()
            start = time.process_time()
            base = read_stark(folder, "prime")
            times["read_stark"].append(time.process_time() - start)
            if not repeat:
                gc.collect()
                held = resident() - before
            start = time.process_time()
            info, ends, kinds = plain(folder)
            times["plain"].append(time.process_time() - start)
            expected = np.unique(np.stack([ends[0].numpy(), kinds.numpy(), ends[1].numpy()], axis=1), axis=0)
            assert base.nodes["name"].to_list() == [record["name"] for record in info.values()]
            stated = base.edges.with_columns(pl.col("relation").replace_strict(EDGE_TYPES, range(len(EDGE_TYPES))))
            assert np.array_equal(stated.cast(pl.Int64).to_numpy(), expected)
            del info, ends, kinds, expected
        ours, theirs = min(times["read_stark"]), min(times["plain"])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{arguments.nodes:,} nodes, {arguments.edges:,} edges, {size:.0f} MiB of files: files alone {theirs:.2f} s, "
              f"read_stark {ours:.2f} s of processor time, {ours / theirs:.1f} times; the base holds {held:.0f} MiB, "
              f"peak of the process {peak:.0f} MiB")  # fmt: skip
        start = time.process_time()
        opened = KnowledgeGraph.of_rows("prime", base.node_rows("prime"), base.edge_rows("prime", "bench"))
        graph = opened.typed
        built = time.process_time() - start
        heads, tails, types = opened.arrays.heads, opened.arrays.tails, opened.arrays.relations
        second = int(np.flatnonzero(np.isin(heads, tails[:1000]))[0])
        first = int(np.flatnonzero(tails[:1000] == heads[second])[0])
        third = int(np.flatnonzero(heads == tails[second])[0])
        x, y = Variable("x"), Variable("y")
        query = [
            Pattern(Constant("a", (int(heads[first]),)), int(types[first]), x),
            Pattern(x, int(types[second]), y),
            Pattern(y, int(types[third]), Constant("b", (int(tails[third]),))),
        ]
        start = time.process_time()
        found = substitute(graph, query, x)
        print(f"rows and graph for substitution built in {built:.2f} s; a query of three triplets, {len(found.candidates)} "
              f"candidates, {1000 * (time.process_time() - start):.1f} ms")  # fmt: skip
        told(opened, folder / "csr")
        search(opened, folder)


def told(graph: KnowledgeGraph, folder: Path) -> None:
    """Bytes of what an answering process maps instead of holding it: arrays, and names, documents and ids."""
    nodes = pl.DataFrame({name: graph.node_column(name) for name in MAPPED["nodes"]})
    edges = pl.DataFrame({name: graph.edge_column(name) for name in (*ENDS, *MAPPED["edges"])})
    build_arrays(folder, nodes, edges, "")
    sizes = {
        ending: sum(path.stat().st_size for path in folder.glob(f"*.{ending}")) / 2**20 for ending in ("npy", "arrow")
    }
    print(f"memory-mapped: {sizes['npy']:.0f} MiB of arrays, {sizes['arrow']:.0f} MiB of names, documents and ids")


def search(graph: KnowledgeGraph, folder: Path) -> None:
    """Nearest nodes by the index against a product with all vectors, which are random and two a node."""
    rng, width, each = np.random.default_rng(0), 384, 2
    middles = rng.standard_normal((1_000, width)).astype(np.float32)

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(graph), 10_000):
            ids = graph.node_ids[start : start + 10_000].to_list()
            n = each * len(ids)
            # Round some middles, as texts lie round their subjects: no index finds anything among plain noise.
            vectors = middles[rng.integers(0, len(middles), n)] + rng.standard_normal((n, width)).astype(np.float32)
            flat = pa.array(unit_rows(vectors).ravel())
            yield pa.RecordBatch.from_pydict({
                "owner_kind": ["node"] * n, "owner_id": [i for i in ids for _ in range(each)],
                "ordinal": list(range(each)) * len(ids), "passage_id": [f"{i}{o}" for i in ids for o in range(each)],
                "char_start": [0] * n, "char_end": [1] * n, "vector": pa.FixedSizeListArray.from_arrays(flat, width),
            })  # fmt: skip

    place = folder / "passages"
    place.mkdir()
    start = time.perf_counter()
    meta = write_passage_files(place, graph.node_ids, batches(), width, built_from="", model_id="", memory=8 * 10**9)
    built, before = time.perf_counter() - start, resident()
    files = PassageFiles(place, VectorIndex(place, expected=""))
    opened = resident() - before
    allowed = graph.node_types == 0
    queries = unit_rows(middles[:20] + rng.standard_normal((20, width)).astype(np.float32) / 2)
    start = time.perf_counter()
    found = [files.nearest(query, allowed, 20, "multi_vector") for query in queries]
    ours = (time.perf_counter() - start) / len(queries)
    nodes = np.flatnonzero(allowed)
    start = time.perf_counter()
    slow = [nodes[np.lexsort((nodes, -files.similarities(q, nodes, "multi_vector")))[:20]] for q in queries]
    theirs = (time.perf_counter() - start) / len(queries)
    recall = np.mean([len(set(a.tolist()) & set(b.tolist())) / 20 for a, b in zip(found, slow, strict=True)])
    assert meta.kind != "flat" or recall == 1.0
    print(f"{len(graph) * each:,} passages in files and a {meta.kind} index in {built:.0f} s, opened with {opened:.0f} MiB; the 20 "
          f"nearest of {len(nodes):,} nodes in {1000 * ours:.0f} ms, by looking at each of them {1000 * theirs:.0f} ms "
          f"({theirs / ours:.1f} times as long), recall {recall:.3f}")  # fmt: skip


if __name__ == "__main__":
    main()
