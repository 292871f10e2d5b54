"""When stale assets are requested: sensor ticks over a small asset graph."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from evidence_assets.assets.automation import MAX_KILLED_RUNS, request_stale_assets
from evidence_assets.assets.change_sensors import follow_apart, materialize_changes, reuse_instance
from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.run_liveness import LOCK_FILE_TAG, PREVIOUS_KILLS_TAG, fail_killed_runs
from evidence_assets.lake.store import Lake
from evidence_assets_tests.assets.automation.automation_world import add_backfill, end_backfill

STATE: dict[str, str] = {}
"""Current data version of each source, and the failing asset."""
INSTANCES: list[dg.DagsterInstance] = []
"""Instances of the running test."""


@pytest.fixture(autouse=True)
def reset_state() -> Iterator[None]:
    STATE.clear()
    STATE["source"] = "1"
    yield
    STATE.clear()
    while INSTANCES:
        INSTANCES.pop().dispose()


def asset(name: str, *deps: str, code: str = "1", pool: str | None = None) -> dg.AssetsDefinition:
    @dg.asset(name=name, deps=list(deps), code_version=code, pool=pool)
    def materialize() -> dg.MaterializeResult[Any]:
        if STATE.get("fails") == name:
            raise ValueError("requested failure")
        return dg.MaterializeResult(data_version=dg.DataVersion(STATE.get(name, STATE["source"])))

    return materialize


def diamond(code: str = "1") -> dg.Definitions:
    """source → left → sink, source → sink."""
    return dg.Definitions([asset("source"), asset("left", "source", code=code), asset("sink", "left", "source")])


class Ticker:
    def __init__(self, definitions: dg.Definitions) -> None:
        self.instance = dg.DagsterInstance.ephemeral()
        INSTANCES.append(self.instance)
        self.definitions = definitions
        self.cursor: str | None = None

    def make(self, *names: str, partition: str | None = None) -> bool:
        job = self.definitions.resolve_implicit_global_asset_job_def()
        keys = [dg.AssetKey(name) for name in names]
        return job.execute_in_process(
            instance=self.instance, asset_selection=keys, partition_key=partition, raise_on_error=False
        ).success

    def tick(self, models: bool = False) -> set[str]:
        result = request_stale_assets(self.definitions.get_repository_def(), self.instance, self.cursor, models)
        self.cursor = result.cursor
        return {
            key.to_user_string() + (f"[{request.partition_key}]" if request.partition_key else "")
            for request in result.run_requests or ()
            for key in request.asset_selection or ()
        }


def changed_diamond() -> Ticker:
    """A diamond that was materialized before its source changed."""
    ticker = Ticker(diamond())
    ticker.make("source", "left", "sink")
    STATE["source"] = "2"
    ticker.make("source")
    return ticker


def test_new_data_makes_downstream_assets_stale_and_each_is_requested_once() -> None:
    ticker = Ticker(diamond())
    ticker.make("source", "left", "sink")
    assert ticker.tick() == set()
    STATE["source"] = "2"
    ticker.make("source")
    assert ticker.tick() == {"left"}, "the sink waits for its other input"
    ticker.make("left")
    assert ticker.tick() == {"sink"}
    ticker.make("sink")
    assert ticker.tick() == set()
    ticker.make("source")
    assert ticker.tick() == set(), "the data is unchanged"
    ticker.definitions = diamond(code="2")
    assert ticker.tick() == set(), "new code makes nothing stale"


def test_a_failed_asset_is_not_retried_until_its_inputs_change() -> None:
    ticker = Ticker(diamond())
    ticker.make("source", "left", "sink")
    STATE.update(source="2", fails="left")
    ticker.make("source")
    assert ticker.tick() == {"left"}
    assert not ticker.make("left")
    assert ticker.tick() == {"sink"}, "other stale assets are still requested"
    ticker.make("sink")
    assert ticker.tick() == set()
    STATE.update(source="3", fails="")
    ticker.make("source")
    assert ticker.tick() == {"left"}


PARTS = dg.StaticPartitionsDefinition(["a", "b"])


def partitioned_definitions() -> dg.Definitions:
    """Partitioned source and child, and an unpartitioned asset over all partitions."""

    @dg.asset(partitions_def=PARTS)
    def source(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
        return dg.MaterializeResult(data_version=dg.DataVersion(STATE.get(context.partition_key, "1")))

    @dg.asset(deps=[source], partitions_def=PARTS)
    def each() -> dg.MaterializeResult[Any]:
        return dg.MaterializeResult(data_version=dg.DataVersion("always the same"))

    @dg.asset(deps=[dg.AssetDep(each, partition_mapping=dg.AllPartitionMapping()), source])
    def all_of_it() -> dg.MaterializeResult[Any]:
        return dg.MaterializeResult(data_version=dg.DataVersion(str(sorted(STATE.items()))))

    return dg.Definitions([source, each, all_of_it])


def test_only_downstream_partitions_of_a_changed_one_are_requested() -> None:
    ticker = Ticker(partitioned_definitions())
    for partition in ("a", "b", "b"):
        assert ticker.make("source", "each", partition=partition)
    assert ticker.make("all_of_it")
    assert ticker.tick() == set()
    ticker.make("source", "each", partition="a")
    assert ticker.tick() == set(), "the data version is unchanged"
    STATE["b"] = "2"
    ticker.make("source", partition="b")
    assert ticker.tick() == {"each[b]"}, "the asset over all partitions waits"
    ticker.make("each", partition="b")
    assert ticker.tick() == {"all_of_it"}


def test_an_asset_with_a_queued_run_is_not_requested_until_the_run_is_deleted() -> None:
    ticker = Ticker(diamond())
    ticker.make("source", "left", "sink")
    assert ticker.tick() == ticker.tick() == set()
    STATE["source"] = "2"
    ticker.make("source")
    job = ticker.definitions.resolve_implicit_global_asset_job_def().get_subset(asset_selection={dg.AssetKey("left")})
    assert ticker.tick() == {"left"}
    queued = ticker.instance.create_run_for_job(job, asset_selection={dg.AssetKey("left")})
    assert ticker.tick() == ticker.tick() == set()
    ticker.instance.delete_run(queued.run_id)
    assert ticker.tick() == {"left"}


def test_partitions_of_an_unfinished_backfill_are_left_to_it() -> None:
    ticker = Ticker(partitioned_definitions())
    for partition in ("a", "b"):
        assert ticker.make("source", "each", partition=partition)
    assert ticker.make("all_of_it")
    STATE.update(a="2", b="2")
    for partition in ("a", "b"):
        ticker.make("source", partition=partition)
    assert ticker.tick() == {"each[a]", "each[b]"}
    backfill = add_backfill(ticker.instance, ticker.definitions.get_repository_def(), "each", "b")
    assert ticker.tick() == {"each[a]"}
    ticker.make("each", partition="a")
    assert ticker.tick() == ticker.tick() == set(), "the asset over all partitions waits for the backfill"
    end_backfill(ticker.instance, backfill, "CANCELED")
    assert ticker.tick() == {"each[b]"}


def test_one_run_materializes_all_stale_assets_and_reports_failures(tmp_path: Path) -> None:
    ticker = changed_diamond()
    log_lines: list[str] = []

    def run_changes() -> list[str]:
        log_lines.clear()
        lake = Lake.create(tmp_path)
        return materialize_changes(
            ticker.definitions.get_repository_def(), ticker.instance, lake, {"of": "it"}, log_lines.append
        )

    assert run_changes() == [] and log_lines == ["left", "sink"] and ticker.tick() == set()
    assert all(run.tags["of"] == "it" for run in ticker.instance.get_runs(limit=2))
    assert run_changes() == log_lines == []
    STATE.update(source="3", fails="left")
    ticker.make("source")
    [failed] = run_changes()
    assert failed.startswith("left (run ") and log_lines == ["left", "sink"], (
        "other stale assets are still requested, and it ends"
    )


@pytest.mark.parametrize("automation", ["", "automation: true"])
def test_the_profile_decides_whether_language_models_are_called(
    automation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticker = Ticker(dg.Definitions([asset("source"), asset("answers", "source", pool="llm")]))
    ticker.make("source", "answers")
    STATE["source"] = "2"
    ticker.make("source")
    assert ticker.tick() == {"answers"}, "the extractive reasoner is not a language model"
    (tmp_path / "own.yaml").write_text(f"extends: paper\nname: own\n{automation}\n")
    monkeypatch.setenv("EVIDENCE_PROFILE", str(tmp_path / "own.yaml"))
    repository = ticker.definitions.get_repository_def()
    with dg.build_sensor_context(ticker.instance, repository_def=repository) as context:
        result = follow_apart(context, lake=LakeResource(root=str(tmp_path)))
    assert isinstance(result, dg.SensorResult)
    keys = [key.to_user_string() for request in result.run_requests or () for key in request.asset_selection or ()]
    assert ("answers" in keys) == bool(automation)


def test_ticks_on_a_server_share_an_instance() -> None:
    with dg.instance_for_test() as first, dg.DagsterInstance.from_ref(first.get_ref()) as second:
        assert first is not second and reuse_instance(first) is reuse_instance(second)


def test_a_killed_run_is_retried_a_limited_number_of_times(tmp_path: Path) -> None:
    ticker = changed_diamond()
    keys = {dg.AssetKey("left")}
    job = ticker.definitions.resolve_implicit_global_asset_job_def().get_subset(asset_selection=keys)
    for kills in range(MAX_KILLED_RUNS):
        result = request_stale_assets(ticker.definitions.get_repository_def(), ticker.instance, ticker.cursor)
        (request,) = result.run_requests or ()
        assert request.tags.get(PREVIOUS_KILLS_TAG, "0") == str(kills) and set(request.asset_selection or ()) == keys
        ticker.instance.create_run_for_job(
            job, asset_selection=keys, tags={**request.tags, LOCK_FILE_TAG: "no such process"}
        )
        assert ticker.tick() == set(), "its process may still be alive"
        fail_killed_runs(ticker.instance, tmp_path)
    assert ticker.tick() == {"sink"}, "after too many kills it is not retried"
