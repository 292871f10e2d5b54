"""What each multiple-choice question names in its benchmark's graph, and the part of the graph around it."""

from __future__ import annotations

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.encoders import encoding, further_encoders, tags_of, version_of_encoder
from evidence_assets.assets.partitions import question_partitions
from evidence_assets.assets.system import deps_of
from evidence_assets.assets.table_asset import sound_check, table_asset
from evidence_assets.benchmarks.declared import of_family
from evidence_assets.experiment.inputs import make_subgraphs
from evidence_assets.experiment.question_concepts import VERSION
from evidence_assets.experiment.stage import Read
from evidence_assets.experiment.system import source_reads
from evidence_assets.lake.ids import with_model


class Subgraphs(dg.Component, dg.Model, dg.Resolvable):
    """Makes ``subgraphs/mcqa``, and ``subgraphs/mcqa/<encoder>`` for every further encoder that a loaded variant reads them
    with."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not of_family("mcqa"):
            return dg.Definitions()
        assets = [_asset(name) for name in ("", *further_encoders("subgraphs/mcqa"))]
        return dg.Definitions(assets=assets, asset_checks=[sound_check(asset) for asset in assets])


def _asset(name: str) -> dg.AssetsDefinition:
    """Subgraphs of concepts that one encoder linked: the profile's first where none is named."""
    limits = profiles.load().ugat
    return table_asset(
        with_model("subgraphs/mcqa", name),
        "subgraphs",
        lambda step: make_subgraphs(encoding(step, name)),
        description="Concepts of each question and of its options in the benchmark's graph, and the graph around them.",
        group="_".join(filter(None, ["ugat", name])),
        code_version=f"{VERSION}:{limits.D}:{limits.cap}:{limits.max_nodes}{version_of_encoder(name)}",
        deps=deps_of([Read("questions/mcqa"), *source_reads("mcqa", ("graph",), name)]),
        partitions=question_partitions("mcqa"),
        pool="gpu",
        tags=tags_of(name),
    )
