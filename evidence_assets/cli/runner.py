"""Materializes the asset graph run by run with progress, for ``evidence demo`` and ``evidence run``.

Uses this process or a few child processes: a process per run would load torch each time.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import re
import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from graphlib import TopologicalSorter
from importlib import resources
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.automation import AssetPartition
from evidence_assets.assets.command_plans import announce_plan
from evidence_assets.assets.definitions import load_definitions
from evidence_assets.assets.resources import LakeResource, set_pool_limits
from evidence_assets.assets.run_liveness import (
    PARENT_TAG,
    fail_killed_runs,
    hold_liveness_lock,
    open_uncaptured_instance,
    speed_up_databases,
    wait_for_slots,
)
from evidence_assets.assets.table_asset import FAIL_FAST_TAG
from evidence_assets.cli import GC_THRESHOLD
from evidence_assets.cli.console import err, out
from evidence_assets.cli.processes import start_process_server
from evidence_assets.cli.run_selection import (
    EVERYTHING,
    RunSelection,
    batches,
    is_missing_input,
    list_partitions,
    split_independent,
)
from evidence_assets.lake.catalogue import project_folder
from evidence_assets.lake.store import delete_abandoned_files


def dagster_home() -> Path:
    """Folder of the Dagster instance: DAGSTER_HOME, or ``.dagster`` in the project; created with our settings."""
    configured = os.environ.get("DAGSTER_HOME")
    home = Path(configured) if configured else project_folder() / ".dagster"
    home.mkdir(parents=True, exist_ok=True)
    settings = home / "dagster.yaml"
    if not settings.exists():
        template = resources.files("evidence_assets") / "project_template" / "dot_dagster" / "dagster.yaml"
        settings.write_bytes(template.read_bytes())
    os.environ["DAGSTER_HOME"] = str(home.resolve())
    return home


@dataclass(frozen=True)
class RunProblem:
    """A failed step or check of a run, with its error message."""

    name: str
    partition: str | None
    message: str


@dataclass
class Report:
    """Result of materializing a selection.

    ``rows_unchanged``: Reused rows, and those of files whose bytes are unchanged.
    ``skipped`` are assets or partitions that were not materialized because an upstream asset failed; ``warnings`` are
    checks that failed without blocking.
    """

    assets: int = 0
    materializations: int = 0
    rows_unchanged: int = 0
    rows_computed: int = 0
    seconds: float = 0.0
    failures: list[RunProblem] = field(default_factory=list)
    warnings: list[RunProblem] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    run_id: str = ""
    """Id of the run in the lake's history."""

    def add_materialization(self, event: Any) -> None:
        """Count the rows of a materialized asset.

        Assets that are cheaper to compute than to compare row by row reuse nothing or all.
        """
        metadata = _metadata(event)
        rows = int(metadata.get("dagster/row_count", 0) or 0)
        changed = metadata.get("file_changed", True)
        self.materializations += 1
        self.rows_unchanged += int(metadata.get("rows_reused", 0 if changed else rows))
        self.rows_computed += int(metadata.get("rows_computed", rows if changed else 0))

    def add_failed_check(self, evaluation: dg.AssetCheckEvaluation, partition: str | None) -> None:
        name = f"{'/'.join(evaluation.asset_key.path)}:{evaluation.check_name}"
        problems = evaluation.metadata.get("problems")
        failures = self.warnings if evaluation.severity is dg.AssetCheckSeverity.WARN else self.failures
        failures.append(RunProblem(name, partition, str(problems.value if problems else "the check failed")))

    def add(self, other: Report) -> None:
        """Add the counts of another report."""
        self.materializations += other.materializations
        self.rows_unchanged += other.rows_unchanged
        self.rows_computed += other.rows_computed
        self.failures += other.failures
        self.warnings += other.warnings


class Unit(NamedTuple):
    """Assets of a batch that one run materializes, in one partition."""

    batch: int
    keys: tuple[dg.AssetKey, ...]
    partition: str | None


class UnitResult(NamedTuple):
    """Result of a unit: its report, the valid assets, and progress lines that were not printed yet."""

    report: Report
    keys: set[dg.AssetKey]
    lines: list[str]


