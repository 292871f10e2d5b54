"""Dagster's databases in a run of the command line: connections are kept, of few runs at a time."""

import gc
from pathlib import Path

import pytest
from dagster._core.storage.event_log.sqlite import sqlite_event_log
from dagster._core.storage.runs.sqlite import sqlite_run_storage

from evidence_assets.assets.run_liveness import speed_up_databases

OPEN_FILES = Path("/proc/self/fd")


@pytest.mark.skipif(not OPEN_FILES.exists(), reason="counts open files as Linux lists them")
def test_connections_are_kept_and_closed_when_many_runs_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sqlite_event_log, sqlite_run_storage):
        monkeypatch.setattr(module, "create_engine", vars(module)["create_engine"])  # restored after the test
    speed_up_databases()
    storage = sqlite_event_log.SqliteEventLogStorage(str(tmp_path))
    for number in range(20):
        connections = []
        for _ in range(2):
            with storage.run_connection(f"run{number}") as connection:
                connections.append(connection.connection.driver_connection)
                assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 1, "syncs at checkpoints only"
        assert connections[0] is connections[1]
    gc.collect()
    files = [str(link.readlink()) for link in OPEN_FILES.iterdir() if link.exists()]
    assert len({file for file in files if file.startswith(str(tmp_path)) and file.endswith(".db")}) == 8
