"""Vectors of a graph's names and facts, for systems that compare them with questions."""

from __future__ import annotations

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.knowledge_base import unit_length
from evidence_assets.assets.table_asset import sound_check, table_asset
from evidence_assets.experiment.inputs import open_graph
from evidence_assets.experiment.step import Made, Step
from evidence_assets.graphs import passages as graph_passages
from evidence_assets.models.in_use import encoder, model_key


class GraphPassages(dg.Component, dg.Model, dg.Resolvable):
    """Makes ``knowledge/<graph>/passages``: each node by its name and each edge by its sentence, with vectors."""

    graph: str
    profiles: tuple[str, ...] = ()
    """Profiles in which they are made; in all where none is named."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not profiles.load().is_any_of(self.profiles):
            return dg.Definitions()
        place = f"knowledge/{self.graph}"

        def make(step: Step) -> Made:
            model = encoder(step.profile.encoder)
            passages = graph_passages.fact_passages(open_graph(step.lake, self.graph))
            table, reused = graph_passages.passage_table(passages, step.previous(), model, model_key(model))
            return Made(table, graph_passages.lineage_of(table), {"model": model_key(model)}, reused)

        asset = table_asset(
            f"{place}/passages",
            "kg_passages",
            make,
            description=f"Names and facts of the graph {self.graph} in words, with their vectors.",
            group="knowledge",
            code_version=graph_passages.VERSION,
            deps=[f"{place}/nodes", f"{place}/edges"],
            kinds=("parquet", "pytorch"),
            pool="gpu",
        )
        return dg.Definitions(assets=[asset], asset_checks=[sound_check(asset, unit_length)])
