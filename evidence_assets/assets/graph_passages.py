"""Vectors of a graph's names and facts, for systems that compare them with questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import dagster as dg
import polars as pl

from evidence_assets import profiles
from evidence_assets.assets.encoders import encoding, further_encoders, tags_of, version_of_encoder
from evidence_assets.assets.partitions import corpus_partitions
from evidence_assets.assets.table_asset import sound_check, table_asset
from evidence_assets.experiment.inputs import encoded_by, open_graph
from evidence_assets.experiment.step import Made, Step
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.passages import VERSION, Mine, Passage, fact_passages, lineage_of, passage_table
from evidence_assets.lake.ids import content_id, shard_of, with_model
from evidence_assets.models.in_use import encoder, model_key
from evidence_assets.models.protocols import Encoder
from evidence_assets.retrieval.corpus import vectors_wrong


class GraphPassages(dg.Component, dg.Model, dg.Resolvable):
    """Makes ``knowledge/<graph>/passages``: each node by its name and each edge by its sentence, with vectors."""

    graph: str
    profiles: tuple[str, ...] = ()
    """Profiles in which they are made; in all where none is named."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not profiles.load().is_any_of(self.profiles):
            return dg.Definitions()
        place = f"knowledge/{self.graph}/passages"
        said, cut = (
            f"Names and facts of the graph {self.graph} in words",
            lambda graph, _, mine: fact_passages(graph, mine),
        )
        assets = [passages_asset(self.graph, name, said, "", cut) for name in ("", *further_encoders(place))]
        return dg.Definitions(assets=assets, asset_checks=[sound_check(asset, unit_length) for asset in assets])


def passages_asset(
    graph: str, name: str, said: str, version: str, cut: Callable[[KnowledgeGraph, Encoder, Mine], Iterable[Passage]]
) -> dg.AssetsDefinition:
    """Passages of a graph with the vectors of one encoder: of the profile's first where none is named.

    They have as many shards as a corpus has, so that memory holds the vectors of one.
    """
    place = f"knowledge/{graph}"

    def make(step: Step) -> Made:
        step = encoding(step, name)
        model = encoder(step.profile.encoder)
        shards = step.profile.shards.corpus
        passages = cut(
            open_graph(step.lake, graph, name), model, lambda own: shard_of(content_id(own), shards) == step.shard
        )
        table, reused = passage_table(passages, step.previous(), model, model_key(model), step.blocks)
        for kept in ("kg_passages", "lineage_edges"):
            step.lake.delete(kept, step.asset, "")  # releases before had one partition
        return Made(table, lineage_of(table, encoded_by(step)), {"model": model_key(model)}, reused)

    return table_asset(
        with_model(f"{place}/passages", name), "kg_passages", make,
        description=f"{said}, with their vectors{f' by {name}' if name else ''}.",
        group="_".join(filter(None, ["knowledge", name])), code_version=f"{version}{VERSION}{version_of_encoder(name)}",
        deps=[f"{place}/nodes", f"{place}/edges"], partitions=corpus_partitions(), kinds=("parquet", "pytorch"), pool="gpu", tags=tags_of(name),
    )  # fmt: skip


def unit_length(rows: pl.DataFrame) -> list[str]:
    """What is wrong with the vectors of passages."""
    return vectors_wrong(rows.rename({"passage_id": "chunk_id"}))
