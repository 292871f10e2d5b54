"""For a process that works on many runs: a locked file that shows that it lives, and fewer waits for the disk."""

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
"""Tag of a run: the file that its process holds locked."""
HOST_TAG = "evidence/host"
"""Tag of a run: the machine whose file that is."""
KILLED_TAG, PREVIOUS_KILLS_TAG = "evidence/killed", "evidence/killed_before"
"""Tags of a run that was killed, and of one that takes its place: how many in a row were by then."""
_FINISHED_STATUSES = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
UNFINISHED_STATUSES = [status for status in dg.DagsterRunStatus if status not in _FINISHED_STATUSES]


@contextmanager
def liveness_lock(home: Path) -> Iterator[dict[str, str]]:
    """Tags for the runs of this process; the file that they name stays locked as long as it lives."""
    folder = home / "alive"
    folder.mkdir(exist_ok=True)
    mark = folder / str(uuid.uuid4())
    with _folder_lock(folder):
        handle = mark.open("w")
        fcntl.flock(handle, fcntl.LOCK_EX)
    with handle:
        try:
            yield {LOCK_FILE_TAG: mark.name, HOST_TAG: socket.gethostname()}
        finally:
            mark.unlink()


def fail_killed_runs(instance: dg.DagsterInstance, home: Path) -> int:
    """Say of runs whose process was killed that they failed, and give their places in pools back: nobody else would."""
    ended = 0
    for run in instance.get_runs(dg.RunsFilter(statuses=UNFINISHED_STATUSES)):
        mark = home / "alive" / run.tags.get(LOCK_FILE_TAG, "")
        here = run.tags.get(HOST_TAG, socket.gethostname()) == socket.gethostname()
        if here and run.tags.get(LOCK_FILE_TAG) and (not mark.exists() or is_abandoned(mark)):
            instance.add_run_tags(run.run_id, {KILLED_TAG: str(int(run.tags.get(PREVIOUS_KILLS_TAG, 0)) + 1)})
            instance.report_run_failed(run, "The process that worked on this run was killed; what it had made stays.")
            ended += 1
    slots = instance.event_log_storage
    for run_id in slots.get_concurrency_run_ids():
        holder = instance.get_run_by_id(run_id)
        if holder is None or holder.is_finished:
            slots.free_concurrency_slots_for_run(run_id)
    if (home / "alive").is_dir():
        with _folder_lock(home / "alive"):
            for mark in (home / "alive").iterdir():
                if is_abandoned(mark):  # of a process that was killed before its first run, or after its last
                    mark.unlink()
    return ended


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """Wait for, then hold, the right to put marks into the folder or to take them away."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@lru_cache(maxsize=8)
def _open_connection(database: str) -> sqlite3.Connection:
    """A connection that only keeps SQLite from tidying up behind every other one."""
    connection = sqlite3.connect(database, check_same_thread=False)
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return connection


def _relax_sync(connection: Any, _record: Any) -> None:
    """Let Dagster's own records wait for the disk at checkpoints only, not at each of some 6,000 events.

    With a write-ahead log a killed process loses nothing, a power cut at most the last events.
    """
    if not isinstance(connection, sqlite3.Connection):
        return
    connection.execute("PRAGMA synchronous=NORMAL")
    database = connection.execute("PRAGMA database_list").fetchone()[2]
    if database and connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        _open_connection(database)


def reduce_disk_syncs() -> None:
    """Let Dagster's databases wait less often for the disk in this process."""
    if not sqlalchemy.event.contains(sqlalchemy.Engine, "connect", _relax_sync):
        sqlalchemy.event.listen(sqlalchemy.Engine, "connect", _relax_sync)
