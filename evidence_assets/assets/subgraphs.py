"""What each multiple-choice question names in its benchmark's graph, and the part of the graph around it."""

from __future__ import annotations

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.partitions import question_partitions
from evidence_assets.assets.system import deps_of
from evidence_assets.assets.table_asset import sound_check, table_asset
from evidence_assets.benchmarks.declared import of_family
from evidence_assets.experiment.inputs import make_subgraphs
from evidence_assets.experiment.question_concepts import VERSION
from evidence_assets.experiment.stage import Read
from evidence_assets.experiment.system import source_reads


class Subgraphs(dg.Component, dg.Model, dg.Resolvable):
    """Makes ``subgraphs/mcqa``."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not of_family("mcqa"):
            return dg.Definitions()
        limits = profiles.load().ugat
        asset = table_asset(
            "subgraphs/mcqa",
            "subgraphs",
            make_subgraphs,
            description="Concepts of each question and of its options in the benchmark's graph, and the graph around them.",
            group="ugat",
            code_version=f"{VERSION}:{limits.D}:{limits.cap}:{limits.max_nodes}",
            deps=deps_of([Read("questions/mcqa"), *source_reads("mcqa", ("graph",))]),
            partitions=question_partitions("mcqa"),
            pool="gpu",
        )
        return dg.Definitions(assets=[asset], asset_checks=[sound_check(asset)])
