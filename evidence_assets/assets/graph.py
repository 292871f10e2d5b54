"""Knowledge graphs: triples of files and harvests merged into nodes and edges, and knowledge bases with
their passages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl

from evidence_assets import profiles
from evidence_assets.assets.partitions import (
    EVERY,
    corpus_partitions,
    encoding,
    further_encoders,
    tags_of,
    version_of_encoder,
)
from evidence_assets.assets.raw_files import raw_assets
from evidence_assets.assets.table_asset import dep, files_asset, sound_check, table_asset
from evidence_assets.benchmarks import knowledge_bases
from evidence_assets.benchmarks.declared import FromRaw
from evidence_assets.benchmarks.graphs import rows as graph_rows
from evidence_assets.benchmarks.graphs.relations import load
from evidence_assets.benchmarks.graphs.rows import GraphSource
from evidence_assets.experiment.evidence.sources import encoded_by, open_graph
from evidence_assets.experiment.stage import Say, StageContext, StageOutput, progress
from evidence_assets.graphs import merge, stored
from evidence_assets.graphs.arrays import FORMAT
from evidence_assets.graphs.base_rows import edge_rows, node_rows
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.passages import (
    VERSION,
    Mine,
    Passage,
    fact_passages,
    lineage_of,
    node_passages,
    passage_table,
)
from evidence_assets.lake.ids import content_id, shard_of, with_model
from evidence_assets.lake.store import Lake
from evidence_assets.models.in_use import encoder, model_key
from evidence_assets.models.protocols import Encoder
from evidence_assets.retrieval import vector_index
from evidence_assets.retrieval.corpus import vectors_wrong
from evidence_assets.systems import four_step_focus


def rows_asset(name: str, group: str, version: str) -> dg.AssetsDefinition:
    """``knowledge/<name>/csr``: the graph of nodes and edges in compressed rows."""
    base = f"knowledge/{name}"

    def make(lake: Lake, say: Say) -> tuple[str, dict[str, Any]]:
        built_from = stored.tables_version(lake, name, "nodes", "edges")
        arrays = stored.build_arrays(lake, name, built_from)
        return built_from, {"nodes": arrays.n_nodes, "edges": arrays.n_edges}

    return files_asset(
        f"{base}/csr",
        make,
        description=f"{name} in compressed rows, to walk on; remembers what it was built from.",
        group=group,
        code_version=f"{version}:{FORMAT}:{stored.MAPPED_FORMAT}",
        kinds=("numpy",),
        deps=[f"{base}/nodes", f"{base}/edges"],
    )


class GraphFiles(dg.Model, dg.Resolvable):
    """Files of one source of a graph."""

    format: str
    """A name of ``benchmarks.graphs.formats``."""
    paths: list[str]
    """Its files below the lake's ``raw``, as many as the format takes."""
    licence: str
    """Under which terms its triples may be used; kept with every edge."""
    names: str = ""
    """File below ``raw`` of id TAB name, where its triples or the questions that name their entities are in ids."""


