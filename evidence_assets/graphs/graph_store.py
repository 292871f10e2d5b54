"""Writes a graph's arrays, name vectors and passages to the lake, and opens a graph as one object."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from evidence_assets.graphs.arrays import GraphArrays
from evidence_assets.graphs.knowledge_graph import (
    GraphStructure,
    GraphVectors,
    KnowledgeGraph,
    build_structure,
    surface_forms,
)
from evidence_assets.graphs.merge import ENDS
from evidence_assets.graphs.passage_files import PASSAGE_COLUMNS, PassageFiles, write_passage_files
from evidence_assets.lake.array_files import create_array, open_array, open_json
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.ids import content_id, key_for_model
from evidence_assets.lake.rows import row_blocks
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake, Stamp
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.models.vectors import unit_rows
from evidence_assets.retrieval import index_building
from evidence_assets.retrieval.corpus import shard_versions, sorted_shards
from evidence_assets.retrieval.embedding import TEXTS_PER_BLOCK, VectorCache, fill_vectors
from evidence_assets.retrieval.vector_index import IndexMeta, VectorIndex
from evidence_assets.text.chunking import split_chunks

MAPPED_COLUMNS = {"nodes": ["node_id", "name", "aliases", "type", "document"], "edges": ["edge_id"]}
"""Memory-mapped columns: in memory, forty million edge ids would take two gigabytes."""
NAME_VECTORS_FORMAT = 3
"""Version of the order of name vectors."""
MAPPED_COLUMNS_FORMAT = 1
"""Version of the memory-mapped columns."""
EDGES_PER_BATCH = 1 << 20
FIRST_PASSAGE_COLUMNS = ["owner_kind", "owner_id", "ordinal", "vector"]
ReportProgress = Callable[[int, int], None]


def tables_version(lake: Lake, name: str, *kinds: str) -> str:
    """Version of a graph's tables of these kinds (``nodes``, ``edges``)."""
    return content_id([lake.stored_version(f"kg_{kind}", f"knowledge/{name}/{kind}") for kind in kinds])


def build_arrays(lake: Lake, name: str, built_from: str) -> GraphArrays:
    """Write the graph in compressed rows and the columns ``MAPPED_COLUMNS``, in the order of the tables."""
    prefix = f"knowledge/{name}"
    folder = lake.index_folder(f"{prefix}/csr")
    with replacing_folder(folder) as temporary:
        node_ids = lake.read("kg_nodes", f"{prefix}/nodes", columns=["node_id"])["node_id"]
        arrays, relations = build_structure(node_ids, _read_edge_blocks(lake, prefix))
        arrays.save(temporary)
        del arrays, node_ids
        for kind, columns in MAPPED_COLUMNS.items():
            # No variable, so that the rows of nodes are freed before those of edges are read.
            lake.read(f"kg_{kind}", f"{prefix}/{kind}", columns=columns).write_ipc(
                temporary / f"{kind}.arrow", compat_level=pl.CompatLevel.newest()
            )
        (temporary / "relations.json").write_text(json.dumps(relations, indent=1) + "\n", encoding="utf-8")
        (temporary / "meta.json").write_text(json.dumps({"built_from": built_from}, indent=1) + "\n", encoding="utf-8")
    return GraphArrays.open(folder)


def _read_edge_blocks(lake: Lake, prefix: str) -> Iterator[pl.DataFrame]:
    """Read heads, relations and tails of a graph's edges in batches."""
    schema = pa.schema([TABLES["kg_edges"].arrow.field(name) for name in ENDS])
    for path in lake.files("kg_edges", f"{prefix}/edges"):
        yield from map(pl.DataFrame, row_blocks(path, schema, EDGES_PER_BATCH))


def name_vectors_version(lake: Lake, name: str) -> str:
    """Version of the inputs of name vectors: the nodes, and the order of surface forms."""
    return content_id(NAME_VECTORS_FORMAT, tables_version(lake, name, "nodes"))


