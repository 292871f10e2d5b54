"""Components for the systems: the assets of all variants, from evidence to scores, and the scoreboard."""

from __future__ import annotations

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
from evidence_assets.assets.table_asset import depends_on, files_asset, picture_metadata, table_asset, table_check
from evidence_assets.experiment.scores.scoreboard import draw_scoreboard
from evidence_assets.experiment.stage import LogFunction, Partitions, Stage, StageInput
from evidence_assets.experiment.stages import build_all_stages
from evidence_assets.experiment.variants import Variant, variants
from evidence_assets.lake.catalogue import connect
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.templates import PACKAGED
from evidence_assets.reproduction.cells import add_scores, build_cells, cell_rows, find_cell_sources, load_scores

PRESET_TAG = "preset/"
SCOREBOARD = "report/scoreboard"


def partitions_definition(by: Partitions, family: str) -> dg.PartitionsDefinition | None:  # type: ignore[type-arg]
    if by == "questions":
        return question_partitions(family)
    if by == "benchmarks":
        return benchmark_partitions(family)
    return RELATIONS if by == "relations" else None


def build_deps(inputs: Sequence[StageInput]) -> list[dg.AssetDep]:
    """Dagster dependencies on these inputs."""
    mappings: dict[str, dg.PartitionMapping | None] = {"same": None, "every": ALL_PARTITIONS, "benchmark": BY_BENCHMARK}
    return [depends_on(stage_input.key, mappings[stage_input.partitions]) for stage_input in inputs]


def build_variant_defs(*variants: Variant) -> dg.Definitions:
    """Assets and checks of variants with all their models; an asset that several share is built once.

    A shared asset has the presets of all its variants.
    """
    owners: dict[str, tuple[Stage, Variant]] = {}
    presets: dict[str, dict[str, str]] = {}
    for variant in variants:
        for stage in build_all_stages(systems.open_method(variant)):
            owners.setdefault(stage.key, (stage, variant))
            presets.setdefault(stage.key, {}).update({f"{PRESET_TAG}{name}": "" for name in variant.printed.presets})
    assets = []
    checks = []
    for stage, variant in owners.values():
        models = list(stage.models.values())
        asset = table_asset(
            stage.key,
            stage.table,
            stage.run,
            description=stage.description,
            group="_".join([variant.group or variant.system, *models]),
            code_version=stage.version,
            deps=build_deps(stage.inputs),
            partitions=partitions_definition(stage.partitions, stage.family),
            kinds=stage.kinds,
            pool=stage.pool,
            tags=presets[stage.key] | {f"{MODEL_TAG}{name}": "" for name in models},
        )
        assets.append(asset)
        checks.append(table_check(asset, stage.check, stage.warning_check))
    return dg.Definitions(assets=assets, asset_checks=checks)


class Systems(dg.Component, dg.Model, dg.Resolvable):
    """The assets of every loaded variant of every system (``systems/<name>/variants.yaml``)."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        for variant in variants():
            # Variants that are not loaded are validated, too.
            systems.open_method(variant)
            if variant.prompt_settings != PACKAGED:
                variant.prompt_settings.check(systems.load_templates())
        return build_variant_defs(*(variant for variant in variants() if variant.is_loaded))


def _build_scoreboard(lake: Lake, log: LogFunction) -> tuple[str, dict[str, Any]]:
    cells = build_cells(find_cell_sources())
    rows = cell_rows(cells)
    lake.write(SCOREBOARD, "", {"published_figures": rows})
    with connect(lake.root, memory=None) as connection:
        filled = sum(cell.filled for cell in add_scores(cells, load_scores(connection)))
        pictures = draw_scoreboard(connection)
    counts = {"printed": len(cells), "filled": filled, "fillable": sum(not cell.reason for cell in cells)}
    return content_id(rows), picture_metadata(pictures) | counts


class Scoreboard(dg.Component, dg.Model, dg.Resolvable):
    """``report/scoreboard``: the published figures, and a picture of each benchmark's scores."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        stages = (stage for v in variants() if v.is_loaded for stage in build_all_stages(systems.open_method(v)))
        scored = {stage.key: stage.partitions for stage in stages if stage.table == "scores"}
        scoreboard = files_asset(
            SCOREBOARD,
            _build_scoreboard,
            group="scores",
            code_version="8",
            description=(
                "The variants that reproduce each published figure, or why none can. The metadata has a picture of the "
                "scores on each benchmark, with their 95 % intervals and published figures."
            ),
            deps=[depends_on(key, ALL_PARTITIONS if scored[key] else None) for key in sorted(scored)],
        )
        return dg.Definitions(assets=[scoreboard])