class Graph(FromRaw, dg.Component, dg.Resolvable):
    """Makes ``knowledge/<name>/triples``, ``nodes``, ``edges``, ``csr`` and ``node_vectors``, the last also for every
    further encoder that a loaded variant reads it with."""

    name: str
    files: list[GraphFiles]
    harvested: tuple[str, ...] = ()
    """Assets of the table ``triples`` that are merged with what the files state."""
    best_harvested: int | None = None
    """Best triples kept of each harvested relation; all where no number is given."""

    @property
    def _sources(self) -> list[GraphSource]:
        return [GraphSource(f.format, tuple(f.paths), f.licence, f.names) for f in self.files]

    @property
    def _paths(self) -> list[str]:
        """Every file that it is read from."""
        return list(dict.fromkeys(path for f in self.files for path in [*f.paths, f.names] if path))

    def _raw(self, step: StageContext) -> Path:
        return step.lake.raw_with(*self._paths)

    def _merged(self, step: StageContext) -> merge.Merged:
        triples = [step.read("triples", f"knowledge/{self.name}/triples")]
        triples += [merge.best_of(step.read("triples", key), self.best_harvested) for key in self.harvested]
        return merge.merge(pl.concat(triples), graph_rows.synonyms(self._sources, self._raw(step)))

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        base, group = f"knowledge/{self.name}", f"knowledge_{self.name}"
        if not self.runs_in():
            return dg.Definitions()
        source, raw = raw_assets(self, f"raw/graphs/{self.name}", self._paths)
        merged_from = [source, f"{base}/triples", *self.harvested]

        def make_triples(step: StageContext) -> StageOutput:
            table = graph_rows.triple_table(self._sources, self._raw(step), load())
            counts = table.group_by("licence").len().sort("licence")
            return StageOutput(table, metadata={"by_licence": dg.MetadataValue.json(dict(counts.iter_rows()))})

        def make_nodes(step: StageContext) -> StageOutput:
            nodes, _ = self._merged(step)
            return StageOutput(nodes, metadata={"with_aliases": int((nodes["aliases"].list.len() > 0).sum())})

        def make_edges(step: StageContext) -> StageOutput:
            _, edges = self._merged(step)
            return StageOutput(edges, merge.edge_lineage(edges))

        graph_assets = [
            table_asset(
                f"{base}/triples",
                "triples",
                make_triples,
                group=group,
                deps=[source],
                code_version=merge.VERSION,
                description=f"Triples of the files of {self.name}, each with its file, line and licence.",
            ),
            table_asset(
                f"{base}/nodes",
                "kg_nodes",
                make_nodes,
                group=group,
                deps=merged_from,
                code_version=f"{merge.VERSION}:{self.best_harvested}",
                description=f"Nodes of {self.name}: names that are written alike once case, number and marks "
                f"are put aside.",
            ),
            table_asset(
                f"{base}/edges",
                "kg_edges",
                make_edges,
                group=group,
                deps=merged_from,
                code_version=f"{merge.VERSION}:{self.best_harvested}",
                description=f"Edges of {self.name}, each with the triples, sources and licences that it was "
                f"merged from.",
            ),
        ]

        named = [self._node_vectors(name) for name in ("", *further_encoders(f"{base}/node_vectors"))]
        return dg.Definitions(
            assets=[*raw, *graph_assets, rows_asset(self.name, group, merge.VERSION), *named],
            asset_checks=[sound_check(asset) for asset in graph_assets],
        )

    def _node_vectors(self, name: str) -> dg.AssetsDefinition:
        """Vectors of names by one encoder: by the profile's first where none is named."""
        base = f"knowledge/{self.name}"
        key = with_model(f"{base}/node_vectors", name)

        def make(lake: Lake, say: Say) -> tuple[str, dict[str, Any]]:
            profile = profiles.load().using({"encoder": name} if name else {})
            model, built_from = encoder(profile.encoder), stored.names_version(lake, self.name)
            nodes, memory = lake.read("kg_nodes", f"{base}/nodes"), profile.index.bytes
            forms, reused = stored.build_name_vectors(
                lake.index_folder(key), nodes, model, model_key(model), built_from, memory
            )
            counts = {"forms": forms, "rows_reused": reused, "rows_computed": forms - reused}
            return content_id(built_from, model_key(model)), {"model": model_key(model), **counts}

        return files_asset(
            key,
            make,
            group="_".join(filter(None, ["knowledge", self.name, name])),
            description=f"One normalised vector a name and alias of {self.name}{f' by {name}' if name else ''}.",
            code_version=f"{merge.VERSION}:{stored.FORMS_FORMAT}{version_of_encoder(name)}",
            kinds=("numpy", "pytorch"),
            deps=[f"{base}/nodes"],
            pool="gpu",
            tags=tags_of(name),
        )


