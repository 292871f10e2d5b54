"""The systems: the assets of all variants, from evidence to scores, made of the stages that each states."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import dagster as dg

from evidence_assets import systems
from evidence_assets.assets.partitions import (
    ALL_PARTITIONS,
    BY_BENCHMARK,
    MODEL_TAG,
    benchmark_partitions,
    question_partitions,
)
from evidence_assets.assets.seeds import RELATIONS
from evidence_assets.assets.table_asset import dep, files_asset, table_asset, table_check
from evidence_assets.experiment.scores import plots
from evidence_assets.experiment.stage import Partitions, Read, Say, Stage
from evidence_assets.experiment.stages import all_stages
from evidence_assets.experiment.variants import Variant, variants
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.catalogue import connect
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.templates import PACKAGED_PROMPTS
from evidence_assets.reproduction.cells import add_scores, build_cells, cell_rows, find_cell_sources, load_scores

PRESET_TAG, SCOREBOARD = "preset/", "report/scoreboard"


def partitions_of(by: Partitions, family: str) -> dg.PartitionsDefinition | None:  # type: ignore[type-arg]
    if by == "questions":
        return question_partitions(family)
    if by == "benchmarks":
        return benchmark_partitions(family)
    return RELATIONS if by == "relations" else None


def deps_of(reads: Sequence[Read]) -> list[dg.AssetDep]:
    """The dependencies that reading these assets comes to."""
    over: dict[str, dg.PartitionMapping | None] = {"same": None, "every": ALL_PARTITIONS, "benchmark": BY_BENCHMARK}
    return [dep(read.key, over[read.over]) for read in reads]


def asset_of(stage: Stage, group: str, tags: dict[str, str]) -> dg.AssetsDefinition:
    return table_asset(
        stage.key,
        stage.table,
        stage.run,
        description=stage.description,
        group=group,
        code_version=stage.version,
        deps=deps_of(stage.reads),
        partitions=partitions_of(stage.partitions, stage.family),
        kinds=stage.kinds,
        pool=stage.pool,
        tags=tags,
    )


def variant_defs(variant: Variant) -> dg.Definitions:
    """The assets of one variant, with all models that it is crossed with, and their checks."""
    tags = {f"{PRESET_TAG}{name}": "" for name in variant.presets}
    assets, checks = [], []
    for stage in all_stages(systems.load(variant.system), variant):
        models = list(stage.models.values())
        group = "_".join([variant.group or variant.system, *models])
        asset = asset_of(stage, group, tags | {f"{MODEL_TAG}{name}": "" for name in models})
        assets.append(asset)
        checks.append(table_check(asset, stage.check, stage.against))
    return dg.Definitions(assets=assets, asset_checks=checks)


class Systems(dg.Component, dg.Model, dg.Resolvable):
    """Makes the assets of every loaded variant of every system, see ``systems/<name>/variants.yaml``."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        loaded = []
        for variant in variants():
            # A mistake in a variant that is not opted in is reported all the same.
            systems.load(variant.system).method_of(variant).settings_of(variant)
            if variant.words != PACKAGED_PROMPTS:
                variant.words.check(systems.load_templates())
            if variant.loaded:
                loaded.append(variant_defs(variant))
        return dg.Definitions.merge(*loaded) if loaded else dg.Definitions()


def score_stages() -> list[Stage]:
    """The scores of every loaded variant: of questions by benchmark, of harvests as a whole."""
    every = (stage for v in variants() if v.loaded for stage in all_stages(systems.load(v.system), v))
    return sorted((stage for stage in every if stage.table == "scores"), key=lambda stage: stage.key)


def _build_scoreboard(lake: Lake, say: Say) -> tuple[str, dict[str, Any]]:
    cells = build_cells(find_cell_sources())
    figures = cell_rows(cells)
    lake.write(SCOREBOARD, "", {"published_figures": figures})
    with connect(lake.root, memory=None) as connection:
        filled = sum(cell.filled for cell in add_scores(cells, load_scores(connection, cells)))
        images = plots.draw(connection)
    folder = lake.root / "reports" / "scoreboard"
    with replacing_folder(folder) as temporary:
        for name, image in images.items():
            (temporary / name).write_bytes(image)
    shown: dict[str, Any] = {"folder": dg.MetadataValue.path(str(folder)), "printed": len(cells), "filled": filled}
    shown["fillable"] = sum(cell.fillable for cell in cells)
    for name, image in images.items():
        encoded = base64.b64encode(image).decode()
        shown[name.removesuffix(".png")] = dg.MetadataValue.md(f"![{name}](data:image/png;base64,{encoded})")
    return content_id(figures, {name: image.hex() for name, image in images.items()}), shown


class Scoreboard(dg.Component, dg.Model, dg.Resolvable):
    """Makes ``report/scoreboard``."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        scoreboard = files_asset(
            SCOREBOARD,
            _build_scoreboard,
            group="scores",
            code_version="7",
            description=(
                "Plots of every variant's accuracy beside the printed figure and by confidence; and published_figures: "
                "what would fill each printed cell, or why nothing can."
            ),
            deps=[dep(stage.key, ALL_PARTITIONS if stage.partitions else None) for stage in score_stages()],
        )
        return dg.Definitions(assets=[scoreboard])
