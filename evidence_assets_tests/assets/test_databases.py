"""Dagster's databases in a run of the command line: they sync to disk at checkpoints only."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy

from evidence_assets.assets import run_liveness
from evidence_assets.assets.run_liveness import MAX_KEPT_CONNECTIONS, speed_up_databases


@pytest.fixture(autouse=True)
def _kept_connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the connections that a test keeps, and let later tests keep none."""
    connections = dict[str, sqlite3.Connection]()
    monkeypatch.setattr(run_liveness, "_kept_connections", connections)
    speed_up_databases()
    yield
    sqlalchemy.event.remove(sqlalchemy.Engine, "connect", run_liveness._relax_sync)
    for connection in connections.values():
        connection.close()


def write(database: Path, row: int) -> None:
    """Write a row as Dagster writes an event: through a new connection, which is closed afterwards."""
    engine = sqlalchemy.create_engine(f"sqlite:///{database}", poolclass=sqlalchemy.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS events (id INTEGER)")
        connection.exec_driver_sql("INSERT INTO events VALUES (?)", (row,))
    engine.dispose()


def test_databases_sync_at_checkpoints_only(tmp_path: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/runs.db")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_no_event_is_a_checkpoint(tmp_path: Path) -> None:
    log = tmp_path / "runs.db-wal"
    sizes = []
    for row in range(3):
        write(tmp_path / "runs.db", row)
        sizes.append(log.stat().st_size if log.exists() else 0)
    assert 0 < sizes[0] < sizes[1] < sizes[2], "a checkpoint when the last connection closes deletes the log"


def test_few_databases_stay_open(tmp_path: Path) -> None:
    for run in range(MAX_KEPT_CONNECTIONS + 2):
        write(tmp_path / "index.db", run)
        write(tmp_path / f"{run}.db", run)
    logs = {path.name.removesuffix("-wal") for path in tmp_path.glob("*-wal")}
    assert len(logs) == MAX_KEPT_CONNECTIONS and "index.db" in logs, "those of ended runs are closed"
