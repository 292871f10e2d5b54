"""Components for knowledge graphs (of files and harvests) and knowledge bases with passages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, count
from typing import Any

import dagster as dg
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from evidence_assets import profiles
from evidence_assets.assets.partitions import (
    ALL_PARTITIONS,
    corpus_partitions,
    encoder_options,
    list_encoders,
    profile_with_encoder,
    with_encoder,
)
from evidence_assets.assets.raw_files import raw_assets
from evidence_assets.assets.table_asset import depends_on, files_asset, table_asset, table_check
from evidence_assets.benchmarks import knowledge_bases
from evidence_assets.benchmarks.declared_benchmarks import RawInput, check_name
from evidence_assets.benchmarks.graphs import rows as graph_rows
from evidence_assets.benchmarks.graphs.relations import TRANSLATED_COLUMNS, load_vocabulary
from evidence_assets.benchmarks.graphs.rows import GraphSource
from evidence_assets.experiment.evidence.sources import open_graph, record_encoder
from evidence_assets.experiment.stage import LogFunction, StageContext, StageOutput, report_progress
from evidence_assets.graphs import graph_store, merge
from evidence_assets.graphs.arrays import FORMAT
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.merge import edge_rows, node_rows
from evidence_assets.graphs.passages import (
    NODE_PASSAGES_VERSION,
    VERSION,
    OwnerFilter,
    Passage,
    fact_passages,
    node_passages,
    passage_lineage,
    passage_table,
)
from evidence_assets.lake.atomic import temporary_folder
from evidence_assets.lake.ids import content_id, key_for_model, shard_of
from evidence_assets.lake.rows import row_blocks
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.sorted_rows import store_sorted
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.registry import get_encoder, model_key
from evidence_assets.retrieval import vector_index
from evidence_assets.retrieval.corpus import find_invalid_vectors

BuildRows = Callable[[StageContext], StageOutput]
BuildPassages = Callable[[KnowledgeGraph, Encoder, OwnerFilter], Iterable[Passage]]


def _graph_assets(
    name: str, build_nodes: BuildRows, build_edges: BuildRows, deps: Sequence[str], group: str, version: str
) -> tuple[list[dg.AssetsDefinition], dg.AssetsDefinition]:
    """``nodes`` and ``edges`` of a graph, and ``csr``: the graph in compressed sparse rows."""
    key_prefix = f"knowledge/{name}"
    row_assets = [
        table_asset(
            f"{key_prefix}/{part}",
            f"kg_{part}",
            build,
            description=f"{part.capitalize()} of {name}.",
            group=group,
            code_version=version,
            deps=deps,
        )
        for part, build in (("nodes", build_nodes), ("edges", build_edges))
    ]

    def make(lake: Lake, log: LogFunction) -> tuple[str, dict[str, Any]]:
        built_from = graph_store.tables_version(lake, name, "nodes", "edges")
        arrays = graph_store.build_arrays(lake, name, built_from)
        return built_from, {"nodes": arrays.n_nodes, "edges": arrays.n_edges}

    csr = files_asset(
        f"{key_prefix}/csr",
        make,
        description=f"{name} in compressed sparse rows (CSR), for traversal.",
        group=group,
        code_version=f"{version}:{FORMAT}:{graph_store.MAPPED_COLUMNS_FORMAT}",
        kinds=("numpy",),
        deps=[f"{key_prefix}/nodes", f"{key_prefix}/edges"],
    )
    return row_assets, csr


def _with_progress(context: StageContext, label: str, blocks: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The blocks; their number of rows is logged meanwhile."""
    report = None
    n_rows = 0
    for block in blocks:
        report = report or report_progress(label, context.inform)  # the first block of a sort comes after all reading
        yield block
        n_rows += len(block)
        report(n_rows, None)


class GraphFiles(GraphSource, dg.Resolvable):
    """Files of one source of a graph."""


