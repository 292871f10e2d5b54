"""A graph in the lake: its arrays and the vectors of its names in folders, and all of it opened as one object."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache, lru_cache, partial
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
from evidence_assets.lake.array_files import open_array, open_asset_file, open_json
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.ids import content_id, key_for_model
from evidence_assets.lake.rows import row_blocks
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake, Stamp
from evidence_assets.models.protocols import Encoder, FloatArray, NonFiniteVectors
from evidence_assets.retrieval import index_building
from evidence_assets.retrieval.embedding import TEXTS_PER_BLOCK, VectorCache, fill_vectors
from evidence_assets.retrieval.vector_index import IndexMeta, VectorIndex
from evidence_assets.text.chunking import split_chunks

TABLE_NAMES = {"nodes": "kg_nodes", "edges": "kg_edges"}
MAPPED_COLUMNS = {"nodes": ["node_id", "name", "aliases", "type", "document"], "edges": ["edge_id"]}
"""Columns that lie beside the arrays as they are in memory: forty million ids of edges would take two gigabytes."""
NAME_VECTORS_FORMAT = 3
"""Changes with the order of the vectors of names."""
MAPPED_COLUMNS_FORMAT = 1
"""Changes with the columns that lie beside the arrays."""
EDGES_PER_BATCH = 1 << 20
ReportProgress = Callable[[int, int], None]


def _read_built_from(folder: Path) -> str:
    """The version of the tables that the arrays in a folder were built from; empty where there are none."""
    path = folder / "meta.json"
    return str(open_json(path)["built_from"]) if path.exists() else ""


def tables_version(lake: Lake, name: str, *parts: str) -> str:
    """The version of a graph's tables (``nodes``, ``edges``), from what their writers recorded of their rows."""
    return content_id([lake.stored_version(TABLE_NAMES[part], f"knowledge/{name}/{part}") for part in parts])


def build_arrays(lake: Lake, name: str, built_from: str) -> GraphArrays:
    """Write the graph in compressed rows, with the columns ``MAPPED``; numbered as the stored tables are."""
    place = f"knowledge/{name}"
    folder = lake.index_folder(f"{place}/csr")
    with replacing_folder(folder) as temporary:
        node_ids = lake.read("kg_nodes", f"{place}/nodes", columns=["node_id"])["node_id"]
        arrays, relations = build_structure(node_ids, _read_edge_blocks(lake, place))
        arrays.save(temporary)
        del arrays, node_ids
        for part, columns in MAPPED_COLUMNS.items():
            # No name holds the rows of nodes while those of edges are read.
            lake.read(TABLE_NAMES[part], f"{place}/{part}", columns=columns).write_ipc(
                temporary / f"{part}.arrow", compat_level=pl.CompatLevel.newest()
            )
        (temporary / "relations.json").write_text(json.dumps(relations, indent=1) + "\n", encoding="utf-8")
        (temporary / "meta.json").write_text(json.dumps({"built_from": built_from}, indent=1) + "\n", encoding="utf-8")
    return GraphArrays.open(folder)


def _read_edge_blocks(lake: Lake, place: str) -> Iterator[pl.DataFrame]:
    """The ends and relations of a graph's edges."""
    wanted = pa.schema([TABLES["kg_edges"].arrow.field(name) for name in ENDS])
    for path in lake.files("kg_edges", f"{place}/edges"):
        yield from map(pl.DataFrame, row_blocks(path, wanted, EDGES_PER_BATCH))


def name_vectors_version(lake: Lake, name: str) -> str:
    """What the vectors of a graph's names are built from: its nodes, and the order in which forms are kept."""
    return content_id(NAME_VECTORS_FORMAT, tables_version(lake, name, "nodes"))


