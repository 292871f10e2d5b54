"""The report on all scores: pictures that are drawn anew when a score changes, and the printed figures as a table."""

import base64
from typing import Any

import dagster as dg

from evidence_assets import systems
from evidence_assets.assets.partitions import EVERY
from evidence_assets.assets.table_asset import dep, files_asset
from evidence_assets.experiment.scores import graph_stages, plots
from evidence_assets.experiment.stage import Say, Stage
from evidence_assets.experiment.stages import all_stages
from evidence_assets.experiment.variants import variants
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.catalogue import connect
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import Lake
from evidence_assets.reproduction.cells import candidates, declared_cells, figure_rows

KEY = "report/scoreboard"


def score_stages() -> list[Stage]:
    """The scores of every loaded variant: of questions by benchmark, of harvests as a whole."""
    every = (stage for v in variants() if v.loaded for stage in all_stages(systems.load(v.system), v))
    return sorted((stage for stage in every if stage.table == "scores"), key=lambda stage: stage.key)


def _report(lake: Lake, say: Say) -> tuple[str, dict[str, Any]]:
    figures = figure_rows(declared_cells(candidates()))
    lake.write(KEY, "", {"published_figures": figures})
    with connect(lake.root, memory=None) as connection:
        images, verdicts = plots.draw(connection), graph_stages.verdicts(connection)
    folder = lake.root / "reports" / "scoreboard"
    shown: dict[str, Any] = {"folder": dg.MetadataValue.path(str(folder))}
    with replacing_folder(folder) as temporary:
        for name, image in images.items():
            (temporary / name).write_bytes(image)
            picture = f"![{name}](data:image/png;base64,{base64.b64encode(image).decode()})"
            shown[name.removesuffix(".png")] = dg.MetadataValue.md(picture)
    if verdicts:
        shown["graphs"] = dg.MetadataValue.md("\n".join(f"- {sentence}" for sentence in verdicts))
    hashes = {name: content_id(image.hex()) for name, image in images.items()}
    return content_id(hashes, verdicts, figures), shown


class Scoreboard(dg.Component, dg.Model, dg.Resolvable):
    """Makes ``report/scoreboard``."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        scoreboard = files_asset(
            KEY,
            _report,
            group="scores",
            code_version=plots.VERSION,
            kinds=("matplotlib", "png"),
            description=(
                "Every variant's accuracy with its interval beside the printed figure, harvests, and how right the "
                "surest answers are; and published_figures: what would fill each printed cell, or why nothing can."
            ),
            deps=[dep(stage.key, EVERY if stage.partitions else None) for stage in score_stages()],
        )
        return dg.Definitions(assets=[scoreboard])
