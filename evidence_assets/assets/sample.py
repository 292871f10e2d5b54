"""Raw inputs: the sample world, rendered into the lake."""

from typing import Any

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.table_asset import OWNER
from evidence_assets.lake.ids import content_id, file_id
from evidence_assets.sample.render import render

VERSION = "1"


@dg.asset(
    key=["raw", "sample"],
    description="The sample world: articles, tables, questions, graphs and seeds, written from this project's facts.",
    group_name="raw",
    owners=[OWNER],
    kinds={"python"},
    code_version=VERSION,
)
def raw_sample(lake: LakeResource) -> dg.MaterializeResult[Any]:
    folder = lake.open().raw / "sample"
    report = render(folder, profiles.load().sample)
    version = content_id([(name, file_id(folder / name)) for name in sorted(report.rows)])
    return dg.MaterializeResult(
        data_version=dg.DataVersion(version),
        metadata={
            "files": len(report.rows),
            "bytes": sum((folder / name).stat().st_size for name in report.rows),
            "rows": dg.MetadataValue.json(report.rows),
        },
    )


class Sample(dg.Component, dg.Model, dg.Resolvable):
    """Makes ``raw/sample``."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return dg.Definitions(assets=[raw_sample])
