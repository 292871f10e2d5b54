"""Liveness of a process with many runs: a locked file that shows that it is alive; and fewer disk syncs."""

from __future__ import annotations

import fcntl
import os
import socket
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy

from evidence_assets.lake.atomic import is_abandoned

LOCK_FILE_TAG = "evidence/alive"
"""Tag of a run: the file that its process keeps locked."""
HOST_TAG = "evidence/host"
"""Tag of a run: the machine that has the file."""
KILLED_TAG, PREVIOUS_KILLS_TAG = "evidence/killed", "evidence/killed_before"
"""Tags of a killed run, and of its replacement: the number of consecutive kills so far."""
_FINISHED_STATUSES = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
UNFINISHED_STATUSES = [status for status in dg.DagsterRunStatus if status not in _FINISHED_STATUSES]


@contextmanager
def liveness_lock(home: Path) -> Iterator[dict[str, str]]:
    """Tags for the runs of this process; they name a file that stays locked while the process lives."""
    folder = home / "alive"
    folder.mkdir(exist_ok=True)
    lock_file = folder / str(uuid.uuid4())
    with _folder_lock(folder):
        handle = lock_file.open("w")
        fcntl.flock(handle, fcntl.LOCK_EX)
    with handle:
        try:
            yield {LOCK_FILE_TAG: lock_file.name, HOST_TAG: socket.gethostname()}
        finally:
            lock_file.unlink()


def fail_killed_runs(instance: dg.DagsterInstance, home: Path) -> int:
    """Mark runs of killed processes as failed and free their pool slots, because nothing else does."""
    failed_runs = 0
    for run in instance.get_runs(dg.RunsFilter(statuses=UNFINISHED_STATUSES)):
        lock_file = home / "alive" / run.tags.get(LOCK_FILE_TAG, "")
        is_local = run.tags.get(HOST_TAG, socket.gethostname()) == socket.gethostname()
        if is_local and run.tags.get(LOCK_FILE_TAG) and (not lock_file.exists() or is_abandoned(lock_file)):
            instance.add_run_tags(run.run_id, {KILLED_TAG: str(int(run.tags.get(PREVIOUS_KILLS_TAG, 0)) + 1)})
            instance.report_run_failed(run, "The process of this run was killed. Its finished assets are kept.")
            failed_runs += 1
    slots = instance.event_log_storage
    for run_id in slots.get_concurrency_run_ids():
        holder = instance.get_run_by_id(run_id)
        if holder is None or holder.is_finished:
            slots.free_concurrency_slots_for_run(run_id)
    if (home / "alive").is_dir():
        with _folder_lock(home / "alive"):
            for lock_file in (home / "alive").iterdir():
                if is_abandoned(lock_file):  # its process was killed before its first run or after its last
                    lock_file.unlink()
    return failed_runs


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """Wait for the exclusive lock under which lock files are created and deleted."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@lru_cache(maxsize=8)
def _open_connection(database: str) -> sqlite3.Connection:
    """A connection that stays open, so that SQLite does not checkpoint whenever another one closes."""
    connection = sqlite3.connect(database, check_same_thread=False)
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return connection


def _relax_sync(connection: Any, _record: Any) -> None:
    """Let Dagster's databases sync to disk at checkpoints only, not at each of some 6,000 events.

    With a write-ahead log, a killed process loses no events; a power failure may lose the last ones.
    """
    if not isinstance(connection, sqlite3.Connection):
        return
    connection.execute("PRAGMA synchronous=NORMAL")
    database = connection.execute("PRAGMA database_list").fetchone()[2]
    if database and connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        _open_connection(database)


def reduce_disk_syncs() -> None:
    """Let Dagster's databases sync less often in this process."""
    if not sqlalchemy.event.contains(sqlalchemy.Engine, "connect", _relax_sync):
        sqlalchemy.event.listen(sqlalchemy.Engine, "connect", _relax_sync)