class UnitRunner:
    """Runs units in this process, with a line for each materialization to print or to return.

    ``hides_reused``: Whether the line of a materialization is empty if it computed no row and changed no file.
    """

    def __init__(
        self,
        definitions: dg.Definitions,
        tags: dict[str, str],
        print_line: Callable[[str], None] | None = None,
        *,
        hides_reused: bool = False,
    ) -> None:
        for name in ("dagster", "sentence_transformers", "transformers", "httpx"):
            logging.getLogger(name).setLevel(logging.ERROR)
        speed_up_databases()
        self._tags = tags
        self._print_line = print_line
        self._hides_reused = hides_reused
        self._job = definitions.resolve_implicit_global_asset_job_def()
        self._instance = open_uncaptured_instance(dagster_home())
        self._graph = definitions.resolve_asset_graph()
        self._jobs: dict[tuple[dg.AssetKey, ...], dg.JobDefinition] = {}

    def run(self, unit: Unit) -> UnitResult:
        lines: list[str] = []
        report_line = self._print_line or lines.append

        def on_event(entry: Any) -> None:
            event = entry.dagster_event
            if event is not None and event.is_step_materialization:
                report_line("" if self._hides_reused and _is_reused(event) else _describe_materialization(event))

        pools = {pool for key in unit.keys for pool in self._graph.get(key).pools or ()}
        wait_for_slots(self._instance, dagster_home(), pools, self._tags, _print_message)
        run_id = str(uuid.uuid4())
        self._instance.add_event_listener(run_id, on_event)
        if unit.keys not in self._jobs:
            # Each run stores a description of its job; that of all assets would take a tenth of a second.
            self._jobs[unit.keys] = self._job.get_subset(asset_selection=set(unit.keys))
        result = self._jobs[unit.keys].execute_in_process(
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            instance=self._instance,
            partition_key=unit.partition,
            asset_selection=list(unit.keys),
            run_id=run_id,
            tags={**self._tags, FAIL_FAST_TAG: "true"},
            raise_on_error=False,
        )
        report, keys = _report(result, unit.partition)
        return UnitResult(report, keys, lines)

    def run_now(self, unit: Unit) -> Future[UnitResult]:
        """Run a unit like an executor, but before this returns."""
        future = Future[UnitResult]()
        future.set_result(self.run(unit))
        return future


@cache
def _child_runner(*tags: tuple[str, str]) -> UnitRunner:
    return UnitRunner(load_definitions(), dict(tags))


