"""What a preset asks for: counted by hand for one benchmark, timed by what an instance has measured, else unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from evidence_assets import profiles
from evidence_assets.assets import planning
from evidence_assets.assets.planning import (
    SECONDS_PER_QUESTION,
    SECONDS_PER_RELATION,
    PlanRow,
    measured_seconds,
    pace,
    plan,
)
from evidence_assets.cli import app
from evidence_assets.experiment.variants import Variant, presets
from evidence_assets.lake.store import Lake
from evidence_assets_tests.lake_rows import question

FIRST = "qwen2_5_72b"
"""The first language model of the profile paper."""


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def paper(other_settings: pytest.MonkeyPatch) -> None:
    """The profile paper, which has a language model."""
    other_settings.setenv(profiles.PROFILE_VARIABLE, "paper")


@pytest.fixture
def variant(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variant of the preset uscrake_costs that reads the evidence of s."""
    stated = Variant(system="uscrake", family="mcqa", name="z", evidence="s", presets=("uscrake_costs",))
    monkeypatch.setattr(planning, "variants", lambda: (stated,))


def measured(instance: dg.DagsterInstance, asset: str, partition: str, name: str, seconds: float) -> None:
    key = dg.AssetKey(asset.split("/"))
    instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=partition, metadata={name: seconds}))


def test_questions_calls_and_seconds_are_those_counted_by_hand(
    paper: None, variant: None, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    found = {row.benchmark: row for row in plan("uscrake_costs", None, instance, FIRST)}
    assert set(found) == {"obqa", "csqa", "arc_c", "medmcqa", "piqa", "riddle"}
    assert found["piqa"] == PlanRow("z", "piqa", 1838, 1838 * 2 + 1838, None)
    for asset, seconds in (("evidence/mcqa/s", 1.0), ("chains/mcqa/z", 2.0)):
        measured(instance, asset, "other|0", SECONDS_PER_QUESTION, seconds)
    assert all(row.seconds is None for row in plan("uscrake_costs", None, instance, FIRST)), (
        "one step was never measured"
    )
    measured(instance, "predictions/mcqa/z", "another|0", SECONDS_PER_QUESTION, 0.5)
    lake = Lake.create(tmp_path / "data_lake")
    lake.write("questions/mcqa", "obqa|0", {"questions": [question(i, "obqa") for i in range(3)]})
    found = {row.benchmark: row for row in plan("uscrake_costs", lake, instance, FIRST)}
    assert found["obqa"] == PlanRow("z", "obqa", 3, 9, 3 * 3.5), "the lake knows better than the declaration"
    assert found["piqa"].seconds == 1838 * 3.5


def test_extractive_reasoning_calls_no_model(variant: None, instance: dg.DagsterInstance) -> None:
    assert {row.calls for row in plan("uscrake_costs", None, instance)} == {0}


def test_a_harvest_is_counted_by_its_relations(instance: dg.DagsterInstance) -> None:
    measured(instance, "knowledge/kbloom_printed/harvest", "may_treat", SECONDS_PER_RELATION, 10.0)
    found = {row.variant: row for row in plan("kbloom_prompts", None, instance)}
    assert found["knowledge/kbloom_printed"] == PlanRow("knowledge/kbloom_printed", "all relations", 55, 0, 550.0)
    assert found["knowledge/kbloom_initial"].seconds is None


def test_calls_that_hang_on_a_reply_are_not_stated(paper: None, instance: dg.DagsterInstance) -> None:
    answers = {(row.variant, row.benchmark): row for row in plan("kaping_cases", None, instance)}
    assert answers["kg_graph@mpnet", "webqsp.sample1215-seed0"].calls == 1215
    assert answers["kg_both@mpnet", "webqsp.sample1215-seed0"].calls is None
    nodes = {(row.variant, row.benchmark): row for row in plan("fourstepfocus_main", None, instance)}
    assert nodes["vector_search", "stark_prime_human"].calls == 0
    assert nodes["fourstepfocus_reranked", "stark_prime_human"].calls is None


def test_every_preset_has_a_row_for_each_of_its_benchmarks(instance: dg.DagsterInstance) -> None:
    for name, preset in presets().items():
        rows = plan(name, None, instance)
        assert {row.benchmark for row in rows} == set(preset.benchmarks or ["all relations"])
        assert all(row.questions for row in rows)


def test_the_command_prints_what_is_known_and_what_is_not(
    paper: None, variant: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    arguments = ["plan", "uscrake_costs", "--lake", str(tmp_path)]
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    assert sum(row["calls"] for row in json.loads(done.output)) > 0
    shown = CliRunner().invoke(app, arguments)
    told = " ".join(shown.output.split())
    assert shown.exit_code == 0 and "not measured here" in told and "corpus wikipedia: not made here" in told


def test_only_what_was_computed_anew_counts() -> None:
    rows = pa.table({"question_id": ["a", "a", "b", "b"]})
    assert pace(rows, 0, 4.0) == {SECONDS_PER_QUESTION: 2.0}
    assert pace(rows, 2, 4.0) == {SECONDS_PER_QUESTION: 4.0}
    assert pace(rows, 4, 4.0) == {}
    assert pace(pa.table({"chunk_id": ["a"]}), 0, 4.0) == {}


def test_a_variant_is_as_fast_as_its_steps_together(instance: dg.DagsterInstance) -> None:
    for asset, partition, seconds in (
        ("evidence/x", "b|0", 9.0),
        ("evidence/x", "b|0", 0.5),
        ("predictions/x", "b|0", 1.0),
    ):
        measured(instance, asset, partition, SECONDS_PER_QUESTION, seconds)
    measured(instance, "evidence/x", "b|0", "other", 7.0)  # all rows reused: says nothing
    measured(instance, "predictions/x", "other|0", SECONDS_PER_QUESTION, 99.0)
    assert measured_seconds(instance, ["evidence/x", "predictions/x"], ["b|0"]) == pytest.approx(1.5)
    assert measured_seconds(instance, ["evidence/x", "chains/x"], ["b|0"]) is None
    assert measured_seconds(instance, ["evidence/x"], ["never|0"]) is None
