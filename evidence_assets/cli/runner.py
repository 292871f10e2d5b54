"""Materializes the asset graph, run by run, with progress: what ``evidence demo`` and ``evidence run`` do.

In this process or in several, but not one for each run, because each would load torch again.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import re
import resource
import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import dagster as dg

from evidence_assets.assets.automation import AssetPartition
from evidence_assets.assets.resources import LakeResource, set_pool_limits
from evidence_assets.assets.run_liveness import fail_killed_runs, liveness_lock, reduce_disk_syncs
from evidence_assets.assets.table_asset import FAIL_FAST_TAG
from evidence_assets.cli.console import out
from evidence_assets.cli.run_selection import (
    EVERYTHING,
    RunSelection,
    batches,
    is_missing_input,
    partitions_of,
    split_independent,
)
from evidence_assets.definitions import defs
from evidence_assets.lake.housekeeping import delete_abandoned_files

HOME_VARIABLE = "DAGSTER_HOME"


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


@dataclass(frozen=True)
class Failure:
    """A step that failed, or a check that did not pass, and what it said."""

    name: str
    partition: str | None
    said: str


@dataclass
class Report:
    """What a whole materialization did.

    ``left_out`` are assets, or partitions of them, that were not made because what they read failed.
    """

    assets: int = 0
    materializations: int = 0
    rows_reused: int = 0
    rows_computed: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    peaks: dict[int, float] = field(default_factory=dict)
    """Largest resident memory in GiB of each process that worked."""

    def add(self, other: Report) -> None:
        """Count what another did."""
        self.materializations += other.materializations
        self.rows_reused += other.rows_reused
        self.rows_computed += other.rows_computed
        self.failures += other.failures
        self.peaks |= other.peaks


class Unit(NamedTuple):
    """What one run makes: assets in one of their partitions."""

    keys: tuple[dg.AssetKey, ...]
    partition: str | None


class UnitResult(NamedTuple):
    """What came of a unit: the assets that are there and right, and the materializations that were not told yet."""

    report: Report
    keys: set[dg.AssetKey]
    told: list[str]


ProgressCallback = Callable[[str], None]
"""Called with each materialization in words."""
RunUnit = Callable[[Unit], UnitResult]


def materializer(tags: dict[str, str], tell: ProgressCallback | None = None) -> RunUnit:
    """What makes units in this process; materializations are returned in words where nothing is told of them."""
    for name in ("dagster", "sentence_transformers", "transformers", "httpx"):
        logging.getLogger(name).setLevel(logging.ERROR)
    reduce_disk_syncs()
    job, instance = defs().resolve_implicit_global_asset_job_def(), dg.DagsterInstance.get()

    def materialize(unit: Unit) -> UnitResult:
        told: list[str] = []
        inform = tell or told.append

        def on_event(entry: Any) -> None:
            event = entry.dagster_event
            if event is not None and event.is_step_materialization:
                inform(_describe_materialization(event))

        run_id = str(uuid.uuid4())
        instance.add_event_listener(run_id, on_event)
        result = job.execute_in_process(
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            instance=instance,
            partition_key=unit.partition,
            asset_selection=list(unit.keys),
            run_id=run_id,
            tags={**tags, FAIL_FAST_TAG: "true"},
            raise_on_error=False,
        )
        report, keys = _report(result, unit.partition)
        report.peaks[os.getpid()] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        return UnitResult(report, keys, told)

    return materialize


_child_runners: list[RunUnit] = []
"""What makes units in a child process."""


def _start_child(tags: dict[str, str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C reaches all; the parent ends its children
    Thread(target=_end_with_parent, daemon=True).start()
    _child_runners.append(materializer(tags))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_in_child(unit: Unit) -> UnitResult:
    return _child_runners[0](unit)


@contextmanager
def _children(number: int, tags: dict[str, str]) -> Iterator[ProcessPoolExecutor]:
    """Processes that make units; they end with this one, and at once where something fails here."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(number, context, _start_child, (tags,))
    try:
        yield pool
    except BaseException as error:
        for child in multiprocessing.active_children():
            child.kill()
        if isinstance(error, BrokenProcessPool):
            raise ChildProcessError(
                "a process ended early; where nothing above says why, memory was short: run it again, finished work is "
                "reused"
            ) from error
        raise
    finally:
        pool.shutdown()


