"""Costs of a preset: computed by hand for one benchmark, timed by an instance's metadata, or unknown."""

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
    pace_metadata,
    plan,
)
from evidence_assets.cli import app
from evidence_assets.experiment.variants import Variant, presets
from evidence_assets.lake.store import Lake
from evidence_assets_tests.lake_rows import question

FIRST_MODEL = "qwen2_5_72b"
"""The default language model of the profile paper."""


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


@pytest.fixture
def paper(other_settings: pytest.MonkeyPatch) -> None:
    """The profile paper, which has a language model."""
    other_settings.setenv(profiles.PROFILE_VARIABLE, "paper")


@pytest.fixture
def variant(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variant of the preset uscrake_costs that reads the evidence of s."""
    variant = Variant(system="uscrake", family="mcqa", name="z", evidence="s", presets=("uscrake_costs",))
    monkeypatch.setattr(planning, "variants", lambda: (variant,))


def record_metadata(instance: dg.DagsterInstance, asset: str, partition: str, name: str, seconds: float) -> None:
    key = dg.AssetKey(asset.split("/"))
    instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=partition, metadata={name: seconds}))


def test_costs_equal_those_computed_by_hand(
    paper: None, variant: None, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    rows_by_key = {row.benchmark: row for row in plan("uscrake_costs", None, instance, FIRST_MODEL)}
    assert set(rows_by_key) == {"obqa", "csqa", "arc_c", "medmcqa", "piqa", "riddle"}
    assert rows_by_key["piqa"] == PlanRow("z", "piqa", 1838, 1838 * 2 + 1838, None)
    for asset, seconds in (("evidence/mcqa/s", 1.0), ("chains/mcqa/z", 2.0)):
        record_metadata(instance, asset, "other|0", SECONDS_PER_QUESTION, seconds)
    assert all(row.seconds is None for row in plan("uscrake_costs", None, instance, FIRST_MODEL)), (
        "one step was never measured"
    )
    record_metadata(instance, "predictions/mcqa/z", "another|0", SECONDS_PER_QUESTION, 0.5)
    lake = Lake.create(tmp_path / "data_lake")
    lake.write("questions/mcqa", "obqa|0", {"questions": [question(i, "obqa") for i in range(3)]})
    rows_by_key = {row.benchmark: row for row in plan("uscrake_costs", lake, instance, FIRST_MODEL)}
    assert rows_by_key["obqa"] == PlanRow("z", "obqa", 3, 9, 3 * 3.5), "the lake's number wins over the declared one"
    assert rows_by_key["piqa"].seconds == 1838 * 3.5


def test_extractive_reasoning_calls_no_model(variant: None, instance: dg.DagsterInstance) -> None:
    assert {row.calls for row in plan("uscrake_costs", None, instance)} == {0}


def test_a_harvest_is_counted_by_its_relations(instance: dg.DagsterInstance) -> None:
    record_metadata(instance, "knowledge/kbloom_printed/harvest", "may_treat", SECONDS_PER_RELATION, 10.0)
    rows_by_key = {row.variant: row for row in plan("kbloom_prompts", None, instance)}
    assert rows_by_key["knowledge/kbloom_printed"] == PlanRow("knowledge/kbloom_printed", "all relations", 55, 0, 550.0)
    assert rows_by_key["knowledge/kbloom_initial"].seconds is None


def test_a_number_of_calls_that_depends_on_replies_is_unknown(paper: None, instance: dg.DagsterInstance) -> None:
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


def test_the_command_prints_known_and_unknown_costs(
    paper: None, variant: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    arguments = ["plan", "uscrake_costs", "--lake", str(tmp_path)]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    assert sum(row["calls"] for row in json.loads(result.output)) > 0
    result_as_text = CliRunner().invoke(app, arguments)
    text = " ".join(result_as_text.output.split())
    assert result_as_text.exit_code == 0 and "not measured here" in text


def test_the_pace_counts_only_questions_that_were_not_reused() -> None:
    rows = pa.table({"question_id": ["a", "a", "b", "b"]})
    assert pace_metadata(rows, 0, 4.0) == {SECONDS_PER_QUESTION: 2.0}
    assert pace_metadata(rows, 2, 4.0) == {SECONDS_PER_QUESTION: 4.0}
    assert pace_metadata(rows, 4, 4.0) == {}
    assert pace_metadata(pa.table({"chunk_id": ["a"]}), 0, 4.0) == {}


def test_the_seconds_of_a_variant_are_the_sum_of_its_steps(instance: dg.DagsterInstance) -> None:
    for asset, partition, seconds in (
        ("evidence/x", "b|0", 9.0),
        ("evidence/x", "b|0", 0.5),
        ("predictions/x", "b|0", 1.0),
    ):
        record_metadata(instance, asset, partition, SECONDS_PER_QUESTION, seconds)
    record_metadata(instance, "evidence/x", "b|0", "other", 7.0)  # all rows were reused
    record_metadata(instance, "predictions/x", "other|0", SECONDS_PER_QUESTION, 99.0)
    assert measured_seconds(instance, ["evidence/x", "predictions/x"], ["b|0"]) == pytest.approx(1.5)
    assert measured_seconds(instance, ["evidence/x", "chains/x"], ["b|0"]) is None
    assert measured_seconds(instance, ["evidence/x"], ["never|0"]) is None
