"""Edits of raw files start what depends on them: ticks of the sensor, and the daemon."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from evidence_assets.assets.automation import MAX_ATTEMPTS
from evidence_assets.assets.change_sensors import follow_changes, follow_data, materialize_changes
from evidence_assets.assets.definitions import load_definitions
from evidence_assets.assets.raw_files import raw_asset
from evidence_assets.assets.resources import LakeResource
from evidence_assets.cli.add_corpus import add_corpus
from evidence_assets.lake.store import Lake
from evidence_assets_tests.conftest import DAGSTER_SETTINGS, SMALL_PROFILE
from evidence_assets_tests.processes import child_processes, query_dagster, serve_dagster

RAW, CHUNKS = "raw/corpora/notes", "corpus/notes/chunks"


def materialized(asset: str, instance: dg.DagsterInstance) -> int:
    """How often an asset was materialized."""
    return len(instance.fetch_materializations(dg.AssetKey(asset.split("/")), limit=100).records)


class Follower:
    """A raw folder, an asset downstream of it, and the package's sensor."""

    def __init__(self, lake: Lake, instance: dg.DagsterInstance) -> None:
        @dg.asset(deps=[RAW.split("/")])
        def words() -> dg.MaterializeResult[Any]:
            return dg.MaterializeResult(data_version=dg.DataVersion((self.folder / "bees.txt").read_text()))

        self.lake = lake
        self.instance = instance
        self.folder = lake.root / "raw" / "corpora" / "notes"
        self.folder.mkdir(parents=True)
        (self.folder / "bees.txt").write_text("Bees buzz.")
        self.cursor: str | None = None
        self.definitions = dg.Definitions(
            [raw_asset(RAW, ["corpora/notes"]), words],
            jobs=[follow_changes],
            sensors=[follow_data],
            resources={"lake": LakeResource(root=str(lake.root))},
        )

    def make(self, *names: str) -> None:
        job = self.definitions.resolve_implicit_global_asset_job_def()
        keys = [dg.AssetKey(name.split("/")) for name in names]
        assert job.execute_in_process(instance=self.instance, asset_selection=keys).success

    def tick(self) -> int:
        """Evaluate the sensor; returns the number of runs that it requests."""
        repository = self.definitions.get_repository_def()
        with dg.build_sensor_context(
            self.instance, cursor=self.cursor, repository_def=repository, resources=self.definitions.resources
        ) as context:
            result = follow_data(context)
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor
        return len(result.run_requests or ())

    def follow(self) -> list[str]:
        """What the requested run does; returns the assets that failed."""
        repository = self.definitions.get_repository_def()
        return materialize_changes(repository, self.instance, self.lake, {}, lambda text: None)


@pytest.fixture
def follower(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Follower]:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    with dg.DagsterInstance.get() as instance:
        yield Follower(lake, instance)


def test_the_next_tick_follows_an_edit_of_a_raw_file(follower: Follower) -> None:
    assert follower.tick() == 0, "files of which nothing was ever made are left to the user"
    follower.make(RAW, "words")
    assert [follower.tick(), follower.tick()] == [0, 0]
    (follower.folder / "bees.txt").write_text("Bees hum.")
    assert follower.tick() == 1
    assert follower.follow() == []
    assert (materialized(RAW, follower.instance), materialized("words", follower.instance)) == (2, 2)
    assert follower.tick() == 0
    (follower.folder / "wasps.txt").write_text("Wasps sting.")
    assert follower.tick() == 1, "a new file"
    follower.follow()
    (follower.folder / "wasps.txt").unlink()
    assert follower.tick() == 1, "a deleted file"
    follower.follow()
    assert follower.tick() == 0


def test_a_file_that_is_written_again_with_the_same_text_remakes_nothing_downstream(follower: Follower) -> None:
    follower.make(RAW, "words")
    (follower.folder / "bees.txt").write_text("Bees buzz.")
    (follower.folder / ".bees.txt.swp").write_text("of an editor")
    follower.tick()
    follower.follow()
    assert (materialized(RAW, follower.instance), materialized("words", follower.instance)) == (2, 1)
    assert follower.tick() == 0


def test_a_deleted_folder_is_reported_and_not_retried_for_ever(follower: Follower) -> None:
    follower.make(RAW, "words")
    (follower.folder / "bees.txt").unlink()
    follower.folder.rmdir()
    failed = follower.follow()
    assert len(failed) == MAX_ATTEMPTS and failed[0].startswith(RAW)
    assert follower.tick() == 0


# Dagster's daemon


def wait_until(is_done: Callable[[], Any], log: Path, seconds: float = 300) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := is_done()):
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.2)
    return value


def list_ticks(address: str) -> list[tuple[float, str]]:
    """Time and status of the sensor's ticks, oldest first."""
    repositories = query_dagster(
        address, "{ repositoriesOrError { ... on RepositoryConnection { nodes { name location { name } } } } }"
    )
    (repository,) = repositories["repositoriesOrError"]["nodes"]
    selector = {
        "repositoryLocationName": repository["location"]["name"],
        "repositoryName": repository["name"],
        "sensorName": "follow_data",
    }
    query = (
        "query ($s: SensorSelector!) { sensorOrError(sensorSelector: $s) "
        "{ ... on Sensor { sensorState { ticks { timestamp status } } } } }"
    )
    ticks = query_dagster(address, query, s=selector)["sensorOrError"]["sensorState"]["ticks"]
    return sorted((tick["timestamp"], tick["status"]) for tick in ticks)


@pytest.mark.long
def test_the_daemon_follows_an_edited_document_within_two_ticks(
    tmp_path: Path, other_settings: pytest.MonkeyPatch
) -> None:
    documents = tmp_path / "notes"
    documents.mkdir()
    (documents / "bees.txt").write_text("Bees buzz when they fly.")
    home = tmp_path / "dagster_home"
    home.mkdir()
    (home / "dagster.yaml").write_bytes(DAGSTER_SETTINGS.read_bytes())
    (tmp_path / "small.yaml").write_text(SMALL_PROFILE.replace("n: 20,", "n: 20, sample_relations: [],"))
    lake = Lake.create(tmp_path / "data_lake", question_shards=1, corpus_shards=1)
    raw = add_corpus(lake, "notes", documents)
    settings = {
        "EVIDENCE_LAKE": str(lake.root),
        "DAGSTER_HOME": str(home),
        "EVIDENCE_PROFILE": str(tmp_path / "small.yaml"),
    }
    for name, value in settings.items():
        other_settings.setenv(name, value)
    job = load_definitions().resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.get() as instance:
        for asset, partition in ((RAW, None), (CHUNKS, "0")):
            keys = [dg.AssetKey(asset.split("/"))]
            assert job.execute_in_process(instance=instance, asset_selection=keys, partition_key=partition).success
    with child_processes(tmp_path) as start:
        address = serve_dagster(start, tmp_path, settings)
        log = tmp_path / "ui.log"
        wait_until(lambda: list_ticks(address) and list_ticks(address)[-1][1] == "SKIPPED", log)
        edited_at = time.time()
        (raw / "bees.txt").write_text("Bees dance when they find flowers.")
        wait_until(lambda: lake.read("chunks", CHUNKS)["text"].to_list() == ["Bees dance when they find flowers."], log)
        later = [status for started_at, status in list_ticks(address) if started_at > edited_at]
    assert "SUCCESS" in later[:2], later
