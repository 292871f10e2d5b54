"""Building a graph from files and harvests: triples, nodes, edges, arrays, vectors and passages, without Dagster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from evidence_assets import profiles
from evidence_assets.benchmarks.graphs import rows as graph_rows
from evidence_assets.benchmarks.graphs.relations import TRANSLATED_COLUMNS, load_vocabulary
from evidence_assets.benchmarks.graphs.rows import GraphSource
from evidence_assets.experiment.evidence.sources import open_graph, record_encoder
from evidence_assets.experiment.stage import LogFunction, ProgressReporter, StageContext, StageOutput
from evidence_assets.graphs import graph_store, merge
from evidence_assets.graphs.arrays import FORMAT, GraphArrays
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.passages import VERSION, OwnerFilter, Passage, fact_passages, passage_lineage, passage_table
from evidence_assets.lake.atomic import temporary_folder
from evidence_assets.lake.ids import content_id, file_id, key_for_model, shard_of
from evidence_assets.lake.rows import row_blocks
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.sorted_rows import store_sorted
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.registry import get_encoder, model_key

BuildPassages = Callable[[KnowledgeGraph, Encoder, OwnerFilter], Iterable[Passage]]


def show_progress(context: StageContext, label: str, blocks: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The blocks; their number of rows is logged meanwhile."""
    report = None
    n_rows = 0
    for block in blocks:
        report = report or ProgressReporter(label, context.inform)  # the first block of a sort comes after all reading
        yield block
        n_rows += len(block)
        report(n_rows, None)


@dataclass(frozen=True)
class GraphBuilder:
    """The rows of a graph that merges triples of files and harvests.

    ``harvested``: Assets of the table ``triples`` to merge with those of the files; of each relation, the
    ``best_harvested`` first by rank, or all. ``harvest_vocabulary``: The vocabulary whose relations replace theirs.
    """

    name: str
    files: Sequence[GraphSource]
    harvested: Sequence[str] = ()
    best_harvested: int | None = None
    harvest_vocabulary: str = ""

    @property
    def paths(self) -> list[str]:
        """The files below the lake's ``raw``."""
        return list(dict.fromkeys(path for source in self.files for path in [*source.paths, source.names] if path))

    def build_triples(self, context: StageContext) -> StageOutput:
        """Triples of the files, each with its file, line and licence."""
        raw = context.lake.fetch_raw(*self.paths)
        vocabulary = load_vocabulary()
        frames = chain.from_iterable(graph_rows.triple_frames(source, raw, vocabulary) for source in self.files)
        with temporary_folder(context.lake.root) as folder:
            blocks = graph_rows.sort_triples(show_progress(context, "triples read", frames), folder)
            triples = store_sorted("triples", show_progress(context, "triples sorted", blocks), folder)
        counts = {count["values"]: count["counts"] for count in triples.rows["licence"].value_counts().to_pylist()}
        return StageOutput(triples, metadata={"by_licence": dict(sorted(counts.items()))})

    def build_nodes(self, context: StageContext) -> StageOutput:
        """Nodes of all triples, with synonyms as aliases."""
        triples = self._read_triples(context, "head", "tail", "head_type", "tail_type")
        with temporary_folder(context.lake.root) as folder:
            labels = graph_rows.read_node_labels(self.files, context.lake.fetch_raw(*self.paths))
            nodes = merge.merge_nodes(triples, self._read_synonyms(context), folder, labels)
            return StageOutput(store_sorted("kg_nodes", show_progress(context, "nodes merged", nodes), folder))

    def build_passages(self, context: StageContext) -> StageOutput:
        """The sentences of all edges, by node and edge, with their vectors."""
        return build_passages(context, self.name, build_fact_passages, has_edges=True)

    def build_edges(self, context: StageContext) -> StageOutput:
        """Edges of all triples; lineage leads to the triples of each."""
        triples = self._read_triples(context, "head", "relation", "tail", "triple_id", "source", "licence")
        with temporary_folder(context.lake.root) as folder:
            blocks = merge.merge_edges(triples, self._read_synonyms(context), folder)
            edges = store_sorted("kg_edges", show_progress(context, "edges merged", blocks), folder)
            return StageOutput(edges, store_sorted("lineage_edges", merge.edge_lineage(edges.rows), folder))

    def _read_triples(self, context: StageContext, *columns: str) -> Iterator[pl.DataFrame]:
        """Columns of the triples of files and harvests, in blocks."""
        keys = (f"knowledge/{self.name}/triples", *self.harvested)
        files = [(key, path) for key in keys for path in context.lake.files("triples", key)]
        total = sum(pq.read_metadata(path).num_rows for _, path in files)
        n_read = 0
        report = ProgressReporter("triples read", context.inform)
        for key, path in files:
            is_harvest = key in self.harvested
            required = ("rank", *TRANSLATED_COLUMNS) if is_harvest else ()
            names = dict.fromkeys((*columns, *required))
            schema = pa.schema([TABLES["triples"].arrow.field(name) for name in names])
            for block in row_blocks(path, schema, merge.TRIPLES_PER_BLOCK):
                triples = pl.DataFrame(block)
                yield (self._select_harvested(triples) if is_harvest else triples).select(columns)
                n_read += block.num_rows
                report(n_read, total)

    def _select_harvested(self, triples: pl.DataFrame) -> pl.DataFrame:
        """The best triples of a harvest, with the relations of the graph's vocabulary."""
        if self.best_harvested is not None:
            triples = triples.filter(pl.col("rank").fill_null(0) <= self.best_harvested)
        if self.harvest_vocabulary:
            triples = load_vocabulary().translate_rows(triples, self.harvest_vocabulary)
        return triples

    def _read_synonyms(self, context: StageContext) -> pl.DataFrame:
        return graph_rows.read_synonyms(self.files, context.lake.fetch_raw(*self.paths))


