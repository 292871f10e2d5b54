"""Costs of a run: computed by hand for a benchmark, timed by an instance's metadata, or unknown."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

from evidence_assets import profiles
from evidence_assets.assets.planning import (
    SECONDS_PER_QUESTION,
    measured_seconds,
    measured_times,
    pace_metadata,
    plan_variants,
)
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks
from evidence_assets.experiment.variants import Variant, variants
from evidence_assets.lake.store import Lake
from evidence_assets.reproduction.cells import find_cell_sources
from evidence_assets_tests.lake_rows import question


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


@pytest.fixture
def paper(other_settings: pytest.MonkeyPatch) -> None:
    """The profile paper, which has a language model."""
    other_settings.setenv(profiles.PROFILE_VARIABLE, "paper")


def record_pace(instance: dg.DagsterInstance, asset: str, partition: str, seconds: float, name: str = "") -> None:
    metadata = {name or SECONDS_PER_QUESTION: seconds}
    key = dg.AssetKey(asset.split("/"))
    instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=partition, metadata=metadata))


@pytest.mark.usefixtures("paper")
def test_costs_equal_those_computed_by_hand(instance: dg.DagsterInstance, lake: Lake) -> None:
    variant = Variant(system="uscrake", family="mcqa", name="z", evidence="s")
    obqa = all_benchmarks()["obqa"]
    for asset, seconds in (("evidence/mcqa/s", 1.0), ("chains/mcqa/z", 2.0)):
        record_pace(instance, asset, "other|0", seconds)
    assert plan_variants([variant], obqa, lake, instance) == [("z", None, None, None)], "its files are missing"
    lake.write("questions/mcqa", "obqa|0", {"questions": [question(i, "obqa") for i in range(3)]})
    assert plan_variants([variant], obqa, lake, instance) == [("z", 3, 9, None)], "one step was never measured"
    record_pace(instance, "predictions/mcqa/z", "another|0", 0.5)
    assert plan_variants([variant], obqa, lake, instance) == [("z", 3, 9, 3 * 3.5)]


def test_short_work_asks_for_letters_with_a_fact_and_without_in_two_orders(
    other_settings: pytest.MonkeyPatch, instance: dg.DagsterInstance, lake: Lake
) -> None:
    other_settings.setenv(profiles.PROFILE_VARIABLE, "local")
    lake.write("questions/mcqa", "sample_mcqa|0", {"questions": [question(i, "sample_mcqa") for i in range(3)]})
    variant = Variant(system="uscrake", family="mcqa", name="z", evidence="s")
    assert plan_variants([variant], all_benchmarks()["sample_mcqa"], lake, instance) == [("z", 3, 12, None)]


@pytest.mark.parametrize(
    ("benchmark", "key", "calls"),
    [
        ("webqsp.sample1215-seed0", "graph/kg_graph", 2),
        ("webqsp.sample1215-seed0", "graph/kg_both", None),
        ("stark_prime_human", "search/vector_search", 0),
        ("stark_prime_human", "search/fourstepfocus_reranked", None),
    ],
)
@pytest.mark.usefixtures("paper")
def test_a_number_of_calls_that_depends_on_replies_is_unknown(
    benchmark: str, key: str, calls: int | None, instance: dg.DagsterInstance, lake: Lake
) -> None:
    variant = next(variant for variant in variants() if variant.key == key)
    questions = [question(i, benchmark) for i in range(2)]
    lake.write(f"questions/{variant.family}", f"{benchmark}|0", {"questions": questions})
    assert plan_variants([variant], all_benchmarks()[benchmark], lake, instance)[0][2] == calls


def test_the_pace_counts_only_questions_that_were_not_reused() -> None:
    rows = pa.table({"question_id": ["a", "a", "b", "b"]})
    assert pace_metadata(rows, 0, 4.0) == {SECONDS_PER_QUESTION: 2.0}
    assert pace_metadata(rows, 2, 4.0) == {SECONDS_PER_QUESTION: 4.0}
    assert pace_metadata(rows, 4, 4.0) == {}
    assert pace_metadata(pa.table({"chunk_id": ["a"]}), 0, 4.0) == {}


def test_the_seconds_of_a_variant_are_the_sum_of_its_steps(instance: dg.DagsterInstance) -> None:
    for asset, seconds in (("evidence/x", 9.0), ("evidence/x", 0.5), ("predictions/x", 1.0)):
        record_pace(instance, asset, "b|0", seconds)
    record_pace(instance, "evidence/x", "b|0", 7.0, "other")  # all rows were reused
    record_pace(instance, "predictions/x", "other|0", 99.0)
    assert measured_seconds(instance, ["evidence/x", "predictions/x"], ["b|0"]) == pytest.approx(1.5)
    assert measured_seconds(instance, ["evidence/x", "chains/x"], ["b|0"]) is None
    assert measured_seconds(instance, ["evidence/x"], ["never|0"]) is None


# Printed times beside those of steps, worked out by hand


STEPS = {
    "evidence/mcqa/uscrake_jsd_chunks": 900.0,
    "evidence/mcqa/uscrake_published_graph": 90.0,
    "evidence/mcqa/uscrake_published": 1000.0,
    "chains/mcqa/uscrake_published/qwen2_5_14b": 40.0,
    "predictions/mcqa/uscrake_published/qwen2_5_14b": 5.0,
}


def test_chunks_and_graph_are_timed_apart_and_a_generator_by_its_own_steps(
    paper: None, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    lake = Lake.create(tmp_path / "lake", question_shards=8)
    lake.write("questions/mcqa", "obqa|0", {"questions": [question(i, "obqa") for i in range(4)]})
    sources = [source for source in find_cell_sources() if source.benchmark == "obqa"]
    for asset, seconds in STEPS.items():
        record_pace(instance, asset, "obqa|3", seconds)
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