def run_all(wanted: RunSelection = EVERYTHING, processes: int = 1) -> Report:
    """Materialize every wanted asset in every partition; rows whose inputs are unchanged are reused.

    What fails is reported, with what reads it left out, and everything else goes on.
    """
    started = time.monotonic()
    home = dagster_home()
    delete_abandoned_files(LakeResource().open())
    graph = defs().resolve_asset_graph()
    planned = list(batches(graph, wanted))
    if processes > 1:
        planned = [part for batch in planned for part in split_independent(graph, batch)]
    with dg.DagsterInstance.get() as instance, liveness_lock(home) as tags:
        fail_killed_runs(instance, home)
        making = _RunQueue(graph, planned, wanted, instance)
        if processes > 1:
            set_pool_limits(instance)
            with _children(processes, tags) as pool:
                making.work(lambda unit: pool.submit(_run_in_child, unit), processes)
        else:
            materialize = materializer(tags, making.tell)

            def make_here(unit: Unit) -> Future[UnitResult]:
                done = Future[UnitResult]()
                done.set_result(materialize(unit))
                return done

            making.work(make_here, 1)
    making.report.seconds = time.monotonic() - started
    return making.report


class _RunQueue:
    """What is made in which order, and what came of it so far."""

    def __init__(
        self, graph: Any, planned: Sequence[list[dg.AssetKey]], wanted: RunSelection, instance: dg.DagsterInstance
    ) -> None:
        self._graph, self._planned, self._wanted, self._instance = graph, planned, wanted, instance
        self._started, self._done = time.monotonic(), 0
        self._unmade = set[AssetPartition]()
        self.report = Report(assets=sum(map(wanted.has_asset, graph.materializable_asset_keys)))
        place = {key: number for number, batch in enumerate(planned) for key in batch}
        parents = [{parent for key in batch for parent in graph.get(key).parent_keys} for batch in planned]
        needs = [{place[key] for key in keys if key in place} - {number} for number, keys in enumerate(parents)]
        self._order = TopologicalSorter(dict(enumerate(needs)))

    def work(self, submit: Callable[[Unit], Future[UnitResult]], at_once: int) -> None:
        """Make unit after unit, so many at once, each after all batches that its own needs."""
        waiting: list[tuple[int, Unit]] = []
        running: dict[Future[UnitResult], tuple[int, Unit]] = {}
        left = Counter[int]()
        self._order.prepare()
        while self._order.is_active():
            for number in self._order.get_ready():
                units = self._units(number)
                left[number] = len(units)
                waiting += [(number, unit) for unit in units]
                if not units:
                    self._order.done(number)
            waiting.sort(key=lambda entry: entry[0])
            while waiting and len(running) < at_once:
                number, unit = waiting.pop(0)
                running[submit(unit)] = number, unit
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                number, unit = running.pop(future)
                self._add(unit, future.result())
                left[number] -= 1
                if not left[number]:
                    self._order.done(number)

    def _add(self, unit: Unit, made: UnitResult) -> None:
        for text in made.told:
            self.tell(text)
        self.report.add(made.report)
        lacking = [key for key in unit.keys if key not in made.keys]
        self._unmade |= {AssetPartition(key, unit.partition) for key in lacking}
        failed = {failure.name.partition(":")[0] for failure in made.report.failures}
        names = ["/".join(key.path) for key in lacking]
        self.report.left_out += [_asset_label(name, unit.partition) for name in names if name not in failed]

    def _units(self, number: int) -> list[Unit]:
        """What can be made of a batch, all that it reads being made; the rest is left out."""
        found = []
        for partition in self._partitions(number):
            keys = []
            with dg.partition_loading_context(dynamic_partitions_store=self._instance):
                for key in self._planned[number]:
                    if is_missing_input(self._graph, AssetPartition(key, partition), self._unmade):
                        self._unmade.add(AssetPartition(key, partition))
                        self.report.left_out.append(_asset_label("/".join(key.path), partition))
                    else:
                        keys.append(key)
            if keys:
                found.append(Unit(tuple(keys), partition))
        return found

    def _partitions(self, number: int) -> list[str | None]:
        return partitions_of(self._graph, self._planned[number][0], self._instance, self._wanted)

    def tell(self, text: str) -> None:
        """Print a materialization with how much is left."""
        self._done += 1
        # counted each time: partitions of relations appear when the seed files are looked at
        total = sum(len(batch) * len(self._partitions(number)) for number, batch in enumerate(self._planned))
        elapsed = time.monotonic() - self._started
        left = elapsed / self._done * (total - self._done)
        so_far = f"{self._done:>4}/{total}  {elapsed:5.0f} s, about {left:3.0f} s left"
        out.print(f"{so_far}  {text}", markup=False, soft_wrap=True)