def build_arrays(lake: Lake, name: str) -> tuple[str, GraphArrays]:
    """Write the graph in compressed sparse rows; return the version of its tables, and the arrays."""
    built_from = graph_store.tables_version(lake, name, "nodes", "edges")
    return built_from, graph_store.build_arrays(lake, name, built_from)


class NameVectorCounts(NamedTuple):
    """The version of name vectors, the number of names, and how many vectors were reused."""

    version: str
    forms: int
    reused: int


def build_name_vectors(lake: Lake, name: str, profile: profiles.Profile, encoder: str = "") -> NameVectorCounts:
    """Write a vector for each name and alias, by the profile's first encoder; ``encoder`` is its name in the key."""
    model = get_encoder(profile.encoder)
    built_from = graph_store.name_vectors_version(lake, name)
    forms, reused = graph_store.build_name_vectors(
        lake.index_folder(key_for_model(f"knowledge/{name}/node_vectors", encoder)),
        lake.read("kg_nodes", f"knowledge/{name}/nodes"),
        model,
        model_key(model),
        built_from,
        profile.index.bytes,
    )
    return NameVectorCounts(content_id(built_from, model_key(model)), forms, reused)


def build_fact_passages(graph: KnowledgeGraph, _: Encoder, accepts: OwnerFilter) -> Iterable[Passage]:
    """The name of each node and the sentence of each edge."""
    return fact_passages(graph, accepts)


def build_passages(context: StageContext, graph: str, build: BuildPassages, *, has_edges: bool) -> StageOutput:
    """Passages of one shard with the vectors of the context's encoder; ``has_edges``: edges have passages, too."""
    model = get_encoder(context.profile.encoder)
    shards = context.profile.shards.corpus
    graph_view = open_graph(context.lake, graph, context.encoder)
    total = len(graph_view) + (len(graph_view.edge_ids) if has_edges else 0)
    report = ProgressReporter("nodes and edges" if has_edges else "nodes", context.inform)
    numbers = count(1)

    def is_in_shard(owner_id: str) -> bool:
        report(next(numbers), total)
        return shard_of(content_id(owner_id), shards) == context.shard

    passages = build(graph_view, model, is_in_shard)
    rows, reused = passage_table(passages, context.previous_rows(), model, model_key(model), context.blocks)
    return StageOutput(rows, passage_lineage(rows, record_encoder(context)), {"model": model_key(model)}, reused)


def _build_file(lake: Lake, name: str) -> Path:
    """A file of this machine with the version of the last build of a graph; it is empty until the build is complete."""
    return lake.cache / "graphs" / name


def _inputs_version(lake: Lake, builder: GraphBuilder) -> str:
    """Version of a graph's files, the encoder, and the formats."""
    raw = lake.fetch_raw(*builder.paths)
    formats = (merge.VERSION, FORMAT, graph_store.MAPPED_COLUMNS_FORMAT, graph_store.NAME_VECTORS_FORMAT, VERSION)
    model = model_key(get_encoder(profiles.load().encoder))
    return content_id([file_id(raw / path) for path in builder.paths], model, formats)


def _parts_version(lake: Lake, name: str) -> str:
    """Version of the stored parts of a graph; it changes with each of them."""
    base = f"knowledge/{name}"
    triples = lake.stored_version("triples", f"{base}/triples")
    descriptions = [lake.index_folder(f"{base}/{part}") / "meta.json" for part in ("csr", "node_vectors")]
    indexes = [path.read_text(encoding="utf-8") if path.exists() else "" for path in descriptions]
    tables = graph_store.tables_version(lake, name, "nodes", "edges")
    return content_id(triples, tables, indexes, graph_store.passages_version(lake, name))


def is_started(lake: Lake, name: str) -> bool:
    """Whether `build_graph` has begun to build a graph on this machine."""
    return _build_file(lake, name).exists()


def is_built(lake: Lake, builder: GraphBuilder) -> bool:
    """Whether `build_graph` has built all parts of a graph from its present files."""
    if not is_started(lake, builder.name):
        return False
    version = content_id(_inputs_version(lake, builder), _parts_version(lake, builder.name))
    return _build_file(lake, builder.name).read_text(encoding="utf-8") == version


def build_graph(lake: Lake, builder: GraphBuilder, inform: LogFunction) -> int:
    """Build all assets of a graph of files; return the number of its edges."""
    base = f"knowledge/{builder.name}"
    inputs = _inputs_version(lake, builder)
    build_file = _build_file(lake, builder.name)
    build_file.parent.mkdir(parents=True, exist_ok=True)
    build_file.write_text("", encoding="utf-8")

    def write(part: str, table: str, build: Callable[[StageContext], StageOutput], partition: str = "") -> None:
        inform(f"building {part}")
        key = f"{base}/{part}"
        output = build(StageContext(lake, table, key, partition, inform))
        rows = {table: output.rows}
        lake.write(key, partition, rows if output.lineage is None else {**rows, "lineage_edges": output.lineage})

    write("triples", "triples", builder.build_triples)
    write("nodes", "kg_nodes", builder.build_nodes)
    write("edges", "kg_edges", builder.build_edges)
    _, arrays = build_arrays(lake, builder.name)
    build_name_vectors(lake, builder.name, profiles.load())
    for shard in range(profiles.load().shards.corpus):
        write("passages", "kg_passages", builder.build_passages, str(shard))
    build_file.write_text(content_id(inputs, _parts_version(lake, builder.name)), encoding="utf-8")
    return arrays.n_edges
