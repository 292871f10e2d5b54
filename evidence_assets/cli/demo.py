"""Materializes the whole asset graph in one process, run by run, with progress: what ``evidence demo`` does.

One process, because every child process would load torch again; the runs are recorded in the same Dagster instance
that the UI shows.
"""

from __future__ import annotations

import logging
import os
import resource
import sqlite3
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy
from rich.console import Console

from evidence_assets.definitions import defs

HOME_VARIABLE = "DAGSTER_HOME"


@dataclass
class Report:
    """What a whole materialization did."""

    assets: int = 0
    materializations: int = 0
    rows_reused: int = 0
    rows_computed: int = 0
    seconds: float = 0.0
    failed_checks: list[str] = field(default_factory=list)

    @property
    def peak_gib(self) -> float:
        """Largest resident memory of this process so far."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


class RunFailedError(RuntimeError):
    """A run ended with a failed step; what was made before it stays."""


def dagster_home() -> Path:
    """Folder of the Dagster instance: DAGSTER_HOME, else ``.dagster`` beside ``dagster.yaml``; made where absent."""
    named = os.environ.get(HOME_VARIABLE)
    root = Path(__file__).resolve().parents[2]
    home = Path(named) if named else root / ".dagster"
    home.mkdir(parents=True, exist_ok=True)
    settings = home / "dagster.yaml"
    if not settings.exists() and (root / "dagster.yaml").exists():
        settings.write_bytes((root / "dagster.yaml").read_bytes())
    os.environ[HOME_VARIABLE] = str(home.resolve())
    return home


def lake_assets() -> list[str]:
    """Keys of all assets that Dagster loads, as the lake writes them."""
    graph = defs().resolve_asset_graph()
    return ["/".join(key.path) for key in graph.materializable_asset_keys]


def batches(graph: Any) -> Iterator[list[dg.AssetKey]]:
    """Assets in an order in which they can be made: as many with equal partitions at once as need no other first.

    Those whose partitions are found out on the way (one per seed file) come after all that do not need them.
    """

    def worth(group: list[dg.AssetKey]) -> tuple[bool, int]:
        known = bool(group) and not isinstance(graph.get(group[0]).partitions_def, dg.DynamicPartitionsDefinition)
        return known, len(group)

    left = [key for level in graph.toposorted_asset_keys_by_level for key in level if graph.get(key).is_executable]
    while left:
        groups: dict[Any, list[dg.AssetKey]] = {}
        for key in left:
            node = graph.get(key)
            waiting = {parent for parent in node.parent_keys if parent in left}
            group = groups.setdefault(node.partitions_def, [])
            if waiting <= set(group):
                group.append(key)
        batch = max(groups.values(), key=worth)
        if not batch:
            raise dg.DagsterInvariantViolationError(f"assets wait for one another: {left}")
        yield batch
        left = [key for key in left if key not in batch]


@lru_cache(maxsize=8)
def _kept_open(database: str) -> sqlite3.Connection:
    """A connection that only keeps SQLite from tidying up behind every other one."""
    connection = sqlite3.connect(database, check_same_thread=False)
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return connection


def _spare_the_disk(connection: Any, _record: Any) -> None:
    """Let Dagster's own records wait for the disk at checkpoints only, not at each of some 6,000 events.

    Dagster opens a connection an event; the last one to close would fold the write-ahead log into the file and flush
    both; where the disk is busy that is most of a second run. Nothing can be damaged: with a write-ahead log a killed process loses
    nothing, a power cut at most the last events.
    """
    if not isinstance(connection, sqlite3.Connection):
        return
    connection.execute("PRAGMA synchronous=NORMAL")
    database = connection.execute("PRAGMA database_list").fetchone()[2]
    if database and connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        _kept_open(database)


def run_all(*, verbose: bool = False, console: Console | None = None) -> Report:
    """Materialize every asset in every partition; rows whose inputs are unchanged are taken over.

    Raises
    ------
    RunFailedError
        With the message of the first step that failed; blocking checks fail steps, too.
    """
    shown = console or Console(highlight=False)
    started = time.monotonic()
    dagster_home()
    _quiet()
    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", _spare_the_disk)
    loaded = defs()
    graph = loaded.resolve_asset_graph()
    job = loaded.resolve_implicit_global_asset_job_def()
    report = Report(assets=len(graph.materializable_asset_keys))
    with dg.DagsterInstance.get() as instance:
        planned = list(batches(graph))
        done = 0

        def total() -> int:
            # counted anew each time: partitions of relations appear when the seed files are looked at
            return sum(len(b) * len(_partitions(graph, b, instance)) for b in planned)

        for batch in planned:
            for partition in _partitions(graph, batch, instance):
                run_id = str(uuid.uuid4())

                def on_event(entry: Any) -> None:
                    nonlocal done
                    event = entry.dagster_event
                    if event is not None and event.is_step_materialization:
                        done += 1
                        _tell(shown, event, done, total(), time.monotonic() - started)
                    elif verbose and event is None:
                        shown.print(f"      {entry.user_message}", markup=False, style="dim")

                instance.add_event_listener(run_id, on_event)
                result = job.execute_in_process(
                    run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
                    instance=instance,
                    partition_key=partition,
                    asset_selection=batch,
                    run_id=run_id,
                    raise_on_error=False,
                )
                _count(report, result)
                _raise_failure(result)
    report.seconds = time.monotonic() - started
    return report


def _partitions(graph: Any, batch: list[dg.AssetKey], instance: dg.DagsterInstance) -> list[str | None]:
    definition = graph.get(batch[0]).partitions_def
    return [None] if definition is None else list(definition.get_partition_keys(dynamic_partitions_store=instance))


def _quiet() -> None:
    for name in ("dagster", "sentence_transformers", "transformers", "httpx"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _metadata(event: Any) -> dict[str, Any]:
    found = event.step_materialization_data.materialization.metadata
    return {name: value.value for name, value in found.items() if hasattr(value, "value")}


def _tell(shown: Console, event: Any, done: int, total: int, elapsed: float) -> None:
    materialization = event.step_materialization_data.materialization
    metadata = _metadata(event)
    parts = ["/".join(materialization.asset_key.path)]
    if materialization.partition:
        parts.append(f"[{materialization.partition}]")
    if "dagster/row_count" in metadata:
        parts.append(f"{metadata['dagster/row_count']:,} rows")
    if metadata.get("rows_reused"):
        parts.append(f"({metadata['rows_reused']:,} reused)")
    if "accuracy_95" in metadata:
        parts.append(f"accuracy {metadata['accuracy_95']}")
    left = elapsed / done * (total - done)
    shown.print(
        f"{done:>4}/{total}  {elapsed:5.0f} s, about {left:3.0f} s left  {' '.join(parts)}",
        markup=False,
        soft_wrap=True,
    )


def _count(report: Report, result: dg.ExecuteInProcessResult) -> None:
    for event in result.all_events:
        if event.is_step_materialization:
            metadata = _metadata(event)
            report.materializations += 1
            rows = int(metadata.get("dagster/row_count", 0) or 0)
            report.rows_reused += int(metadata.get("rows_reused", 0))
            report.rows_computed += int(metadata.get("rows_computed", rows))
    for evaluation in result.get_asset_check_evaluations():
        if not evaluation.passed:
            report.failed_checks.append(f"{'/'.join(evaluation.asset_key.path)}:{evaluation.check_name}")


def _raise_failure(result: dg.ExecuteInProcessResult) -> None:
    if result.success:
        return
    for event in result.all_events:
        if event.is_step_failure:
            error = event.step_failure_data.error
            cause = error
            while cause is not None and cause.cause is not None:
                cause = cause.cause
            said = (cause.message if cause is not None else event.message or "").strip()
            raise RunFailedError(f"{event.step_key}: {said}")
    raise RunFailedError("the run failed; look at it in the Dagster UI")
