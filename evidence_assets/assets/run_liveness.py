"""How runs ended: killed, interrupted or failed; and faster databases of Dagster.

Each process keeps a file locked while it lives, so that others notice when it was killed.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import dagster as dg
import sqlalchemy
import yaml

from evidence_assets.experiment.stage import LogFunction, discard_message
from evidence_assets.lake.atomic import is_abandoned, replacing_file

LOCK_FILE_TAG = "evidence/alive"
"""Tag of a run: the file that its process keeps locked."""
PARENT_TAG = "evidence/within"
"""Tag of a run: the command or the run that started it."""
HOST_TAG = "evidence/host"
"""Tag of a run: the machine on which its locked file is."""
KILLED_TAG = "evidence/killed"
"""Tag of a killed run: consecutive kills, this one included."""
PREVIOUS_KILLS_TAG = "evidence/killed_before"
"""Tag of the run that replaces a killed one: consecutive kills before it."""
FOLLOW_JOB = "follow_changes"
"""The job that re-materializes stale assets."""
SECONDS_BETWEEN_ATTEMPTS = 2.0
"""Seconds between two attempts to get a pool slot that another process holds."""
MAX_KEPT_CONNECTIONS = 8
"""Databases with a kept connection: each run has its own, and the oldest is of a run that has ended."""
_FAILURE_REASON_TAG = "dagster/failure_reason"
_WILL_RETRY_TAG = "dagster/will_retry"
_INTERRUPTED = "UNEXPECTED_TERMINATION"
"""Dagster's failure reason of a run that received SIGTERM or SIGINT without a request to cancel it."""
_FINISHED_STATUSES = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
UNFINISHED_STATUSES = [status for status in dg.DagsterRunStatus if status not in _FINISHED_STATUSES]


@cache
def hold_liveness_lock(home: Path) -> dict[str, str]:
    """Tags for the runs of this process; they name a file that stays locked until the process ends."""
    folder = home / "alive"
    name = str(uuid.uuid4())
    folder.mkdir(exist_ok=True)
    for lock_file in folder.iterdir():
        if is_abandoned(lock_file):
            lock_file.unlink(missing_ok=True)
    fcntl.flock(os.open(home / name, os.O_CREAT | os.O_WRONLY), fcntl.LOCK_EX)
    (home / name).rename(folder / name)  # every file in the folder of a living process is locked
    return {LOCK_FILE_TAG: name, HOST_TAG: socket.gethostname()}


def history_id(run: dg.DagsterRun) -> str:
    """Id of a run in the lake's history; all runs of one command or one backfill share theirs."""
    return run.tags.get(PARENT_TAG) or run.tags.get("dagster/backfill") or run.run_id


def fail_killed_runs(instance: dg.DagsterInstance, home: Path, report: LogFunction = discard_message) -> None:
    """Mark runs of killed processes as failed and free their pool slots, because nothing else does.

    Reports each of these runs and its slots. A run that was being cancelled becomes a cancelled one.
    """
    for run in instance.get_runs(dg.RunsFilter(statuses=UNFINISHED_STATUSES)):
        if not _is_killed(instance, run, home):
            continue
        report(f"the process of {_describe(run)} was killed: the run is marked as failed")
        if run.status is dg.DagsterRunStatus.CANCELING:
            instance.report_run_canceled(run, "The process of this cancelled run has ended.")
            continue
        instance.add_run_tags(run.run_id, {KILLED_TAG: str(int(run.tags.get(PREVIOUS_KILLS_TAG, 0)) + 1)})
        instance.report_run_failed(run, "The process of this run was killed. Its finished assets are kept.")
    slots = instance.event_log_storage
    for run_id in sorted(slots.get_concurrency_run_ids()):
        holder = instance.get_run_by_id(run_id)
        if holder is None or holder.is_finished:
            slots.free_concurrency_slots_for_run(run_id)
            report(
                f"the pool slots of {_describe(holder) if holder else f'the deleted run {run_id[:8]}'} are free again"
            )


def _is_killed(instance: dg.DagsterInstance, run: dg.DagsterRun, home: Path) -> bool:
    """Whether the process of an unfinished run is gone: its file is unlocked or, without one, its pid does not run."""
    if run.tags.get(HOST_TAG, socket.gethostname()) != socket.gethostname():
        return False
    if name := run.tags.get(LOCK_FILE_TAG):
        lock_file = home / "alive" / name
        return not lock_file.exists() or is_abandoned(lock_file)
    if not type(instance.run_storage).__name__.startswith("Sqlite"):
        return False  # the database may serve several machines
    pids = (
        entry.dagster_event.engine_event_data.metadata.get("pid")
        for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
        if entry.dagster_event
    )
    first = next(filter(None, pids), None)  # the run's own process; those of its steps follow
    return first is not None and not _is_running(int(str(first.value)))


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it belongs to another user
    return True


def _describe(run: dg.DagsterRun) -> str:
    keys = sorted(key.to_user_string() for key in run.asset_selection or ())
    content = ", ".join(keys[:2]) + (f" and {len(keys) - 2} more" if len(keys) > 2 else "")
    return f"run {run.run_id[:8]} ({content or run.job_name})"


