"""A knowledge base of STaRK-MAG's size, through the same functions as its assets: seconds and memory of every stage.

    python -m bench.graphs.stark [--nodes 1900000] [--edges 40000000] [--passages 32] [--folder FOLDER]

Files in STaRK's processed layout are generated (a third of the nodes are papers with an abstract, the rest have names),
read into rows of nodes and edges, brought into compressed rows, cut into passages, indexed and opened. Passages are
made in shards, as their asset is in partitions, of which as many are made as ``--passages`` says; their vectors are
those of an encoder that hashes words, so that what it takes is not what an encoder takes. Each stage is a process of
its own; "own" is memory that is no mapped file.
"""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from bench.measuring import make_parser, resident
from bench.retrieval.in_stages import keep, run
from evidence_assets.benchmarks.official.stark import read_stark_edges, read_stark_nodes
from evidence_assets.graphs import graph_store
from evidence_assets.graphs.merge import edge_rows, node_rows
from evidence_assets.graphs.passage_files import write_passage_files
from evidence_assets.graphs.passages import node_passages, passage_lineage, passage_table
from evidence_assets.lake.atomic import replacing_folder, temporary_folder
from evidence_assets.lake.blocks import Blocks
from evidence_assets.lake.ids import content_id, shard_of
from evidence_assets.lake.sorted_rows import store_sorted
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import FloatArray, TokenVectors
from evidence_assets.models.vectors import unit_rows
from evidence_assets.retrieval.embedding import TEXTS_PER_BLOCK

NAME, PLACE, SHARDS, PAPERS, RELATIONS = "mag", "knowledge/mag", 64, 0.37, 4
WORDS = [
    f"{a}{b}{c}"
    for a in ("neur", "gen", "graph", "therm", "crypt", "bi", "lin", "quant")
    for b in ("o", "al", "ic", "eta", "um", "is")
    for c in ("scope", "model", "field", "wave", "cell", "text")
]
MEMORY, LICENCE = 8 * 10**9, "MIT; data CC BY 4.0"


class Hashed:
    """An encoder whose vector of a text is the mean of a fixed random vector for each of its words."""

    model_id, revision, dimensions, max_tokens = "hashed", "1", 384, 128

    def __init__(self) -> None:
        self._of_word = np.random.default_rng(0).standard_normal((4096, self.dimensions)).astype(np.float32)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        places = [[zlib.crc32(word.encode()) % 4096 for word in text.split()] or [0] for text in texts]
        return unit_rows(np.stack([self._of_word[word_places].mean(axis=0) for word_places in places]))

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        raise NotImplementedError


def write(folder: Path, chosen: argparse.Namespace) -> None:
    """The layout of MAG: a record a node, an entry a line, and three tensors."""
    nodes, edges = chosen.nodes, chosen.edges
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    kinds = np.where(rng.random(nodes) < PAPERS, 3, rng.integers(0, 3, nodes))
    with (folder / "node_info.jsonl").open("w", encoding="utf-8") as file:
        for node, kind in enumerate(kinds.tolist()):
            words = [WORDS[w] for w in rng.integers(0, len(WORDS), 90 if kind == 3 else 2).tolist()]
            record: dict[str, Any] = {"type": kind, "mag_id": node, "DisplayName": f"{' '.join(words[:2])} {node}"}
            if kind == 3:
                record |= {"title": " ".join(words[:10]), "abstract": " ".join(words[10:]) + ".", "Date": "2019-05-01"}
            file.write(f"{json.dumps({'node': node, 'info': record})}\n")
    torch.save(torch.from_numpy(kinds), folder / "node_types.pt")
    torch.save(torch.from_numpy((nodes * rng.random((2, edges)) ** 2).astype(np.int64)), folder / "edge_index.pt")
    torch.save(torch.from_numpy(rng.integers(0, RELATIONS, edges)), folder / "edge_types.pt")


def nodes(lake: Lake, files: Path, _: argparse.Namespace) -> int:
    return keep(
        lake, "kg_nodes", f"{PLACE}/nodes", node_rows(read_stark_nodes(files, "mag"), NAME, "stark/mag/node_info.jsonl")
    )


def edges(lake: Lake, files: Path, _: argparse.Namespace) -> int:
    with temporary_folder(lake.root) as folder:
        blocks = edge_rows(read_stark_edges(files, "mag"), NAME, "stark/mag/edge_index.pt", folder, LICENCE)
        rows = store_sorted("kg_edges", blocks, folder)
    return keep(lake, "kg_edges", f"{PLACE}/edges", rows)


def csr(lake: Lake, _: Path, __: argparse.Namespace) -> int:
    return graph_store.build_arrays(lake, NAME, graph_store.tables_version(lake, NAME, "nodes", "edges")).n_edges