def _metadata(event: Any) -> dict[str, Any]:
    found = event.step_materialization_data.materialization.metadata
    return {name: value.value for name, value in found.items() if hasattr(value, "value")}


def _describe_materialization(event: Any) -> str:
    """A materialization in a line."""
    materialization = event.step_materialization_data.materialization
    metadata = _metadata(event)
    parts = [_asset_label("/".join(materialization.asset_key.path), materialization.partition)]
    if "dagster/row_count" in metadata:
        parts.append(f"{metadata['dagster/row_count']:,} rows")
    if metadata.get("rows_reused"):
        parts.append(f"({metadata['rows_reused']:,} reused)")
    if "accuracy_95" in metadata:
        parts.append(f"accuracy {metadata['accuracy_95']}")
    return " ".join(parts)


def _asset_label(name: str, partition: str | None) -> str:
    return f"{name} [{partition}]" if partition else name


def _report(result: dg.ExecuteInProcessResult, partition: str | None) -> tuple[Report, set[dg.AssetKey]]:
    """What a run did, and the assets that it made and that passed their blocking checks."""
    report, made = Report(), set[dg.AssetKey]()
    for event in result.all_events:
        if event.is_step_materialization:
            metadata = _metadata(event)
            made.add(event.step_materialization_data.materialization.asset_key)
            report.materializations += 1
            rows = int(metadata.get("dagster/row_count", 0) or 0)
            report.rows_reused += int(metadata.get("rows_reused", 0))
            report.rows_computed += int(metadata.get("rows_computed", rows))
    refused = set()
    for evaluation in result.get_asset_check_evaluations():
        if not evaluation.passed:
            name = f"{'/'.join(evaluation.asset_key.path)}:{evaluation.check_name}"
            wrong = evaluation.metadata.get("wrong")
            report.failures.append(Failure(name, partition, str(wrong.value if wrong else "the check did not pass")))
            if evaluation.blocking:
                refused.add(evaluation.asset_key)
    for event in result.all_events:
        if event.is_step_failure and event.step_key is not None:
            error = event.step_failure_data.error
            if error is not None and error.cls_name == dg.DagsterExecutionInterruptedError.__name__:
                raise KeyboardInterrupt  # of whoever waits; the step has not failed
            while error is not None and error.cls_name and error.cls_name.startswith("Dagster") and error.cause:
                error = error.cause
            if error is not None and error.cls_name == "DagsterAssetCheckFailedError":
                continue  # said by its evaluation
            said = error.message.strip() if error is not None else event.message or ""
            said = re.sub(r"^evidence_assets\.lake\.errors\.\w+: ", "", said)
            report.failures.append(Failure(event.step_key.replace("__", "/"), partition, said))
    return report, made - refused
