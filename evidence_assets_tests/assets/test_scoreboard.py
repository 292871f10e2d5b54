"""The table of printed figures, materialized after every score."""

from __future__ import annotations

import dagster as dg

from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.system import Scoreboard
from evidence_assets.lake.store import Lake


def test_the_printed_figures_are_written_and_counted(lake: Lake) -> None:
    (asset,) = Scoreboard().build_defs(dg.ComponentTree.for_test().load_context).assets or []
    assert isinstance(asset, dg.AssetsDefinition)
    result = dg.materialize([asset], resources={"lake": LakeResource(root=str(lake.root))})
    (materialization,) = result.asset_materializations_for_node("report__scoreboard")
    rows = lake.read("published_figures", "report/scoreboard")
    counts = [materialization.metadata[name].value for name in ("printed", "fillable", "filled")]
    assert counts == [rows.height, rows["reason"].null_count(), 0] and rows.height == 1248