def in_shard(shard: int, node_id: str) -> bool:
    return shard_of(content_id(node_id), SHARDS) == shard


def passages(lake: Lake, _: Path, chosen: argparse.Namespace) -> int:
    """Some of the shards."""
    encoder, passage_count = Hashed(), 0
    for shard in range(chosen.passages):
        graph = graph_store.open_graph(lake, NAME, encoder)
        texts = node_passages(graph, encoder, partial(in_shard, shard))
        previous = lake.read("kg_passages", f"{PLACE}/passages", str(shard))
        blocks = Blocks(lake, f"{PLACE}/passages", str(shard))
        table = passage_table(texts, previous, encoder, "hashed@1", blocks)[0]
        passage_count += keep(lake, "kg_passages", f"{PLACE}/passages", table, str(shard), passage_lineage(table))
    return passage_count


def passage_index(lake: Lake, _: Path, __: argparse.Namespace) -> int:
    """Over all nodes: of those whose shard is not made, over their names."""
    encoder = Hashed()
    graph = graph_store.open_graph(lake, NAME, encoder)

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, len(graph), TEXTS_PER_BLOCK):
            ids, names = (column[first : first + TEXTS_PER_BLOCK].to_list() for column in (graph.node_ids, graph.names))
            vectors = pa.FixedSizeListArray.from_arrays(
                pa.array(encoder.encode_sentences(names).ravel()), encoder.dimensions
            )
            same, zeros = ["node"] * len(ids), [0] * len(ids)
            yield pa.RecordBatch.from_pydict(
                {
                    "owner_kind": same,
                    "owner_id": ids,
                    "ordinal": zeros,
                    "passage_id": ids,
                    "char_start": zeros,
                    "char_end": zeros,
                    "vector": vectors,
                }
            )

    version = graph_store.passages_version(lake, NAME)
    with replacing_folder(lake.index_folder(f"{PLACE}/passage_index")) as folder:
        return write_passage_files(
            folder,
            graph.node_ids,
            batches(),
            encoder.dimensions,
            built_from=version,
            model_id="hashed@1",
            memory=MEMORY,
        ).vectors


def answering(lake: Lake, _: Path, __: argparse.Namespace) -> dict[str, Any]:
    """Open the graph, look at a thousand neighbourhoods and names, and search the nodes of a type."""
    encoder, report = Hashed(), dict[str, Any]()

    def took(what: str, start: float, times: int = 1) -> None:
        report[what] = round(1000 * (time.perf_counter() - start) / times, 3)

    start = time.perf_counter()
    graph = graph_store.open_graph(lake, NAME, encoder)
    arrays = graph.arrays
    took("open, ms", start)
    sample = np.random.default_rng(1).integers(0, len(graph), 1_000).tolist()
    start = time.perf_counter()
    assert sum(len(arrays.neighbours_of(node)) for node in sample)
    took("neighbours of a node, ms", start, len(sample))
    start = time.perf_counter()
    sentences = [graph.sentence(edge) for node in sample[:100] for edge in graph.first_edges(node, 5)]
    took("five facts of a node in words, ms", start, 100)
    assert sentences
    start = time.perf_counter()
    allowed = graph.node_types == graph.type_names.index("paper")
    took("types of all nodes, once, ms", start)
    start = time.perf_counter()
    for way in (True, False):
        graph.typed_graph.pairs(graph.relations.index("cites"), np.arange(len(graph)), outgoing=way)
    took("pairs of a relation, once, ms", start)
    if (lake.index_folder(f"{PLACE}/passage_index") / "meta.json").exists():
        start = time.perf_counter()
        search = graph.vectors.passage_files()
        took("open the search, ms", start)
        queries = [encoder.encode_sentences([graph.names[node]])[0] for node in sample[:20]]
        start = time.perf_counter()
        nearest_nodes = [search.nearest(query, allowed, 20, "multi_vector") for query in queries]
        took("20 nearest papers, ms", start, len(queries))
        report["own memory before all papers are compared, MiB"] = round(resident())
        papers = np.flatnonzero(allowed)
        scores = [search.similarities(query, papers, "multi_vector") for query in queries[:5]]
        exact = [papers[np.lexsort((papers, -query_scores))[:20]] for query_scores in scores]
        report["recall"] = float(
            np.mean([len(set(a) & set(b)) / 20 for a, b in zip(nearest_nodes, exact, strict=False)])
        )
    return report


STAGES = {stage.__name__: stage for stage in (nodes, edges, csr, passages, passage_index, answering)}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--nodes", type=int, default=1_900_000)
    parser.add_argument("--edges", type=int, default=40_000_000)
    parser.add_argument("--passages", type=int, default=1, help=f"How many of {SHARDS} shards of passages are made.")
    run(parser, STAGES, write, SHARDS)


if __name__ == "__main__":
    main()