class Graph(RawInput, dg.Component, dg.Resolvable):
    """``knowledge/<name>/triples``, ``nodes``, ``edges``, ``csr`` and ``node_vectors``."""

    name: str
    files: list[GraphFiles]
    harvested: tuple[str, ...] = ()
    """Assets of the table ``triples`` to merge with the files' triples."""
    harvest_vocabulary: str = ""
    """Source in ``relation_mapping.tsv`` that translates the relations of harvests into the graph's vocabulary; triples
    of other relations are left out. By default, relations stay as they are."""
    best_harvested: int | None = None
    """Maximum triples of each harvested relation, the best by rank; all by default."""

    @property
    def _paths(self) -> list[str]:
        return list(dict.fromkeys(path for f in self.files for path in [*f.paths, f.names] if path))

    def _read_triples(self, context: StageContext, *columns: str) -> Iterator[pl.DataFrame]:
        """Columns of the triples of files and harvests, in blocks."""
        keys = (f"knowledge/{self.name}/triples", *self.harvested)
        files = [(key, path) for key in keys for path in context.lake.files("triples", key)]
        total = sum(pq.read_metadata(path).num_rows for _, path in files)
        n_read = 0
        report = report_progress("triples read", context.inform)
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
        return graph_rows.read_synonyms(self.files, context.lake.fetch_raw(*self._paths))

    def _build_triples(self, context: StageContext) -> StageOutput:
        raw = context.lake.fetch_raw(*self._paths)
        vocabulary = load_vocabulary()
        frames = chain.from_iterable(graph_rows.triple_frames(source, raw, vocabulary) for source in self.files)
        with temporary_folder(context.lake.root) as folder:
            blocks = graph_rows.sort_triples(_with_progress(context, "triples read", frames), folder)
            triples = store_sorted("triples", _with_progress(context, "triples sorted", blocks), folder)
        counts = {count["values"]: count["counts"] for count in triples.rows["licence"].value_counts().to_pylist()}
        return StageOutput(triples, metadata={"by_licence": dg.MetadataValue.json(dict(sorted(counts.items())))})

    def _build_nodes(self, context: StageContext) -> StageOutput:
        triples = self._read_triples(context, "head", "tail", "head_type", "tail_type")
        with temporary_folder(context.lake.root) as folder:
            labels = graph_rows.read_labels(self.files, context.lake.fetch_raw(*self._paths))
            nodes = merge.merge_nodes(triples, self._read_synonyms(context), folder, labels)
            return StageOutput(store_sorted("kg_nodes", _with_progress(context, "nodes merged", nodes), folder))

    def _build_edges(self, context: StageContext) -> StageOutput:
        triples = self._read_triples(context, "head", "relation", "tail", "triple_id", "source", "licence")
        with temporary_folder(context.lake.root) as folder:
            blocks = merge.merge_edges(triples, self._read_synonyms(context), folder)
            edges = store_sorted("kg_edges", _with_progress(context, "edges merged", blocks), folder)
            return StageOutput(edges, store_sorted("lineage_edges", merge.edge_lineage(edges.rows), folder))

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        check_name(self.name, "graph")
        key_prefix = f"knowledge/{self.name}"
        group = f"knowledge_{self.name}"
        if not self.is_in_profile():
            return dg.Definitions()
        source, raw = raw_assets(self, f"raw/graphs/{self.name}", self._paths)
        translation = f":{self.harvest_vocabulary}" if self.harvest_vocabulary else ""
        labels_version = f":{merge.LABELS_VERSION}" if any(file.names for file in self.files) else ""
        triples = table_asset(
            f"{key_prefix}/triples",
            "triples",
            self._build_triples,
            group=group,
            deps=[source],
            code_version=merge.VERSION,
            description=f"Triples of the files of {self.name}, each with its file, line and licence.",
        )
        row_assets, csr = _graph_assets(
            self.name,
            self._build_nodes,
            self._build_edges,
            [source, f"{key_prefix}/triples", *self.harvested],
            group,
            f"{merge.VERSION}:{self.best_harvested}{labels_version}{translation}",
        )
        vectors = [self._node_vectors(name) for name in list_encoders(f"{key_prefix}/node_vectors")]
        return dg.Definitions(
            assets=[*raw, triples, *row_assets, csr, *vectors],
            asset_checks=[table_check(asset) for asset in (triples, *row_assets)],
        )

    def _node_vectors(self, encoder: str) -> dg.AssetsDefinition:
        """Name vectors of one encoder; of the profile's first without a name."""
        nodes_key = f"knowledge/{self.name}/nodes"
        key = key_for_model(f"knowledge/{self.name}/node_vectors", encoder)

        def make(lake: Lake, log: LogFunction) -> tuple[str, dict[str, Any]]:
            profile = profile_with_encoder(encoder)
            model = get_encoder(profile.encoder)
            built_from = graph_store.name_vectors_version(lake, self.name)
            forms, reused = graph_store.build_name_vectors(
                lake.index_folder(key),
                lake.read("kg_nodes", nodes_key),
                model,
                model_key(model),
                built_from,
                profile.index.bytes,
            )
            counts = {"forms": forms, "rows_reused": reused, "rows_computed": forms - reused}
            return content_id(built_from, model_key(model)), {"model": model_key(model), **counts}

        version = f"{merge.VERSION}:{graph_store.NAME_VECTORS_FORMAT}"
        description = f"One normalised vector for each name and alias of {self.name}"
        return files_asset(
            key,
            make,
            kinds=("numpy", "pytorch"),
            deps=[nodes_key],
            **encoder_options(encoder, f"knowledge_{self.name}", version, description),
        )


