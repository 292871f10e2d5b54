"""Vectors of a graph's names and facts, for systems that compare them with questions."""

from __future__ import annotations

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.encoders import encoding, further_encoders, tags_of, version_of_encoder
from evidence_assets.assets.knowledge_base import unit_length
from evidence_assets.assets.table_asset import sound_check, table_asset
from evidence_assets.experiment.inputs import encoded_by, open_graph
from evidence_assets.experiment.step import Made, Step
from evidence_assets.graphs import passages as graph_passages
from evidence_assets.lake.ids import with_model
from evidence_assets.models.in_use import encoder, model_key


class GraphPassages(dg.Component, dg.Model, dg.Resolvable):
    """Makes ``knowledge/<graph>/passages``: each node by its name and each edge by its sentence, with vectors."""

    graph: str
    profiles: tuple[str, ...] = ()
    """Profiles in which they are made; in all where none is named."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not profiles.load().is_any_of(self.profiles):
            return dg.Definitions()
        names = ("", *further_encoders(f"knowledge/{self.graph}/passages"))
        assets = [self._passages(name) for name in names]
        return dg.Definitions(assets=assets, asset_checks=[sound_check(asset, unit_length) for asset in assets])

    def _passages(self, name: str) -> dg.AssetsDefinition:
        """Passages with the vectors of one encoder: of the profile's first where none is named."""
        place = f"knowledge/{self.graph}"

        def make(step: Step) -> Made:
            step = encoding(step, name)
            model = encoder(step.profile.encoder)
            passages = graph_passages.fact_passages(open_graph(step.lake, self.graph, name))
            table, reused = graph_passages.passage_table(
                passages, step.previous(), model, model_key(model), step.blocks
            )
            return Made(table, graph_passages.lineage_of(table, encoded_by(step)), {"model": model_key(model)}, reused)

        return table_asset(
            with_model(f"{place}/passages", name),
            "kg_passages",
            make,
            description=f"Names and facts of the graph {self.graph} in words, with their vectors{f' by {name}' if name else ''}.",
            group="_".join(filter(None, ["knowledge", name])),
            code_version=f"{graph_passages.VERSION}{version_of_encoder(name)}",
            deps=[f"{place}/nodes", f"{place}/edges"],
            kinds=("parquet", "pytorch"),
            pool="gpu",
            tags=tags_of(name),
        )
