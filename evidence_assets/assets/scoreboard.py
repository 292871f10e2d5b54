"""The report on all scores: pictures that are drawn anew when a score changes."""

import base64
from typing import Any

import dagster as dg

from evidence_assets.assets.partitions import EVERY
from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.table_asset import OWNER, dep
from evidence_assets.benchmarks.declared import FAMILIES
from evidence_assets.experiment import plots
from evidence_assets.experiment.variants import variants, variants_of
from evidence_assets.lake.catalogue import connect
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import replacing_folder


def score_assets() -> list[str]:
    """Assets with the scores of every loaded variant that answers questions."""
    return sorted(f"scores/{v.place}" for v in variants() if v.loaded and v.family in FAMILIES)


def harvest_score_assets() -> list[str]:
    """Assets with the scores of every loaded harvest that has facts to be scored against."""
    harvests = (v for v in variants_of("kbloom") if v.loaded and v.parameters.get("truth"))
    return sorted(f"scores/{harvest.place}" for harvest in harvests)


class Scoreboard(dg.Component, dg.Model, dg.Resolvable):
    """Makes ``report/scoreboard``."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        @dg.asset(
            key=["report", "scoreboard"],
            description="Every variant's accuracy with its interval beside the printed figure, its evidence and its cost; harvests, too.",
            group_name="scores",
            owners=[OWNER],
            kinds={"matplotlib", "png"},
            code_version=plots.VERSION,
            deps=[*(dep(key, EVERY) for key in score_assets()), *(dep(key) for key in harvest_score_assets())],
        )
        def scoreboard(lake: LakeResource) -> dg.MaterializeResult[Any]:
            opened = lake.open()
            with connect(opened.root) as connection:
                images = plots.draw(connection)
            folder = opened.root / "reports" / "scoreboard"
            with replacing_folder(folder) as temporary:
                for name, image in images.items():
                    (temporary / name).write_bytes(image)
            shown = {
                name.removesuffix(".png"): dg.MetadataValue.md(
                    f"![{name}](data:image/png;base64,{base64.b64encode(image).decode()})"
                )
                for name, image in images.items()
            }
            version = content_id({name: content_id(image.hex()) for name, image in images.items()})
            return dg.MaterializeResult(
                data_version=dg.DataVersion(version), metadata={"folder": dg.MetadataValue.path(str(folder)), **shown}
            )

        return dg.Definitions(assets=[scoreboard])