def build_name_vectors(
    folder: Path, nodes: pl.DataFrame, encoder: Encoder, model_id: str, built_from: str, memory: int
) -> tuple[int, int]:
    """Write a vector for every name and alias, and an index over them of at most ``memory`` bytes.

    Vectors that are there already are taken over; returns (forms, taken over).
    """
    texts = surface_forms(nodes["name"], nodes["aliases"]).texts.to_list()
    known, before = np.zeros(0, "S32"), np.zeros((0, encoder.dimensions), np.float16)
    if (folder / "hashes.npy").exists():
        before = np.load(folder / "vectors.npy", mmap_mode="r", allow_pickle=False)
        known = np.load(folder / "hashes.npy", allow_pickle=False)
    with replacing_folder(folder) as temporary:
        shape = (len(texts), encoder.dimensions)
        vectors = np.lib.format.open_memmap(temporary / "vectors.npy", mode="w+", dtype=np.float16, shape=shape)
        hashes, reused = fill_vectors(
            texts, model_id, VectorCache(known, before), partial(encode_texts, encoder), vectors
        )
        vectors.flush()
        del vectors
        np.save(temporary / "hashes.npy", hashes, allow_pickle=False)
        index_building.write_index(temporary, built_from=built_from, model_id=model_id, memory=memory, neighbours=16)
    return len(texts), reused


def passages_version(lake: Lake, name: str, of: str = "") -> str:
    """What the files of a graph's passages are built from."""
    asset = key_for_model(f"knowledge/{name}/passages", of)
    shards = [(shard, lake.stored_version("kg_passages", asset, shard)) for shard in passage_shards(lake, asset)]
    return content_id(lake.stored_version("kg_nodes", f"knowledge/{name}/nodes"), shards)


def passage_shards(lake: Lake, asset: str) -> list[str]:
    """The shards that are made of a graph's passages."""
    return sorted(filter(str.isdecimal, lake.partitions("kg_passages", asset)), key=int)


def build_passage_files(
    lake: Lake, name: str, encoder: Encoder, model_id: str, memory: int, heard: ReportProgress, of: str = ""
) -> IndexMeta:
    """Write the passages of a graph's nodes, those of the encoder ``of``, into files; see ``passage_files``."""
    place = f"knowledge/{name}"

    def batches() -> Iterator[pa.RecordBatch]:
        asset = key_for_model(f"{place}/passages", of)
        for shard in passage_shards(lake, asset):
            with pq.ParquetFile(lake.path("kg_passages", asset, shard)) as file:
                yield from file.iter_batches(TEXTS_PER_BLOCK, columns=PASSAGE_COLUMNS)

    node_ids = lake.read("kg_nodes", f"{place}/nodes", columns=["node_id"])["node_id"].set_sorted()
    with replacing_folder(lake.index_folder(key_for_model(f"{place}/passage_index", of))) as temporary:
        return write_passage_files(
            temporary,
            node_ids,
            batches(),
            encoder.dimensions,
            built_from=passages_version(lake, name, of),
            model_id=model_id,
            memory=memory,
            heard=heard,
        )


def open_graph(lake: Lake, name: str, encoder: Encoder, of: str = "") -> KnowledgeGraph:
    """The graph of this name, read as it is asked for and shared by all who ask in this process.

    Arrays of other rows are built anew, vectors of other rows or of another model refused. ``of`` is what the profile
    calls the encoder, where it is not its first.
    """
    place = f"knowledge/{name}"
    tables = (("kg_nodes", f"{place}/nodes"), ("kg_edges", f"{place}/edges"))
    for table, key in tables:
        if not lake.partitions(table, key):
            raise StaleInput(f"{key} is not made: materialize it first")
    of_encoder = [key_for_model(f"{place}/{part}", of) for part in ("passages", "node_vectors", "passage_index")]
    indexes = [("indexes", key) for key in (f"{place}/csr", *of_encoder[1:])]
    stamp = lake.stamp(*tables, ("kg_passages", of_encoder[0]), *indexes)
    return _open_graph(str(lake.root), name, cast(Hashable, encoder), of, stamp)


