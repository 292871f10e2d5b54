"""Components for knowledge graphs (of files and harvests) and knowledge bases with passages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import dagster as dg
import polars as pl

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
from evidence_assets.benchmarks.graphs.rows import GraphSource
from evidence_assets.experiment.graph_building import (
    BuildPassages,
    GraphBuilder,
    build_arrays,
    build_fact_passages,
    build_name_vectors,
    build_passages,
    show_progress,
)
from evidence_assets.experiment.stage import LogFunction, ProgressReporter, StageContext, StageOutput
from evidence_assets.graphs import graph_store, merge
from evidence_assets.graphs.arrays import FORMAT
from evidence_assets.graphs.merge import edge_rows, node_rows
from evidence_assets.graphs.passages import NODE_PASSAGES_VERSION, VERSION, node_passages
from evidence_assets.lake.atomic import temporary_folder
from evidence_assets.lake.ids import key_for_model
from evidence_assets.lake.sorted_rows import store_sorted
from evidence_assets.lake.store import Lake
from evidence_assets.models.registry import get_encoder, model_key
from evidence_assets.retrieval import vector_index
from evidence_assets.retrieval.corpus import find_invalid_vectors

BuildRows = Callable[[StageContext], StageOutput]


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
        built_from, arrays = build_arrays(lake, name)
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
    def builder(self) -> GraphBuilder:
        return GraphBuilder(self.name, self.files, self.harvested, self.best_harvested, self.harvest_vocabulary)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        check_name(self.name, "graph")
        key_prefix = f"knowledge/{self.name}"
        group = f"knowledge_{self.name}"
        if not self.is_in_profile():
            return dg.Definitions()
        builder = self.builder
        source, raw = raw_assets(self, f"raw/graphs/{self.name}", builder.paths)
        translation = f":{self.harvest_vocabulary}" if self.harvest_vocabulary else ""
        labels_version = f":{merge.LABELS_VERSION}" if any(file.names for file in self.files) else ""
        triples = table_asset(
            f"{key_prefix}/triples",
            "triples",
            builder.build_triples,
            group=group,
            deps=[source],
            code_version=merge.VERSION,
            description=f"Triples of the files of {self.name}, each with its file, line and licence.",
        )
        row_assets, csr = _graph_assets(
            self.name,
            builder.build_nodes,
            builder.build_edges,
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
            version, forms, reused = build_name_vectors(lake, self.name, profile, encoder)
            counts = {"forms": forms, "rows_reused": reused, "rows_computed": forms - reused}
            return version, {"model": model_key(get_encoder(profile.encoder)), **counts}

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
            _passages_asset(self.graph, encoder, description, VERSION, build_fact_passages, has_edges=True)
            for encoder in list_encoders(f"knowledge/{self.graph}/passages")
        ]
        return dg.Definitions(assets=assets, asset_checks=[table_check(asset, _find_vector_errors) for asset in assets])


def _passages_asset(
    graph: str, encoder: str, description: str, version: str, build: BuildPassages, *, has_edges: bool
) -> dg.AssetsDefinition:
    """Passages of a graph with one encoder's vectors, in the shards of a corpus.

    ``has_edges``: Whether edges have passages, too.
    """

    def make(context: StageContext) -> StageOutput:
        return build_passages(with_encoder(context, encoder), graph, build, has_edges=has_edges)

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
            return StageOutput(store_sorted("kg_edges", show_progress(context, "edges sorted", blocks), folder))

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
            report = ProgressReporter("vectors in the index", log)
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
