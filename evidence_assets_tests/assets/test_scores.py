"""Scores come from stored predictions, without a solver; the table of printed figures is written after them."""

import dagster as dg
import pytest

from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.system import Scoreboard, build_variant_defs
from evidence_assets.experiment import solvers
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.assets.small_worlds import materialize
from evidence_assets_tests.lake_rows import prediction, question

PLAIN = Variant(system="baselines", family="mcqa", name="x", method="bm25")


def test_scoring_again_calls_no_solver_and_leaves_the_predictions(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a solver was asked for")

    monkeypatch.setattr(solvers, "build_solver", refuse)
    benchmark = "sample_mcqa"
    lake.write("questions/mcqa", f"{benchmark}|0", {"questions": [question(i, benchmark) for i in range(4)]})
    predictions = [prediction(i, "A" if i else "B", benchmark) for i in range(4)]
    lake.write("predictions/mcqa/x", f"{benchmark}|0", {"predictions": predictions})
    before = lake.path("predictions", "predictions/mcqa/x", f"{benchmark}|0").read_bytes()

    materialize(lake, build_variant_defs(PLAIN), "scores/mcqa/x", partition_key=benchmark)
    scores = {row["metric"]: row["value"] for row in lake.read("scores", "scores/mcqa/x").to_dicts()}
    assert scores["accuracy"] == 0.75
    assert lake.path("predictions", "predictions/mcqa/x", f"{benchmark}|0").read_bytes() == before


def test_missing_predictions_are_an_error_and_not_scored_as_wrong(lake: Lake) -> None:
    lake.write("questions/mcqa", "sample_mcqa|0", {"questions": [question(0, "sample_mcqa")]})
    with pytest.raises(StaleInput, match="predictions/mcqa/x has no rows for sample_mcqa: materialize it first"):
        materialize(lake, build_variant_defs(PLAIN), "scores/mcqa/x", partition_key="sample_mcqa")


def test_the_printed_figures_are_written_and_counted(lake: Lake) -> None:
    (asset,) = Scoreboard().build_defs(dg.ComponentTree.for_test().load_context).assets or []
    assert isinstance(asset, dg.AssetsDefinition)
    result = dg.materialize([asset], resources={"lake": LakeResource(root=str(lake.root))})
    (materialization,) = result.asset_materializations_for_node("report__scoreboard")
    rows = lake.read("published_figures", "report/scoreboard")
    counts = [materialization.metadata[name].value for name in ("printed", "fillable", "filled")]
    assert counts == [rows.height, rows["reason"].null_count(), 0] and rows.height == 1248