class GraphPassages(dg.Component, dg.Model, dg.Resolvable):
    """``knowledge/<graph>/passages``: each node's name and each edge's sentence, with vectors."""

    graph: str
    profiles: tuple[str, ...] = ()
    """Profiles that load them; all by default."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not profiles.load().is_any_of(self.profiles):
            return dg.Definitions()
        description = f"Passages of the graph {self.graph}: names of nodes and sentences of edges, with vectors"
        assets = [
            _passages_asset(self.graph, encoder, description, VERSION, _fact_passages, has_edges=True)
            for encoder in list_encoders(f"knowledge/{self.graph}/passages")
        ]
        return dg.Definitions(assets=assets, asset_checks=[table_check(asset, _find_vector_errors) for asset in assets])


def _fact_passages(graph: KnowledgeGraph, _: Encoder, accepts: OwnerFilter) -> Iterable[Passage]:
    return fact_passages(graph, accepts)


def _passages_asset(
    graph: str, encoder: str, description: str, version: str, build: BuildPassages, *, has_edges: bool
) -> dg.AssetsDefinition:
    """Passages of a graph with one encoder's vectors, in the shards of a corpus.

    ``has_edges``: Whether edges have passages, too.
    """

    def make(context: StageContext) -> StageOutput:
        context = with_encoder(context, encoder)
        model = get_encoder(context.profile.encoder)
        shards = context.profile.shards.corpus
        graph_view = open_graph(context.lake, graph, encoder)
        total = len(graph_view) + (len(graph_view.edge_ids) if has_edges else 0)
        report = report_progress("nodes and edges" if has_edges else "nodes", context.inform)
        numbers = count(1)

        def is_in_shard(owner_id: str) -> bool:
            report(next(numbers), total)
            return shard_of(content_id(owner_id), shards) == context.shard

        passages = build(graph_view, model, is_in_shard)
        rows, reused = passage_table(passages, context.previous_rows(), model, model_key(model), context.blocks)
        return StageOutput(rows, passage_lineage(rows, record_encoder(context)), {"model": model_key(model)}, reused)

    return table_asset(
        key_for_model(f"knowledge/{graph}/passages", encoder),
        "kg_passages",
        make,
        deps=[f"knowledge/{graph}/nodes", f"knowledge/{graph}/edges"],
        partitions=corpus_partitions(),
        kinds=("parquet", "pytorch"),
        **encoder_options(encoder, "knowledge", version, description),
    )


def _find_vector_errors(rows: pl.DataFrame) -> list[str]:
    return find_invalid_vectors(rows.rename({"passage_id": "chunk_id"}))


class KnowledgeBase(knowledge_bases.KnowledgeBase, dg.Component, dg.Resolvable):
    """``knowledge/<name>/nodes``, ``edges``, ``csr``, ``passages`` and ``passage_index`` of a folder.

    A node's id in the lake is ``<name>:<id>``; gold answers of benchmarks over this base get the same prefix.
    """

    def _build_nodes(self, context: StageContext) -> StageOutput:
        return StageOutput(node_rows(self.read_nodes(context.lake.raw_path(self.folder)), self.name, self.sources[0]))

    def _build_edges(self, context: StageContext) -> StageOutput:
        edges = self.read_edges(context.lake.raw_path(self.folder))
        with temporary_folder(context.lake.root) as folder:
            blocks = edge_rows(edges, self.name, self.sources[1], folder, self.licence)
            return StageOutput(store_sorted("kg_edges", _with_progress(context, "edges sorted", blocks), folder))

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not self.is_in_profile():
            return dg.Definitions()
        key_prefix = f"knowledge/{self.name}"
        source, raw = raw_assets(self, f"raw/{key_prefix}", [self.folder])
        row_assets, csr = _graph_assets(self.name, self._build_nodes, self._build_edges, [source], "knowledge", "2")
        encoders = list_encoders(f"{key_prefix}/passage_index")
        passages = [self._passages(encoder) for encoder in encoders]
        indexes = [self._passage_index(encoder) for encoder in encoders]
        return dg.Definitions(
            assets=[*raw, *row_assets, csr, *passages, *indexes],
            asset_checks=[
                *map(table_check, row_assets),
                *(table_check(asset, _find_vector_errors) for asset in passages),
            ],
        )

    def _passages(self, encoder: str) -> dg.AssetsDefinition:
        """Passages with vectors of one encoder; of the profile's first without a name."""
        tokens = profiles.load().chunking.passage_tokens
        description = f"Passages of the nodes of {self.name}: documents and relations, with vectors"
        version = f"{NODE_PASSAGES_VERSION}:{tokens}:{VERSION}"
        build = partial(node_passages, tokens=tokens)
        return _passages_asset(self.name, encoder, description, version, build, has_edges=False)

    def _passage_index(self, encoder: str) -> dg.AssetsDefinition:
        """Index over the vectors of one encoder; of the profile's first without a name."""
        key_prefix = f"knowledge/{self.name}"

        def make(lake: Lake, log: LogFunction) -> tuple[str, dict[str, Any]]:
            profile = profile_with_encoder(encoder)
            model = get_encoder(profile.encoder)
            report = report_progress("vectors in the index", log)
            meta = graph_store.build_passage_files(
                lake, self.name, model, model_key(model), profile.index.bytes, report, encoder
            )
            return meta.built_from, meta.metadata

        description = f"Index of the passages of {self.name}, for nearest-node search"
        return files_asset(
            key_for_model(f"{key_prefix}/passage_index", encoder),
            make,
            kinds=("faiss",),
            deps=[f"{key_prefix}/nodes", depends_on(key_for_model(f"{key_prefix}/passages", encoder), ALL_PARTITIONS)],
            **encoder_options(encoder, "knowledge", vector_index.VERSION, description),
        )
