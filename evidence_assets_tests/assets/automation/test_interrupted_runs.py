"""A process that receives SIGTERM in the middle of a change: the next tick finds what it had not reached."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from evidence_assets.assets.change_sensors import follow_changes, follow_data
from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.run_liveness import FOLLOW_JOB, raise_interruptions

pytestmark = pytest.mark.slow
NAMES = ("left", "right", "sink")
PATIENCE = 300.0


def folder() -> Path:
    return Path(os.environ["DAGSTER_HOME"])


def asset(name: str, *deps: str) -> dg.AssetsDefinition:
    """An asset whose data version is that of the source; waits while a file with its name exists."""

    @dg.asset(name=name, deps=list(deps))
    def materialize() -> dg.MaterializeResult[Any]:
        (folder() / f"{name}.started").touch()
        while (folder() / f"{name}.wait").exists():
            time.sleep(0.01)
        return dg.MaterializeResult(data_version=dg.DataVersion((folder() / "source").read_text()))

    return materialize


def definitions() -> dg.Definitions:
    """source → left → sink and source → right → sink, with the job and the sensor of the package."""
    return dg.Definitions(
        [asset("source"), asset("left", "source"), asset("right", "source"), asset("sink", "left", "right")],
        jobs=[follow_changes],
        sensors=[follow_data],
        resources={"lake": LakeResource(root=str(folder() / "lake"))},
    )


class Service:
    """The sensor here, and the runs that it requests as processes, as a daemon launches them."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self.cursor: str | None = None

    def make(self, *names: str) -> None:
        job = definitions().resolve_implicit_global_asset_job_def()
        assert job.execute_in_process(
            instance=self.instance, asset_selection=[dg.AssetKey(name) for name in names]
        ).success

    def change(self, version: str) -> None:
        (folder() / "source").write_text(version)
        self.make("source")

    def tick(self) -> int:
        """Evaluate the sensor; returns the number of runs that it requests."""
        loaded = definitions()
        with dg.build_sensor_context(
            self.instance, cursor=self.cursor, repository_def=loaded.get_repository_def(), resources=loaded.resources
        ) as context:
            result = follow_data(context)
        if isinstance(result, dg.SkipReason):
            return 0
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor
        return len(result.run_requests or ())

    def start(self) -> subprocess.Popen[bytes]:
        command = ("job", "execute", "--module-name", __name__, "--attribute", "definitions", "--job", FOLLOW_JOB)
        with (folder() / "log").open("a") as log:
            return subprocess.Popen([sys.executable, "-m", "dagster", *command], stdout=log, stderr=log)

    def start_until(self, name: str) -> subprocess.Popen[bytes]:
        """Start the run that follows changes, until it materializes this asset, which waits."""
        (folder() / f"{name}.wait").touch()
        (folder() / f"{name}.started").unlink()
        process, deadline = self.start(), time.monotonic() + PATIENCE
        while not (folder() / f"{name}.started").exists():
            assert process.poll() is None and time.monotonic() < deadline, (folder() / "log").read_text()
            time.sleep(0.02)
        return process

    def finish(self, process: subprocess.Popen[bytes], *, cancelled: bool = False) -> dg.DagsterRun:
        """Send SIGTERM, after a user's request to cancel the run or without; returns the run."""
        (run,) = self.instance.get_runs(dg.RunsFilter(job_name=FOLLOW_JOB), limit=1)
        if cancelled:
            self.instance.report_run_canceling(run)
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
        for path in folder().glob("*.wait"):
            path.unlink()
        finished = self.instance.get_run_by_id(run.run_id)
        assert finished is not None
        return finished

    def run(self) -> None:
        self.start().wait(PATIENCE)

    def versions(self) -> str:
        """Data versions of the assets downstream of the source."""
        records = [self.instance.get_latest_data_version_record(dg.AssetKey(name)) for name in NAMES]
        events = (record.asset_materialization for record in records)
        return " ".join((event.tags or {})["dagster/data_version"] for event in events if event is not None)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    with dg.DagsterInstance.get() as instance:
        service = Service(instance)
        (tmp_path / "source").write_text("1")
        service.make("source", *NAMES)
        assert [service.tick(), service.tick()] == [0, 0]
        service.change("2")
        yield service


@pytest.mark.parametrize(
    ("waits_in", "before", "stops"), [pytest.param("left", "1 1 1", 4, marks=pytest.mark.long), ("sink", "2 2 1", 1)]
)
def test_one_tick_after_sigterm_everything_becomes_current(
    service: Service, waits_in: str, before: str, stops: int
) -> None:
    for _ in range(stops):  # more often than a killed run is retried: stopping the service is not the run's fault
        assert service.tick() == 1
        run = service.finish(service.start_until(waits_in))
        assert run.status is dg.DagsterRunStatus.FAILURE
        assert service.versions() == before, "the signal ended the run instead of one asset"
        assert service.instance.get_run_ids(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])) == []
    assert service.tick() == 1
    service.run()
    assert service.versions() == "2 2 2" and service.tick() == 0


def test_a_cancelled_run_is_not_launched_again(service: Service) -> None:
    assert service.tick() == 1
    run = service.finish(service.start_until("left"), cancelled=True)
    assert run.status is dg.DagsterRunStatus.CANCELED
    assert [service.tick(), service.tick()] == [0, 0], "neither what it interrupted nor what the run had not reached"
    service.cursor = None
    assert service.tick() == 0
    service.change("3")
    assert service.tick() == 1, "the next change is followed"
    service.run()
    assert service.versions() == "3 3 3" and service.tick() == 0


def test_a_cancelled_run_whose_process_is_killed_is_not_launched_again(service: Service) -> None:
    assert service.tick() == 1
    process = service.start_until("left")
    (run,) = service.instance.get_runs(dg.RunsFilter(job_name=FOLLOW_JOB), limit=1)
    service.instance.report_run_canceling(run)
    process.kill()
    process.wait(PATIENCE)
    assert [service.tick(), service.tick()] == [0, 0]
    cancelled = service.instance.get_run_by_id(run.run_id)
    assert cancelled is not None and cancelled.status is dg.DagsterRunStatus.CANCELED


def test_an_interruption_that_duckdb_hides_is_raised() -> None:
    with pytest.raises(dg.DagsterExecutionInterruptedError), raise_interruptions():
        raise RuntimeError("Query interrupted") from dg.DagsterExecutionInterruptedError()
    with pytest.raises(RuntimeError, match="own error"), raise_interruptions():
        raise RuntimeError("own error") from ValueError()
