"""The report on all scores: pictures that are drawn anew when a score changes."""

import base64
from typing import Any

import dagster as dg

from evidence_assets.assets.benchmark import Family, of_family
from evidence_assets.assets.declarations import variants
from evidence_assets.assets.partitions import EVERY
from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.table_asset import OWNER, dep
from evidence_assets.experiment import plots
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.catalogue import connect
from evidence_assets.lake.ids import content_id

SCORED: dict[str, Family | None] = {
    "Reasoner": None,
    "GraphAnswers": "graph",
    "NodeRanking": "search",
    "Retrieval": "retrieval",
}
"""Components whose variants are scored on benchmarks; the family where it does not stand in the YAML."""


def score_assets() -> list[str]:
    """Assets with the scores of every variant that is loaded and has a benchmark to answer."""
    found = []
    for component, family in SCORED.items():
        for variant in variants(component):
            own = family or variant.attributes["family"]
            if variant.loaded and of_family(own):
                found.append(f"scores/{own}/{variant.attributes['name']}")
    return sorted(found)


def harvest_score_assets() -> list[str]:
    """Assets with the scores of every harvest that is loaded and has facts to be scored against."""
    loaded = (h for h in variants("KBloom") if h.loaded and h.attributes.get("truth"))
    return sorted(f"scores/knowledge/{harvest.attributes['name']}" for harvest in loaded)


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