def build_name_vectors(
    folder: Path, nodes: pl.DataFrame, encoder: Encoder, model_id: str, built_from: str, memory: int
) -> tuple[int, int]:
    """Write a vector for every name and alias, and an index of at most ``memory`` bytes.

    Stored vectors are reused; returns the numbers of surface forms and of reused vectors.
    """
    texts = surface_forms(nodes["name"], nodes["aliases"]).texts.to_list()
    stored_hashes = np.zeros(0, "S32")
    stored_vectors = np.zeros((0, encoder.dimensions), np.float16)
    if (folder / "hashes.npy").exists():
        stored_vectors = np.load(folder / "vectors.npy", mmap_mode="r", allow_pickle=False)
        stored_hashes = np.load(folder / "hashes.npy", allow_pickle=False)
    with replacing_folder(folder) as temporary:
        shape = (len(texts), encoder.dimensions)
        vectors = create_array(temporary / "vectors.npy", np.float16, shape)
        hashes, reused = fill_vectors(
            texts, model_id, VectorCache(stored_hashes, stored_vectors), partial(encode_texts, encoder), vectors
        )
        vectors.flush()
        del vectors
        np.save(temporary / "hashes.npy", hashes, allow_pickle=False)
        index_building.write_index(temporary, built_from=built_from, model_id=model_id, memory=memory, neighbours=16)
    return len(texts), reused


def passages_version(lake: Lake, name: str, encoder_name: str = "") -> str:
    """Version of the inputs of the passage files."""
    shards = shard_versions(lake, "kg_passages", key_for_model(f"knowledge/{name}/passages", encoder_name))
    return content_id(lake.stored_version("kg_nodes", f"knowledge/{name}/nodes"), shards)


def build_passage_files(
    lake: Lake, name: str, encoder: Encoder, model_id: str, memory: int, report: ReportProgress, encoder_name: str = ""
) -> IndexMeta:
    """Write the node passages of one encoder into files; see ``passage_files``."""
    prefix = f"knowledge/{name}"

    node_ids = lake.read("kg_nodes", f"{prefix}/nodes", columns=["node_id"])["node_id"].set_sorted()
    with replacing_folder(lake.index_folder(key_for_model(f"{prefix}/passage_index", encoder_name))) as temporary:
        return write_passage_files(
            temporary,
            node_ids,
            _read_passage_batches(lake, key_for_model(f"{prefix}/passages", encoder_name), PASSAGE_COLUMNS),
            encoder.dimensions,
            built_from=passages_version(lake, name, encoder_name),
            model_id=model_id,
            memory=memory,
            report=report,
        )


def open_graph(lake: Lake, name: str, encoder: Encoder, encoder_name: str = "") -> KnowledgeGraph:
    """Open a graph, read lazily and shared within the process.

    Stale arrays are rebuilt; stale vectors or vectors of another model are errors. ``encoder_name`` is the encoder's
    name in the profile, empty for the default.
    """
    prefix = f"knowledge/{name}"
    tables = [("kg_nodes", f"{prefix}/nodes"), ("kg_edges", f"{prefix}/edges")]
    for table, key in tables:
        if not lake.partitions(table, key):
            raise StaleInput(f"{key} is missing; materialize it first")
    passages = key_for_model(f"{prefix}/passages", encoder_name)
    indexes = [key_for_model(f"{prefix}/{part}", encoder_name) for part in ("node_vectors", "passage_index")]
    files = [("kg_passages", passages), *(("indexes", key) for key in (f"{prefix}/csr", *indexes))]
    stamp = lake.stamp(*tables, *files)
    return _open_graph(str(lake.root), name, cast(Hashable, encoder), encoder_name, stamp)


@lru_cache(maxsize=4)
def _open_graph(root: str, name: str, encoder: Encoder, encoder_name: str, stamp: Stamp) -> KnowledgeGraph:
    files = _GraphFiles(Lake(root), name, encoder, encoder_name)
    vectors = GraphVectors(
        partial(encode_texts, encoder),
        cache(files.open_form_vectors),
        lambda: files.names,
        files.read_passages,
        cache(files.open_passage_files),
        files.lake.root,
    )
    return KnowledgeGraph(
        name,
        content_id(files.tables_version, files.model_id),
        files.read_structure,
        cache(partial(files.read_column, "nodes")),
        cache(partial(files.read_column, "edges")),
        vectors,
    )


