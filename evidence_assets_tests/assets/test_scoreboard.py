"""The report on scores: drawn from every reasoner's scores, into the lake and onto the asset's page."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.scoreboard import Scoreboard, score_stages
from evidence_assets.definitions import defs as all_defs
from evidence_assets.lake.store import Lake
from evidence_assets_tests.experiment.scores.test_plots import score


def test_it_waits_for_scores_that_exist() -> None:
    known = {"/".join(key.path) for key in all_defs().resolve_asset_graph().materializable_asset_keys}
    scores = {key for key in known if key.startswith("scores/")}
    assert {stage.key for stage in score_stages()} == scores
    assert {key.split("/")[1] for key in scores} == {"mcqa", "table", "graph", "search", "knowledge"}


def test_the_pictures_lie_in_the_lake_and_stand_in_the_metadata(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "data_lake", question_shards=1, corpus_shards=1)
    lake.write("scores/mcqa/bm25", "sample_mcqa", {"scores": [score("accuracy", 0.5)]})
    (asset,) = Scoreboard().build_defs(None).assets or []  # type: ignore[arg-type]
    assert isinstance(asset, dg.AssetsDefinition)
    done = dg.materialize([asset], resources={"lake": LakeResource(root=str(lake.root))})
    (made,) = done.asset_materializations_for_node("report__scoreboard")
    assert str(made.metadata["accuracy"].value).startswith("![accuracy.png](data:image/png;base64,iVBOR")
    assert (lake.root / "reports" / "scoreboard" / "accuracy.png").read_bytes().startswith(b"\x89PNG")
