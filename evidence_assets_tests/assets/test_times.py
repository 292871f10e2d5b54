"""Printed times beside those of steps: worked out by hand from what Dagster recorded, for the lake's own questions."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from evidence_assets import profiles
from evidence_assets.assets.planning import SECONDS_PER_QUESTION, measured_times
from evidence_assets.lake.store import Lake
from evidence_assets.reproduction.cells import find_cell_sources
from evidence_assets_tests.lake_rows import question

STEPS = {
    "evidence/mcqa/uscrake_jsd_chunks": 900.0,
    "evidence/mcqa/uscrake_published_graph": 90.0,
    "evidence/mcqa/uscrake_published": 1000.0,
    "chains/mcqa/uscrake_published/qwen2_5_14b": 40.0,
    "predictions/mcqa/uscrake_published/qwen2_5_14b": 5.0,
}


def test_chunks_and_graph_are_timed_apart_and_a_generator_by_its_own_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, "paper")
    lake = Lake.create(tmp_path / "lake", question_shards=8)
    lake.write("questions/mcqa", "obqa|0", {"questions": [question(i, "obqa") for i in range(4)]})
    sources = [source for source in find_cell_sources() if source.benchmark == "obqa"]
    with dg.DagsterInstance.ephemeral() as instance:
        for asset, seconds in STEPS.items():
            event = dg.AssetMaterialization(
                asset.split("/"), partition="obqa|3", metadata={SECONDS_PER_QUESTION: seconds}
            )
            instance.report_runless_asset_event(event)
        times = measured_times(instance, sources, lake)
    values = {(key[2], key[3], key[4]): [score.value for score in scores] for key, scores in times.items()}
    assert values == {
        ("chunk_retrieval_stage", "", "hours"): [pytest.approx(1.0)],
        ("kg_reasoning_stage", "", "hours"): [pytest.approx(0.1)],
        ("answer_generator_stage", "qwen2.5-14b", "hours"): [pytest.approx(0.05)],
        ("total_average", "", "hours"): [pytest.approx(4 * 1045 / 3600)],
        ("total_average", "", "minutes_per_question"): [pytest.approx(1045 / 60)],
    }
    assert {score.n for scores in times.values() for score in scores} == {4}