@lru_cache(maxsize=4)
def _open_graph(root: str, name: str, encoder: Encoder, of: str, stamp: Stamp) -> KnowledgeGraph:
    lake, place = Lake(root), f"knowledge/{name}"
    name_vectors, passage_rows = key_for_model(f"{place}/node_vectors", of), key_for_model(f"{place}/passages", of)
    version, model_id = tables_version(lake, name, "nodes", "edges"), f"{encoder.model_id}@{encoder.revision}"

    def column(part: str, name: str) -> pl.Series:
        mapped = lake.index_folder(f"{place}/csr") / f"{part}.arrow"
        if name in MAPPED_COLUMNS[part] and mapped.exists() and _read_built_from(mapped.parent) == version:
            return open_asset_file(mapped, partial(_map_column, name))
        return lake.read(TABLE_NAMES[part], f"{place}/{part}", columns=[name])[name]

    def shape() -> GraphStructure:
        folder = lake.index_folder(f"{place}/csr")
        if _read_built_from(folder) != version:
            return build_structure(column("nodes", "node_id"), _read_edge_blocks(lake, place))
        relations = json.loads((folder / "relations.json").read_text(encoding="utf-8"))
        return GraphStructure(GraphArrays.open(folder), tuple(relations))

    @cache
    def names() -> VectorIndex:
        return _open_index(lake.index_folder(name_vectors), name_vectors_version(lake, name), model_id)

    def form_vectors() -> FloatArray:
        names()
        return open_array(lake.index_folder(name_vectors) / "vectors.npy")

    def passage_files() -> PassageFiles:
        folder = lake.index_folder(key_for_model(f"{place}/passage_index", of))
        return PassageFiles(folder, _open_index(folder, passages_version(lake, name, of), model_id))

    def passages() -> pl.DataFrame:
        shards = passage_shards(lake, passage_rows)
        if not shards:
            raise StaleInput(f"{passage_rows} is not made: materialize it first")
        return pl.concat([lake.read("kg_passages", passage_rows, shard) for shard in shards])

    return KnowledgeGraph(
        name,
        content_id(version, model_id),
        shape,
        cache(partial(column, "nodes")),
        cache(partial(column, "edges")),
        GraphVectors(partial(encode_texts, encoder), cache(form_vectors), names, cache(passages), cache(passage_files)),
    )


def _map_column(name: str, path: Path) -> pl.Series:
    """A column of an Arrow file, memory-mapped."""
    try:
        return pl.read_ipc(path, columns=[name], memory_map=True)[name]
    except pl.exceptions.PolarsError as error:
        raise ValueError(str(error)) from error


def _open_index(folder: Path, version: str, model_id: str) -> VectorIndex:
    """An index of these very rows by this very model."""
    index = VectorIndex(folder, expected=version)
    if index.meta.model_id != model_id:
        raise StaleInput(
            f"the vectors in {folder} are of {index.meta.model_id}, asked for {model_id}: materialize it again"
        )
    return index


def encode_texts(encoder: Encoder, texts: Sequence[str]) -> FloatArray:
    """Unit vectors of texts of any length: one that the encoder cannot read whole is the mean of its chunks."""
    whole = list(texts)
    counts = encoder.count_tokens(whole) if whole else []
    parts = {
        text: [text]
        if count <= encoder.max_tokens
        else [text[c.start : c.end] for c in split_chunks(text, encoder.count_tokens, encoder.max_tokens)]
        for text, count in zip(whole, counts, strict=True)
    }
    pieces = list(dict.fromkeys(piece for group in parts.values() for piece in group))
    if not pieces:
        return np.zeros((len(whole), encoder.dimensions), np.float32)
    number = {piece: i for i, piece in enumerate(pieces)}

    def joined(vectors: FloatArray) -> FloatArray:
        means = np.stack([np.mean([vectors[number[piece]] for piece in parts[text]], axis=0) for text in whole])
        norms = np.linalg.norm(means, axis=1, keepdims=True)
        unit: FloatArray = (means / np.where(norms == 0, 1, norms)).astype(np.float32)
        return unit

    try:
        return joined(encoder.encode_sentences(pieces))
    except NonFiniteVectors as error:
        raise NonFiniteVectors(str(error), joined(error.vectors)) from error
