"""When an asset is asked for again: ticks over a small graph of assets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from evidence_assets.assets.automation import MAX_KILLED_RUNS, request_stale_assets
from evidence_assets.assets.change_sensors import follow_apart, materialize_changes
from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.run_liveness import LOCK_FILE_TAG, PREVIOUS_KILLS_TAG, fail_killed_runs
from evidence_assets.lake.store import Lake

WORLD: dict[str, str] = {}
"""What the sources say now, and who fails."""


@pytest.fixture(autouse=True)
def fresh_world() -> Iterator[None]:
    WORLD.clear()
    WORLD["source"] = "1"
    yield
    WORLD.clear()


def asset(name: str, *deps: str, code: str = "1") -> dg.AssetsDefinition:
    @dg.asset(name=name, deps=list(deps), code_version=code)
    def _made() -> dg.MaterializeResult[Any]:
        if WORLD.get("fails") == name:
            raise ValueError("as told")
        return dg.MaterializeResult(data_version=dg.DataVersion(WORLD.get(name, WORLD["source"])))

    return _made


def diamond(code: str = "1") -> dg.Definitions:
    """source → left → sink, source → sink."""
    return dg.Definitions([asset("source"), asset("left", "source", code=code), asset("sink", "left", "source")])


class Ticker:
    def __init__(self, loaded: dg.Definitions) -> None:
        self.instance, self.loaded = dg.DagsterInstance.ephemeral(), loaded
        self.cursor: str | None = None

    def make(self, *names: str, partition: str | None = None) -> bool:
        job = self.loaded.resolve_implicit_global_asset_job_def()
        keys = [dg.AssetKey(name) for name in names]
        return job.execute_in_process(
            instance=self.instance, asset_selection=keys, partition_key=partition, raise_on_error=False
        ).success

    def tick(self, models: bool = False) -> set[str]:
        result = request_stale_assets(self.loaded.get_repository_def(), self.instance, self.cursor, models)
        self.cursor = result.cursor
        return {
            key.to_user_string() + (f"[{request.partition_key}]" if request.partition_key else "")
            for request in result.run_requests or ()
            for key in request.asset_selection or ()
        }


def test_other_data_moves_what_reads_it_and_what_a_change_reaches_twice_is_made_once() -> None:
    ticker = Ticker(diamond())
    ticker.make("source", "left", "sink")
    assert ticker.tick() == set()
    WORLD["source"] = "2"
    ticker.make("source")
    assert ticker.tick() == {"left"}, "the sink waits for the other way"
    ticker.make("left")
    assert ticker.tick() == {"sink"}
    ticker.make("sink")
    assert ticker.tick() == set()


def test_the_same_data_made_again_and_a_change_of_code_move_nothing() -> None:
    ticker = Ticker(diamond())
    ticker.make("source", "left", "sink")
    ticker.make("source")
    assert ticker.tick() == set()
    ticker.loaded = diamond(code="2")
    assert ticker.tick() == set()


def test_a_change_stops_where_it_changes_nothing() -> None:
    ticker = Ticker(dg.Definitions([asset("source"), asset("left", "source"), asset("sink", "left")]))
    WORLD["left"] = "always the same"
    ticker.make("source", "left", "sink")
    WORLD["source"] = "2"
    ticker.make("source")
    assert ticker.tick() == {"left"}
    ticker.make("left")
    assert ticker.tick() == set()


def test_what_failed_is_not_repeated_until_its_inputs_change_again() -> None:
    ticker = Ticker(diamond())
    ticker.make("source", "left", "sink")
    WORLD.update(source="2", fails="left")
    ticker.make("source")
    assert ticker.tick() == {"left"}
    assert not ticker.make("left")
    assert ticker.tick() == {"sink"}, "what else changed goes on"
    ticker.make("sink")
    assert ticker.tick() == set()
    WORLD.update(source="3", fails="")
    ticker.make("source")
    assert ticker.tick() == {"left"}


PARTS = dg.StaticPartitionsDefinition(["a", "b"])


def parted() -> dg.Definitions:
    """One source a partition, what is made of each, and what reads all."""

    @dg.asset(partitions_def=PARTS)
    def source(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
        return dg.MaterializeResult(data_version=dg.DataVersion(WORLD.get(context.partition_key, "1")))

    @dg.asset(deps=[source], partitions_def=PARTS)
    def each() -> dg.MaterializeResult[Any]:
        return dg.MaterializeResult(data_version=dg.DataVersion("always the same"))

    @dg.asset(deps=[dg.AssetDep(each, partition_mapping=dg.AllPartitionMapping()), source])
    def all_of_it() -> dg.MaterializeResult[Any]:
        return dg.MaterializeResult(data_version=dg.DataVersion(str(sorted(WORLD.items()))))

    return dg.Definitions([source, each, all_of_it])


def test_of_partitions_only_what_reads_the_changed_one_is_made_again() -> None:
    ticker = Ticker(parted())
    for partition in ("a", "b", "b"):
        assert ticker.make("source", "each", partition=partition)
    assert ticker.make("all_of_it")
    assert ticker.tick() == set()
    ticker.make("source", "each", partition="a")
    assert ticker.tick() == set(), "the same data made again"
    WORLD["b"] = "2"
    ticker.make("source", partition="b")
    assert ticker.tick() == {"each[b]"}, "what reads all waits"
    ticker.make("each", partition="b")
    assert ticker.tick() == {"all_of_it"}


def chain(pool: str | None = None) -> dg.Definitions:
    """source → first → second → third, all in one partition, the second in a pool, and what reads the third of all."""

    def made(name: str, *deps: str, pool: str | None = None) -> dg.AssetsDefinition:
        @dg.asset(name=name, deps=list(deps), partitions_def=PARTS, pool=pool)
        def _made(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
            if WORLD.get("fails") == name:
                raise ValueError("as told")
            return dg.MaterializeResult(data_version=dg.DataVersion(WORLD["source"]))

        return _made

    @dg.asset(deps=[dg.AssetDep("third", partition_mapping=dg.AllPartitionMapping())])
    def all_of_it() -> dg.MaterializeResult[Any]:
        return dg.MaterializeResult(data_version=dg.DataVersion(WORLD["source"]))

    names = [made("source"), made("first", "source"), made("second", "first", pool=pool), made("third", "second")]
    return dg.Definitions([*names, all_of_it])


EVERY = ("source", "first", "second", "third")


def chained(ticker: Ticker) -> None:
    for partition in ("a", "b"):
        assert ticker.make(*EVERY, partition=partition)
    assert ticker.make("all_of_it") and ticker.tick() == set()
    WORLD["source"] = "2"
    assert ticker.make("source", partition="a")


def test_what_a_change_reaches_in_its_partition_is_one_run_of_one_tick() -> None:
    ticker = Ticker(chain())
    chained(ticker)
    result = request_stale_assets(ticker.loaded.get_repository_def(), ticker.instance, ticker.cursor)
    (request,) = result.run_requests or ()
    assert (request.partition_key, len(request.asset_selection or ())) == ("a", 3)
    assert ticker.tick() == {"first[a]", "second[a]", "third[a]"}
    ticker.make("first", "second", "third", partition="a")
    assert ticker.tick() == {"all_of_it"}


def test_what_fails_on_the_way_is_asked_for_once_more_and_then_no_more() -> None:
    ticker = Ticker(chain())
    chained(ticker)
    WORLD["fails"] = "second"
    for asked in ({"first[a]", "second[a]", "third[a]"}, {"second[a]", "third[a]"}, set()):
        assert ticker.tick() == asked
        if asked:
            assert not ticker.make(*(name[:-3] for name in asked), partition="a")


def test_without_leave_what_asks_a_language_model_stays_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    ticker = Ticker(chain("llm"))
    chained(ticker)
    assert ticker.tick() == {"first[a]", "second[a]", "third[a]"}, "the extractive reasoner is none"
    monkeypatch.setenv("EVIDENCE_PROFILE", "paper")
    assert ticker.tick(models=True) == {"first[a]", "second[a]", "third[a]"}
    assert ticker.tick() == {"first[a]"}
    ticker.make("first", partition="a")
    assert ticker.tick() == set()
    assert ticker.tick(models=True) == {"second[a]", "third[a]"}, "leave that is given later is taken"


def test_a_run_that_waits_is_not_asked_for_again_until_it_is_taken_from_the_queue() -> None:
    ticker = Ticker(diamond())
    ticker.make("source", "left", "sink")
    assert ticker.tick() == ticker.tick() == set()
    WORLD["source"] = "2"
    ticker.make("source")
    job = ticker.loaded.resolve_implicit_global_asset_job_def().get_subset(asset_selection={dg.AssetKey("left")})
    assert ticker.tick() == {"left"}
    queued = ticker.instance.create_run_for_job(job, asset_selection={dg.AssetKey("left")})
    assert ticker.tick() == ticker.tick() == set()
    ticker.instance.delete_run(queued.run_id)
    assert ticker.tick() == {"left"}


def test_one_run_carries_a_change_through_and_says_what_failed(tmp_path: Path) -> None:
    ticker = Ticker(diamond())
    ticker.make("source", "left", "sink")
    WORLD["source"] = "2"
    ticker.make("source")
    said: list[str] = []

    def carried() -> list[str]:
        said.clear()
        lake = Lake.create(tmp_path)
        return materialize_changes(ticker.loaded.get_repository_def(), ticker.instance, lake, {"of": "it"}, said.append)

    assert carried() == [] and said == ["left", "sink"] and ticker.tick() == set()
    assert all(run.tags["of"] == "it" for run in ticker.instance.get_runs(limit=2))
    assert carried() == said == []
    WORLD.update(source="3", fails="left")
    ticker.make("source")
    [failed] = carried()
    assert failed.startswith("left (run ") and said == ["left", "sink"], "what else changed goes on, and it ends"


@pytest.mark.parametrize("leave", ["", "automation: true"])
def test_a_language_model_is_asked_only_where_the_profile_says_so(
    leave: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticker = Ticker(chain("llm"))
    chained(ticker)
    (tmp_path / "own.yaml").write_text(f"extends: paper\nname: own\nexecutor: ray\n{leave}\n")
    monkeypatch.setenv("EVIDENCE_PROFILE", str(tmp_path / "own.yaml"))
    context = dg.build_sensor_context(ticker.instance, repository_def=ticker.loaded.get_repository_def())
    found = follow_apart(context, lake=LakeResource(root=str(tmp_path)))
    assert isinstance(found, dg.SensorResult)
    keys = [[key.to_user_string() for key in one.asset_selection or ()] for one in found.run_requests or ()]
    assert ["first", "second", "third"] in keys if leave else ["first"] in keys


def test_what_was_killed_is_made_again_but_not_for_ever(tmp_path: Path) -> None:
    ticker = Ticker(diamond())
    ticker.make("source", "left", "sink")
    WORLD["source"] = "2"
    ticker.make("source")
    keys = {dg.AssetKey("left")}
    job = ticker.loaded.resolve_implicit_global_asset_job_def().get_subset(asset_selection=keys)
    for kills in range(MAX_KILLED_RUNS):
        result = request_stale_assets(ticker.loaded.get_repository_def(), ticker.instance, ticker.cursor)
        (request,) = result.run_requests or ()
        assert request.tags.get(PREVIOUS_KILLS_TAG, "0") == str(kills) and set(request.asset_selection or ()) == keys
        ticker.instance.create_run_for_job(
            job, asset_selection=keys, tags={**request.tags, LOCK_FILE_TAG: "no such process"}
        )
        assert ticker.tick() == set(), "it may still live"
        assert fail_killed_runs(ticker.instance, tmp_path) == 1
    assert ticker.tick() == {"sink"}, "it may be what kills them"
