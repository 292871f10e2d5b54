"""Costs of a run: computed by hand for a benchmark, timed by an instance's metadata, or unknown."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

from evidence_assets import profiles
from evidence_assets.assets import planning
from evidence_assets.assets.planning import (
    LATEST_RUNS,
    SECONDS_PER_QUESTION,
    BenchmarkSizes,
    PlannedWork,
    measured_seconds,
    measured_times,
    pace_metadata,
    plan_harvest,
    plan_work,
)
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, all_benchmarks
from evidence_assets.benchmarks.records import QuestionRecord
from evidence_assets.experiment.variants import Variant, variants
from evidence_assets.lake.store import Lake
from evidence_assets.reproduction.cells import find_cell_sources
from evidence_assets.reproduction.estimates import TOKENS_PAGE
from evidence_assets.systems import find_method, open_method
from evidence_assets.systems.kbloom.system import KBloom
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


def cost(work: PlannedWork) -> tuple[int | None, int | None, float | None]:
    return work.items, work.requests, work.seconds


@pytest.mark.usefixtures("paper")
def test_costs_equal_those_computed_by_hand(instance: dg.DagsterInstance, lake: Lake) -> None:
    variant = Variant(system="uscrake", family="mcqa", name="z", evidence="s")
    obqa = all_benchmarks()["obqa"]
    for asset, seconds in (("evidence/mcqa/s", 1.0), ("chains/mcqa/z", 2.0)):
        record_pace(instance, asset, "other|0", seconds)
    assert cost(plan_work(variant, obqa, BenchmarkSizes(lake), instance)) == (500, 500 + 4 * 500, None), (
        "its files are missing"
    )
    lake.write("questions/mcqa", "obqa|0", {"questions": [question(i, "obqa") for i in range(3)]})
    assert cost(plan_work(variant, obqa, BenchmarkSizes(lake), instance)) == (3, 9, None), "one step was never measured"
    record_pace(instance, "predictions/mcqa/z", "another|0", 0.5)
    assert cost(plan_work(variant, obqa, BenchmarkSizes(lake), instance)) == (3, 9, 3 * 3.5)


@pytest.mark.usefixtures("paper")
def test_the_files_of_a_benchmark_are_read_once_for_all_variants(
    instance: dg.DagsterInstance, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    obqa = all_benchmarks()["obqa"]
    for file in obqa.files:
        lake.raw_path(file).mkdir(parents=True)
    reads = []

    def read_questions(_: Lake, benchmark: Benchmark) -> list[QuestionRecord]:
        reads.append(benchmark.name)
        return [QuestionRecord(benchmark.name, i, benchmark.split, "mcqa", "Why?", ("a", "b", "c")) for i in "12"]

    monkeypatch.setattr(planning, "read_benchmark_questions", read_questions)
    sizes = BenchmarkSizes(lake)
    for name in ("z", "y", "x"):
        variant = Variant(system="uscrake", family="mcqa", name=name, evidence="s")
        assert cost(plan_work(variant, obqa, sizes, instance)) == (2, 2 * (1 + 3), None)
    assert reads == ["obqa"]
    assert BenchmarkSizes(lake).size_of(obqa) == (2, 6) and len(reads) == 2, "another plan reads them again"


@pytest.mark.usefixtures("paper")
def test_tokens_are_estimated_from_the_sample_or_those_of_the_latest_runs(
    instance: dg.DagsterInstance, lake: Lake
) -> None:
    """Of 3 questions with 2 options: 6 explanations from 15 chunks of 512 tokens each, and 3 choices that read 2."""
    variant = Variant(system="uscrake", family="mcqa", name="z", evidence="s", prompt_style="published")
    lake.write("questions/mcqa", "obqa|0", {"questions": [question(i, "obqa") for i in range(3)]})
    work = plan_work(variant, all_benchmarks()["obqa"], BenchmarkSizes(lake), instance)
    explained_in = 6 * (11_493 / 30 + 15 * 512)
    chosen_in = 3 * (13_795 / 30 + 2 * 12_921 / 30)
    assert work.tokens_in == pytest.approx(explained_in + chosen_in, abs=1)
    assert work.tokens_out == pytest.approx(6 * 12_921 / 30 + 3 * 120 / 30, abs=1)
    assert (work.context, work.tokens_from) == (426 + 15 * 512 + 1024, TOKENS_PAGE)
    metadata = {"replies": 2, "tokens_in": 200, "tokens_out": 21}
    key = dg.AssetKey(["predictions", "mcqa", "z"])
    instance.report_runless_asset_event(dg.AssetMaterialization(key, metadata=metadata))
    work = plan_work(variant, all_benchmarks()["obqa"], BenchmarkSizes(lake), instance)
    assert (work.tokens_in, work.tokens_out, work.tokens_from) == (900, 94, LATEST_RUNS)


@pytest.mark.parametrize(("is_judged", "judged"), [(False, 0), (True, 1)])
@pytest.mark.usefixtures("paper")
def test_a_harvest_asks_for_rewordings_and_judgements(is_judged: bool, judged: int) -> None:
    """Of 20 relations with 5 seeds: ten prompts are reworded for each seed; both methods harvest 1,000 triples."""
    method = open_method(next(variant for variant in variants() if variant.key == "knowledge/kbloom_top1"))
    assert isinstance(method, KBloom)
    work = plan_harvest(method, "conceptnet", is_judged=is_judged)
    assert (work.items, work.requests) == (20, 20 * 5 * 10 + judged * 20 * 2 * 1000)
    assert work.tokens_out == pytest.approx(1000 * 1689 / 30 + judged * 40_000 * 302 / 30)
    assert plan_harvest(method, "biomedical", is_judged=True).items is None, "a user's own relations are not counted"


def test_short_work_asks_for_letters_with_a_fact_and_without_in_two_orders(
    other_settings: pytest.MonkeyPatch, instance: dg.DagsterInstance, lake: Lake
) -> None:
    other_settings.setenv(profiles.PROFILE_VARIABLE, "local")
    lake.write("questions/mcqa", "sample_mcqa|0", {"questions": [question(i, "sample_mcqa") for i in range(3)]})
    variant = Variant(system="uscrake", family="mcqa", name="z", evidence="s")
    assert cost(plan_work(variant, all_benchmarks()["sample_mcqa"], BenchmarkSizes(lake), instance)) == (3, 12, None)


@pytest.mark.parametrize(
    ("benchmark", "key", "calls"),
    [
        ("webqsp.sample1215-seed0", "graph/kg_graph", 2),
        ("webqsp.sample1215-seed0", "graph/kg_both", 2 * (1 + 2 + 1)),
        ("webqsp.sample1215-seed0", "graph/kg_graph_reader", 0),
        ("stark_prime_human", "search/vector_search", 0),
        ("stark_prime_human", "search/fourstepfocus_reranked", 2 * (1 + 20)),
    ],
)
@pytest.mark.usefixtures("paper")
def test_requests_follow_from_the_method(
    benchmark: str, key: str, calls: int, instance: dg.DagsterInstance, lake: Lake
) -> None:
    variant = next(variant for variant in variants() if variant.key == key)
    questions = [question(i, benchmark) for i in range(2)]
    lake.write(f"questions/{variant.family}", f"{benchmark}|0", {"questions": questions})
    assert plan_work(variant, all_benchmarks()[benchmark], BenchmarkSizes(lake), instance).requests == calls


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


def test_a_step_that_variants_share_is_timed_once(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake", question_shards=1)
    lake.write("questions/mcqa", "sample_mcqa|0", {"questions": [question(i, "sample_mcqa") for i in range(3)]})
    costs = [find_method(f"mcqa/uscrake_{cost}_chunks").variant for cost in ("jsd", "cosine")]
    record_pace(instance, "chunk_rankings/mcqa/uscrake_jsd_chunks", "sample_mcqa|0", 60.0)
    for variant in costs:
        for table, seconds in (("evidence", 0.5), ("chains", 1.0), ("predictions", 2.0)):
            record_pace(instance, f"{table}/{variant.key}", "sample_mcqa|0", seconds)
    timed = set[str]()
    sizes = BenchmarkSizes(lake)
    works = [plan_work(each, all_benchmarks()["sample_mcqa"], sizes, instance, timed=timed) for each in costs]
    assert [work.seconds for work in works] == [3 * 63.5, 3 * 3.5]
    alone = plan_work(costs[1], all_benchmarks()["sample_mcqa"], sizes, instance)
    assert alone.seconds == 3 * 63.5


# Printed times beside those of steps, worked out by hand


STEPS = {
    "chunk_rankings/mcqa/uscrake_jsd_chunks": 850.0,
    "evidence/mcqa/uscrake_jsd_chunks": 50.0,
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