@dataclass(frozen=True)
class _GraphFiles:
    """Files of a graph, and of the vectors of one encoder."""

    lake: Lake
    name: str
    encoder: Encoder
    encoder_name: str

    @property
    def model_id(self) -> str:
        return f"{self.encoder.model_id}@{self.encoder.revision}"

    @cached_property
    def tables_version(self) -> str:
        return tables_version(self.lake, self.name, "nodes", "edges")

    @property
    def _arrays_folder(self) -> Path:
        return self.lake.index_folder(f"knowledge/{self.name}/csr")

    def _has_arrays(self) -> bool:
        """Whether there are arrays of the current tables."""
        path = self._arrays_folder / "meta.json"
        return path.exists() and open_json(path)["built_from"] == self.tables_version

    def read_column(self, kind: str, column: str) -> pl.Series:
        arrow_file = self._arrays_folder / f"{kind}.arrow"
        if column in MAPPED_COLUMNS[kind] and arrow_file.exists() and self._has_arrays():
            return pl.read_ipc(arrow_file, columns=[column], memory_map=True)[column]
        return self.lake.read(f"kg_{kind}", f"knowledge/{self.name}/{kind}", columns=[column])[column]

    def read_structure(self) -> GraphStructure:
        if not self._has_arrays():
            edges = _read_edge_blocks(self.lake, f"knowledge/{self.name}")
            return build_structure(self.read_column("nodes", "node_id"), edges)
        relations = json.loads((self._arrays_folder / "relations.json").read_text(encoding="utf-8"))
        return GraphStructure(GraphArrays.open(self._arrays_folder), tuple(relations))

    def _index_folder(self, part: str) -> Path:
        return self.lake.index_folder(key_for_model(f"knowledge/{self.name}/{part}", self.encoder_name))

    def _open_index(self, part: str, version: str) -> VectorIndex:
        """Open an index; raises StaleInput if it has other rows or another model."""
        folder = self._index_folder(part)
        index = VectorIndex(folder, expected=version)
        if index.meta.model_id != self.model_id:
            raise StaleInput(
                f"the vectors in {folder} are from {index.meta.model_id}, not {self.model_id}; materialize them again"
            )
        return index

    @cached_property
    def names(self) -> VectorIndex:
        return self._open_index("node_vectors", name_vectors_version(self.lake, self.name))

    def open_form_vectors(self) -> FloatArray:
        _ = self.names  # raises StaleInput if the vectors are stale
        return open_array(self._index_folder("node_vectors") / "vectors.npy")

    def open_passage_files(self) -> PassageFiles:
        version = passages_version(self.lake, self.name, self.encoder_name)
        return PassageFiles(self._index_folder("passage_index"), self._open_index("passage_index", version))

    def read_passages(self) -> Iterator[pl.DataFrame]:
        asset = key_for_model(f"knowledge/{self.name}/passages", self.encoder_name)
        shards = sorted_shards(self.lake, "kg_passages", asset)
        if not shards:
            raise StaleInput(f"{asset} is missing; materialize it first")
        for batch in _read_passage_batches(self.lake, asset, FIRST_PASSAGE_COLUMNS):
            yield pl.DataFrame(batch)


def _read_passage_batches(lake: Lake, asset: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    for shard in sorted_shards(lake, "kg_passages", asset):
        with pq.ParquetFile(lake.path("kg_passages", asset, shard)) as file:
            yield from file.iter_batches(TEXTS_PER_BLOCK, columns=columns)


def encode_texts(encoder: Encoder, texts: Sequence[str]) -> FloatArray:
    """Encode texts of any length as unit vectors; long texts by the mean of their chunks."""
    if not len(texts):
        return np.zeros((0, encoder.dimensions), np.float32)
    pieces_of = [
        [text]
        if count <= encoder.max_tokens
        else [text[c.start : c.end] for c in split_chunks(text, encoder.count_tokens, encoder.max_tokens)]
        for text, count in zip(texts, encoder.count_tokens(list(texts)), strict=True)
    ]
    counts = np.array([len(pieces) for pieces in pieces_of])
    vectors = encoder.encode_sentences([piece for pieces in pieces_of for piece in pieces])
    sums = np.add.reduceat(vectors, np.cumsum(counts) - counts, axis=0)
    return unit_rows((sums / counts[:, None]).astype(np.float32))