class GraphPassages(dg.Component, dg.Model, dg.Resolvable):
    """Makes ``knowledge/<graph>/passages``: each node by its name and each edge by its sentence, with vectors."""

    graph: str
    profiles: tuple[str, ...] = ()
    """Profiles in which they are made; in all where none is named."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not profiles.load().is_any_of(self.profiles):
            return dg.Definitions()
        place = f"knowledge/{self.graph}/passages"
        content, cut = (
            f"Names and facts of the graph {self.graph} in words",
            lambda graph, _, mine: fact_passages(graph, mine),
        )
        assets = [passages_asset(self.graph, name, content, "", cut) for name in ("", *further_encoders(place))]
        return dg.Definitions(assets=assets, asset_checks=[sound_check(asset, unit_length) for asset in assets])


def passages_asset(
    graph: str, name: str, content: str, version: str, cut: Callable[[KnowledgeGraph, Encoder, Mine], Iterable[Passage]]
) -> dg.AssetsDefinition:
    """Passages of a graph with the vectors of one encoder: of the profile's first where none is named.

    They have as many shards as a corpus has, so that memory holds the vectors of one.
    """
    place = f"knowledge/{graph}"

    def make(step: StageContext) -> StageOutput:
        step = encoding(step, name)
        model = encoder(step.profile.encoder)
        shards = step.profile.shards.corpus
        passages = cut(
            open_graph(step.lake, graph, name), model, lambda own: shard_of(content_id(own), shards) == step.shard
        )
        table, reused = passage_table(passages, step.previous(), model, model_key(model), step.blocks)
        for kept in ("kg_passages", "lineage_edges"):
            step.lake.delete(kept, step.asset, "")  # releases before had one partition
        return StageOutput(table, lineage_of(table, encoded_by(step)), {"model": model_key(model)}, reused)

    return table_asset(
        with_model(f"{place}/passages", name),
        "kg_passages",
        make,
        description=f"{content}, with their vectors{f' by {name}' if name else ''}.",
        group="_".join(filter(None, ["knowledge", name])),
        code_version=f"{version}{VERSION}{version_of_encoder(name)}",
        deps=[f"{place}/nodes", f"{place}/edges"],
        partitions=corpus_partitions(),
        kinds=("parquet", "pytorch"),
        pool="gpu",
        tags=tags_of(name),
    )


def unit_length(rows: pl.DataFrame) -> list[str]:
    """What is wrong with the vectors of passages."""
    return vectors_wrong(rows.rename({"passage_id": "chunk_id"}))


class KnowledgeBase(knowledge_bases.KnowledgeBase, dg.Component, dg.Resolvable):
    """Makes ``knowledge/<name>/nodes``, ``edges``, ``csr``, ``passages`` and ``passage_index`` of a folder.

    A node's id in the lake is ``<name>:<its own id>``; gold answers of benchmarks that name this base as their graph
    are read with the same prefix.
    """

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not self.runs_in():
            return dg.Definitions()
        place, group = f"knowledge/{self.name}", "knowledge"
        source, raw = raw_assets(self, f"raw/knowledge/{self.name}", [self.folder])

        def make_nodes(step: StageContext) -> StageOutput:
            nodes = node_rows(self.read_nodes(step.lake.raw_place(self.folder)), self.name, self.sources[0])
            return StageOutput(nodes, metadata={"types": nodes["type"].n_unique()})

        def make_edges(step: StageContext) -> StageOutput:
            edges_read = self.read_edges(step.lake.raw_place(self.folder))
            edges = edge_rows(edges_read, self.name, self.sources[1], self.licence)
            return StageOutput(edges, metadata={"types": edges_read["relation"].n_unique()})

        nodes = table_asset(
            f"{place}/nodes",
            "kg_nodes",
            make_nodes,
            description=f"Nodes of {self.name} with their documents.",
            group=group,
            code_version="2",
            deps=[source],
        )
        edges = table_asset(
            f"{place}/edges",
            "kg_edges",
            make_edges,
            description=f"Typed edges of {self.name}.",
            group=group,
            code_version="2",
            deps=[source],
        )
        encoded = [self._encoded(name) for name in ("", *further_encoders(f"{place}/passage_index"))]
        return dg.Definitions(
            assets=[
                *raw,
                nodes,
                edges,
                rows_asset(self.name, group, "1"),
                *(asset for pair in encoded for asset in pair),
            ],
            asset_checks=[
                sound_check(nodes),
                sound_check(edges),
                *(sound_check(passages, unit_length) for passages, _ in encoded),
            ],
        )

    def _encoded(self, name: str) -> tuple[dg.AssetsDefinition, dg.AssetsDefinition]:
        """Passages and their index by one encoder: by the profile's first where none is named."""
        place, group = f"knowledge/{self.name}", "_".join(filter(None, ["knowledge", name]))
        passages_key, by = with_model(f"{place}/passages", name), f" by {name}" if name else ""

        content = f"Documents and relations of the nodes of {self.name} in passages"
        tokens = profiles.load().chunking.passage_tokens
        cut = partial(node_passages, tokens=tokens)
        passages = passages_asset(self.name, name, content, f"{four_step_focus.VERSION}:{tokens}:", cut)

        def make(lake: Lake, say: Say) -> tuple[str, dict[str, Any]]:
            settings = profiles.load().using({"encoder": name} if name else {})
            model, heard = encoder(settings.encoder), progress("vectors in the index", say)
            meta = stored.build_passage_files(
                lake, self.name, model, model_key(model), settings.index.bytes, heard, name
            )
            return meta.built_from, meta.shown

        index = files_asset(
            with_model(f"{place}/passage_index", name),
            make,
            group=group,
            code_version=vector_index.VERSION,
            description=f"Passages of the nodes of {self.name} in files, with an index that finds the nearest "
            f"nodes{by}.",
            kinds=("faiss",),
            deps=[f"{place}/nodes", dep(passages_key, EVERY)],
            tags=tags_of(name),
        )
        return passages, index
