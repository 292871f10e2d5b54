"""The printed figures as a table, with what would fill each or the reason why nothing can."""

from typing import Any

import dagster as dg

from evidence_assets import systems
from evidence_assets.assets.partitions import EVERY
from evidence_assets.assets.table_asset import dep, files_asset
from evidence_assets.experiment.stage import Say, Stage
from evidence_assets.experiment.stages import all_stages
from evidence_assets.experiment.variants import variants
from evidence_assets.lake.catalogue import connect
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import Lake
from evidence_assets.reproduction.cells import candidates, declared_cells, figure_rows
from evidence_assets.reproduction.ours import scores_beside, with_ours

KEY = "report/scoreboard"


def score_stages() -> list[Stage]:
    """The scores of every loaded variant: of questions by benchmark, of harvests as a whole."""
    every = (stage for v in variants() if v.loaded for stage in all_stages(systems.load(v.system), v))
    return sorted((stage for stage in every if stage.table == "scores"), key=lambda stage: stage.key)


def _report(lake: Lake, say: Say) -> tuple[str, dict[str, Any]]:
    cells = declared_cells(candidates())
    figures = figure_rows(cells)
    lake.write(KEY, "", {"published_figures": figures})
    with connect(lake.root, memory=None) as connection:
        filled = sum(cell.filled for cell in with_ours(cells, scores_beside(connection, cells)))
    fillable = sum(cell.fillable for cell in cells)
    return content_id(figures, filled), {"printed": len(cells), "fillable": fillable, "filled": filled}


class Scoreboard(dg.Component, dg.Model, dg.Resolvable):
    """Makes ``report/scoreboard``."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        scoreboard = files_asset(
            KEY,
            _report,
            group="scores",
            code_version="5",
            description=(
                "published_figures: what would fill each printed cell, or why nothing can. `evidence scoreboard` and "
                "`evidence reproduce` show the scores beside them."
            ),
            deps=[dep(stage.key, EVERY if stage.partitions else None) for stage in score_stages()],
        )
        return dg.Definitions(assets=[scoreboard])