def _start_child(*tags: tuple[str, str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C reaches all processes; the parent ends its children
    Thread(target=_end_with_parent, daemon=True).start()
    gc.set_threshold(GC_THRESHOLD)
    with suppress(Exception):  # the parent reports errors in definitions
        _child_runner(*tags)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_in_child(unit: Unit, *tags: tuple[str, str]) -> UnitResult:
    return _child_runner(*tags).run(unit)


@contextmanager
def _children(number: int, tags: dict[str, str]) -> Iterator[ProcessPoolExecutor | None]:
    """Child processes that run units, or None for one; they end with this process, or at once if it fails.

    The first loads the definitions while this process does, the others when they have work.
    """
    if number == 1:
        yield None
        return
    context = start_process_server()
    pool = ProcessPoolExecutor(number, context, _start_child, tuple(tags.items()))
    try:
        # In a thread, because the server imports libraries before it starts a process.
        Thread(target=lambda: pool.submit(os.getpid)).start()
        yield pool
    except BaseException as error:
        for child in multiprocessing.active_children():
            child.kill()
        if isinstance(error, BrokenProcessPool):
            raise ChildProcessError(
                "a child process ended early, probably because memory ran out: run the command again; finished work "
                "is reused"
            ) from error
        raise
    finally:
        pool.shutdown()


def count_processes() -> int:
    """Processes of a run: one for each card, up to the steps that the profile lets load a model at once."""
    limit = profiles.load().pools.gpu
    if limit == 1:
        return 1
    import torch

    return max(1, min(limit, torch.cuda.device_count()))


def run_all(selection: RunSelection = EVERYTHING, processes: int = 1, *, hides_reused: bool = False) -> Report:
    """Materialize every selected asset in every partition; rows whose inputs are unchanged are reused.

    ``hides_reused``: Whether to print no line for what was reused as a whole; for one process only.
    Failures are reported, assets downstream of them are skipped, and all others are materialized.
    """
    start = time.monotonic()
    home = dagster_home()
    delete_abandoned_files(LakeResource().open())
    tags = hold_liveness_lock(home) | {PARENT_TAG: str(uuid.uuid4())}
    with dg.DagsterInstance.get() as instance, _children(processes, tags) as pool:
        definitions = load_definitions()
        graph = definitions.resolve_asset_graph()
        planned_batches = list(batches(graph, selection))
        fail_killed_runs(instance, home, _print_message)
        set_pool_limits(instance)
        if pool:
            planned_batches = [component for batch in planned_batches for component in split_independent(graph, batch)]
        run_queue = RunQueue(graph, planned_batches, selection, instance)
        with announce_plan(instance, chain.from_iterable(planned_batches)):
            if pool:
                run_queue.work(lambda unit: pool.submit(_run_in_child, unit, *tags.items()), processes)
            else:
                unit_runner = UnitRunner(definitions, tags, run_queue.print_progress, hides_reused=hides_reused)
                run_queue.work(unit_runner.run_now, 1)
    run_queue.report.seconds = time.monotonic() - start
    run_queue.report.run_id = tags[PARENT_TAG]
    return run_queue.report


class RunQueue:
    """Runs units in topological order and collects their results."""

    def __init__(
        self, graph: Any, batches: Sequence[list[dg.AssetKey]], selection: RunSelection, instance: dg.DagsterInstance
    ) -> None:
        self._graph = graph
        self._batches = batches
        self._selection = selection
        self._instance = instance
        self._start = time.monotonic()
        self._n_done = 0
        self._total = 0
        """Materializations of all batches; 0 if not counted since the last unit, which may have added partitions."""
        self._missing_assets = set[AssetPartition]()
        self.report = Report(assets=sum(map(selection.has_asset, graph.materializable_asset_keys)))
        upstream = self._find_upstream_batches()
        self._order = TopologicalSorter(upstream)
        self._levels_below = dict.fromkeys(upstream, 0)
        """Length of the longest chain of batches that wait for each batch."""
        for number in reversed([*TopologicalSorter(upstream).static_order()]):
            for parent in upstream[number]:
                self._levels_below[parent] = max(self._levels_below[parent], self._levels_below[number] + 1)

    def _find_upstream_batches(self) -> dict[int, set[int]]:
        """The batches that each batch waits for."""
        batch_of = {key: number for number, batch in enumerate(self._batches) for key in batch}
        upstream: dict[int, set[int]] = {number: set() for number in range(len(self._batches))}
        for key, number in batch_of.items():
            parents = {batch_of[parent] for parent in self._graph.get(key).parent_keys if parent in batch_of}
            upstream[number] |= parents - {number}
        return upstream

    def work(self, submit: Callable[[Unit], Future[UnitResult]], max_running: int) -> None:
        """Run all units, at most ``max_running`` at once, each after its upstream batches; long chains start first."""
        waiting: list[Unit] = []
        running: dict[Future[UnitResult], Unit] = {}
        n_remaining = Counter[int]()
        self._order.prepare()
        while self._order.is_active():
            for number in self._order.get_ready():
                units = self._units(number)
                n_remaining[number] = len(units)
                waiting += units
                if not units:
                    self._order.done(number)
            waiting.sort(key=lambda unit: (-self._levels_below[unit.batch], unit.batch))
            while waiting and len(running) < max_running:
                unit = waiting.pop(0)
                running[submit(unit)] = unit
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                unit = running.pop(future)
                self._add(unit, future.result())
                n_remaining[unit.batch] -= 1
                if not n_remaining[unit.batch]:
                    self._order.done(unit.batch)

    def _add(self, unit: Unit, result: UnitResult) -> None:
        self._total = 0
        for text in result.lines:
            self.print_progress(text)
        self.report.add(result.report)
        missing_keys = [key for key in unit.keys if key not in result.keys]
        self._missing_assets |= {AssetPartition(key, unit.partition) for key in missing_keys}
        failed = {failure.name.partition(":")[0] for failure in result.report.failures}
        names = ["/".join(key.path) for key in missing_keys]
        self.report.skipped += [_asset_label(name, unit.partition) for name in names if name not in failed]

    def _units(self, number: int) -> list[Unit]:
        """The runnable units of a batch; assets with a missing input are skipped."""
        units = []
        for partition, selected_keys in self._keys_by_partition(number).items():
            keys = []
            with dg.partition_loading_context(dynamic_partitions_store=self._instance):
                for key in selected_keys:
                    if is_missing_input(self._graph, AssetPartition(key, partition), self._missing_assets):
                        self._missing_assets.add(AssetPartition(key, partition))
                        self.report.skipped.append(_asset_label("/".join(key.path), partition))
                    else:
                        keys.append(key)
            if keys:
                units.append(Unit(number, tuple(keys), partition))
        return units

    def _keys_by_partition(self, number: int) -> dict[str | None, list[dg.AssetKey]]:
        """The selected assets of a batch in each partition."""
        keys: dict[str | None, list[dg.AssetKey]] = {}
        for key in self._batches[number]:
            for partition in list_partitions(self._graph, key, self._instance, self._selection):
                keys.setdefault(partition, []).append(key)
        return keys

    def print_progress(self, text: str) -> None:
        """Print a materialization, unless its line is empty, with the progress and the estimated time left."""
        self._n_done += 1
        if not text:
            return
        if not self._total:
            numbers = range(len(self._batches))
            self._total = sum(len(keys) for number in numbers for keys in self._keys_by_partition(number).values())
        elapsed = time.monotonic() - self._start
        seconds_left = elapsed / self._n_done * (self._total - self._n_done)
        progress = f"{self._n_done:>4}/{self._total}  {elapsed:5.0f} s, about {seconds_left:3.0f} s left"
        out.print(f"{progress}  {text}")


_print_message = partial(err.print, style="yellow")


def _metadata(event: Any) -> dict[str, Any]:
    values = event.step_materialization_data.materialization.metadata
    return {name: value.value for name, value in values.items() if hasattr(value, "value")}


def _is_reused(event: Any) -> bool:
    """Whether a materialization computed no row and is not known to have changed a file."""
    metadata = _metadata(event)
    return not metadata.get("rows_computed") and not metadata.get("file_changed")


def _describe_materialization(event: Any) -> str:
    """One line about a materialization."""
    materialization = event.step_materialization_data.materialization
    metadata = _metadata(event)
    words = [_asset_label("/".join(materialization.asset_key.path), materialization.partition)]
    if "dagster/row_count" in metadata:
        words.append(f"{metadata['dagster/row_count']:,} rows")
    if metadata.get("rows_reused"):
        words.append(f"({metadata['rows_reused']:,} reused)")
    if "accuracy_95" in metadata:
        words.append(f"accuracy {metadata['accuracy_95']}")
    return " ".join(words)


def _asset_label(name: str, partition: str | None) -> str:
    return f"{name} [{partition}]" if partition else name


def _report(result: dg.ExecuteInProcessResult, partition: str | None) -> tuple[Report, set[dg.AssetKey]]:
    """Report of a run, and the materialized assets that passed their blocking checks."""
    report = Report()
    valid_keys = set[dg.AssetKey]()
    for event in result.all_events:
        if event.is_step_materialization:
            report.add_materialization(event)
            valid_keys.add(event.step_materialization_data.materialization.asset_key)
    for evaluation in result.get_asset_check_evaluations():
        if not evaluation.passed:
            report.add_failed_check(evaluation, partition)
            if evaluation.blocking:
                valid_keys.discard(evaluation.asset_key)
    for event in result.all_events:
        if event.is_step_failure and event.step_key is not None:
            message = _failure_message(event)
            if message is not None:
                report.failures.append(RunProblem(event.step_key.replace("__", "/"), partition, message))
    return report, valid_keys


def _failure_message(event: Any) -> str | None:
    """The message of the error behind a failed step; None for a failed check, which its evaluation reports."""
    error = event.step_failure_data.error
    if error is None:
        return str(event.message or "")
    if error.cls_name == dg.DagsterExecutionInterruptedError.__name__:
        raise KeyboardInterrupt  # the user interrupted the run; the step has not failed
    while (error.cls_name or "").startswith("Dagster") and error.cause:
        error = error.cause
    if error.cls_name == "DagsterAssetCheckFailedError":
        return None
    return re.sub(r"^evidence_assets\.lake\.errors\.\w+: ", "", error.message.strip())