def wait_for_slots(
    instance: dg.DagsterInstance, home: Path, pools: Iterable[str], tags: Mapping[str, str], report: LogFunction
) -> None:
    """Wait until each pool has a slot that no other process holds, and report the runs that this waits for.

    ``tags``: Tags of the runs of this process; Dagster itself makes them wait for each other.
    """
    for pool in sorted(pools):
        reported: list[str] = []
        while holders := _find_holders(instance, pool, tags):
            if holders != reported:
                reported = holders
                report(f"waiting for pool {pool}, used by {', '.join(holders)}")
            time.sleep(SECONDS_BETWEEN_ATTEMPTS)
            fail_killed_runs(instance, home, report)


def _find_holders(instance: dg.DagsterInstance, pool: str, tags: Mapping[str, str]) -> list[str]:
    """Descriptions of the runs of other processes that hold all slots of a pool; none if a slot is free."""
    info = instance.event_log_storage.get_concurrency_info(pool)
    runs = [instance.get_run_by_id(run_id) for run_id in sorted(info.active_run_ids)]
    others = [run for run in runs if run and run.tags.get(LOCK_FILE_TAG, "") != tags[LOCK_FILE_TAG]]
    return [_describe(run) for run in others] if 0 < info.slot_count <= len(others) else []


def is_interrupted(run: dg.DagsterRun) -> bool:
    """Whether a run failed because its process received a signal to end, as when the service stops."""
    return run.status is dg.DagsterRunStatus.FAILURE and run.tags.get(_FAILURE_REASON_TAG) == _INTERRUPTED


def count_kills(run: dg.DagsterRun) -> int | None:
    """Consecutive kills up to a run that was killed or interrupted; None if it ended for another reason.

    An interruption does not count, because stopping the service is not the run's fault.
    """
    if is_interrupted(run):
        return int(run.tags.get(PREVIOUS_KILLS_TAG, 0))
    return int(run.tags[KILLED_TAG]) if KILLED_TAG in run.tags else None


def awaits_retry(run: dg.DagsterRun) -> bool:
    """Whether Dagster's run retries will launch a failed run again; they cannot launch a run inside a run."""
    return run.tags.get(_WILL_RETRY_TAG) == "true" and run.remote_job_origin is not None


@contextmanager
def raise_interruptions() -> Iterator[None]:
    """Raise the exception of a signal handler, which DuckDB reports as "Query interrupted"."""
    try:
        yield
    except RuntimeError as error:
        if error.__cause__ is not None and not isinstance(error.__cause__, Exception):
            raise error.__cause__ from None
        raise


def _relax_sync(connection: Any, _record: Any) -> None:
    """Let Dagster's databases sync to disk at checkpoints only, not at every event of a run (some 6,000).

    With a write-ahead log, a killed process loses no events; a power failure may lose the last ones.
    """
    if not isinstance(connection, sqlite3.Connection):
        return
    connection.execute("PRAGMA synchronous=NORMAL")
    with suppress(sqlite3.OperationalError):  # another process is creating the database; the next event does it
        connection.execute("PRAGMA journal_mode=WAL")  # Dagster sets it, too, but after it has created all tables
        _keep_open(connection.execute("PRAGMA database_list").fetchone()[2])


_kept_connections: dict[str, sqlite3.Connection] = {}
"""A connection to each of the last databases in use, the latest at the end."""
_kept_connections_lock = Lock()


def _keep_open(path: str) -> None:
    """Keep a connection to a database: Dagster connects for each event, and closing the last one is a checkpoint."""
    if not path:
        return  # in memory
    with _kept_connections_lock:
        connection = _kept_connections.pop(path, None) or sqlite3.connect(path, check_same_thread=False)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()  # SQLite opens the log when it first reads
        _kept_connections[path] = connection
        for oldest in list(_kept_connections)[:-MAX_KEPT_CONNECTIONS]:
            _kept_connections.pop(oldest).close()


def speed_up_databases() -> None:
    """Let Dagster's SQLite databases sync to disk less often in this process."""
    if not sqlalchemy.event.contains(sqlalchemy.Engine, "connect", _relax_sync):
        sqlalchemy.event.listen(sqlalchemy.Engine, "connect", _relax_sync)


def open_uncaptured_instance(home: Path) -> dg.DagsterInstance:
    """The Dagster instance, without capture of output, for which every run would start four processes."""
    settings = yaml.safe_load((home / "dagster.yaml").read_text(encoding="utf-8")) or {}
    module = "dagster.core.storage.noop_compute_log_manager"
    settings["compute_logs"] = {"module": module, "class": "NoOpComputeLogManager"}
    with replacing_file(home / "terminal.yaml") as file:
        file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return keep_connected(dg.DagsterInstance.from_config(str(home), "terminal.yaml"))


def keep_connected(instance: dg.DagsterInstance) -> dg.DagsterInstance:
    """The same instance, with a connection to its Postgres that is kept: Dagster connects again for each query."""
    instance.optimize_for_webserver(statement_timeout=60_000, pool_recycle=3_600, max_overflow=20)
    return instance
