"""Materializes the whole asset graph, run by run, with progress: what ``evidence demo`` does.

One process or two, and not one a run, because each would load torch again; the runs are recorded in the same Dagster
instance that the UI shows.
"""

from __future__ import annotations

import logging
import os
import re
import resource
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import dagster as dg
from rich.console import Console

from evidence_assets.assets.automation import Part
from evidence_assets.assets.in_process import end_killed_runs, marked_alive, spare_the_disk
from evidence_assets.assets.resources import LakeResource, set_limits
from evidence_assets.assets.table_asset import AT_ONCE
from evidence_assets.cli.run import EVERYTHING, Wanted, batches, independent, lacks_input, partitions_of
from evidence_assets.cli.second_process import Order, Tell, second_process
from evidence_assets.definitions import defs
from evidence_assets.lake.housekeeping import sweep

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
    beside_gib: float = 0.0

    @property
    def peak_gib(self) -> float:
        """Largest resident memory of this process so far, and with it that of one beside it."""
        return _peak_gib(resource.RUSAGE_SELF) + self.beside_gib

    def add(self, other: Report) -> None:
        """Count what another did."""
        self.materializations += other.materializations
        self.rows_reused += other.rows_reused
        self.rows_computed += other.rows_computed
        self.failures += other.failures


def _peak_gib(whose: int) -> float:
    return resource.getrusage(whose).ru_maxrss / 2**20


class Unit(NamedTuple):
    """What one run makes: assets in one of their partitions."""

    keys: tuple[dg.AssetKey, ...]
    partition: str | None


Materialize = Callable[[Unit], tuple[Report, set[dg.AssetKey]]]
"""Makes a unit; says what came of it, and which of its assets are there and right."""


def materializer(
    loaded: dg.Definitions, instance: dg.DagsterInstance, tags: dict[str, str], verbose: bool, *, tell: Tell
) -> Materialize:
    """What makes units in this process."""
    for name in ("dagster", "sentence_transformers", "transformers", "httpx"):
        logging.getLogger(name).setLevel(logging.ERROR)
    spare_the_disk()
    job = loaded.resolve_implicit_global_asset_job_def()

    def on_event(entry: Any) -> None:
        event = entry.dagster_event
        if event is not None and event.is_step_materialization:
            tell(_made(event), True)
        elif verbose and event is None:
            tell(entry.user_message, False)

    def materialize(unit: Unit) -> tuple[Report, set[dg.AssetKey]]:
        run_id = str(uuid.uuid4())
        instance.add_event_listener(run_id, on_event)
        result = job.execute_in_process(
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            instance=instance,
            partition_key=unit.partition,
            asset_selection=list(unit.keys),
            run_id=run_id,
            tags={**tags, AT_ONCE: "true"},
            raise_on_error=False,
        )
        return _report(result, unit.partition)

    return materialize


def _beside(tags: dict[str, str], verbose: bool, *, tell: Tell) -> Materialize:
    """The same in the second process, which loads all for itself."""
    return materializer(defs(), dg.DagsterInstance.get(), tags, verbose, tell=tell)


def run_all(
    *, verbose: bool = False, console: Console | None = None, wanted: Wanted = EVERYTHING, processes: int = 1
) -> Report:
    """Materialize every wanted asset in every partition; rows whose inputs are unchanged are taken over.

    What fails is reported, with what reads it left out, and everything else goes on. Of two ``processes`` each makes
    what is next while the other is busy.
    """
    started = time.monotonic()
    home = dagster_home()
    sweep(LakeResource().open())
    loaded = defs()
    graph = loaded.resolve_asset_graph()
    planned = list(batches(graph, wanted))
    if processes > 1:
        planned = [part for batch in planned for part in independent(graph, batch)]
    with dg.DagsterInstance.get() as instance, marked_alive(home) as tags:
        end_killed_runs(instance, home)
        making = _Making(graph, planned, wanted, instance, console or Console(highlight=False), started)
        here = materializer(loaded, instance, tags, verbose, tell=making.tell)
        if processes > 1:
            set_limits(instance)
            with ThreadPoolExecutor(1) as thread, second_process(_beside, tags, verbose, tell=making.tell) as there:
                other = thread.submit(making.work, there)
                making.work(here)
                other.result()
            making.report.beside_gib = _peak_gib(resource.RUSAGE_CHILDREN)
        else:
            making.work(here)
    making.report.seconds = time.monotonic() - started
    return making.report


class _Making:
    """What is made in which order, and what came of it so far; each process that works has a thread here."""

    def __init__(
        self,
        graph: Any,
        planned: Sequence[list[dg.AssetKey]],
        wanted: Wanted,
        instance: dg.DagsterInstance,
        shown: Console,
        started: float,
    ) -> None:
        self._graph, self._planned, self._wanted, self._instance = graph, planned, wanted, instance
        self._shown, self._started, self._done = shown, started, 0
        self._unmade, self._changing = set[Part](), Lock()
        self.report = Report(assets=sum(map(wanted.asset, graph.materializable_asset_keys)))
        place = {key: number for number, batch in enumerate(planned) for key in batch}
        parents = [{parent for key in batch for parent in graph.get(key).parent_keys} for batch in planned]
        needs = [{place[key] for key in keys if key in place} - {number} for number, keys in enumerate(parents)]
        self._order = Order(needs, self._units)

    def work(self, materialize: Materialize) -> None:
        """Make one unit after another until none is left."""

        def do(unit: Unit) -> None:
            said, made = materialize(unit)
            lacking = [key for key in unit.keys if key not in made]
            told = {failure.name.partition(":")[0] for failure in said.failures}
            with self._changing:
                self.report.add(said)
                self._unmade |= {Part(key, unit.partition) for key in lacking}
                names = ["/".join(key.path) for key in lacking]
                self.report.left_out += [_shown(name, unit.partition) for name in names if name not in told]

        self._order.work(do)

    def _units(self, number: int) -> list[Unit]:
        """What can be made of a batch, all that it reads being made; the rest is left out."""
        found = []
        for partition in self._partitions(number):
            keys = []
            with dg.partition_loading_context(dynamic_partitions_store=self._instance):
                for key in self._planned[number]:
                    if lacks_input(self._graph, Part(key, partition), self._unmade):
                        self._unmade.add(Part(key, partition))
                        self.report.left_out.append(_shown("/".join(key.path), partition))
                    else:
                        keys.append(key)
            if keys:
                found.append(Unit(tuple(keys), partition))
        return found

    def _partitions(self, number: int) -> list[str | None]:
        return partitions_of(self._graph, self._planned[number][0], self._instance, self._wanted)

    def tell(self, text: str, made: bool) -> None:
        with self._changing:
            if not made:
                self._shown.print(f"      {text}", markup=False, style="dim")
                return
            self._done += 1
            # counted anew each time: partitions of relations appear when the seed files are looked at
            total = sum(len(batch) * len(self._partitions(number)) for number, batch in enumerate(self._planned))
            elapsed = time.monotonic() - self._started
            left = elapsed / self._done * (total - self._done)
            so_far = f"{self._done:>4}/{total}  {elapsed:5.0f} s, about {left:3.0f} s left"
            self._shown.print(f"{so_far}  {text}", markup=False, soft_wrap=True)


def _metadata(event: Any) -> dict[str, Any]:
    found = event.step_materialization_data.materialization.metadata
    return {name: value.value for name, value in found.items() if hasattr(value, "value")}


def _made(event: Any) -> str:
    """A materialization in a line."""
    materialization = event.step_materialization_data.materialization
    metadata = _metadata(event)
    parts = [_shown("/".join(materialization.asset_key.path), materialization.partition)]
    if "dagster/row_count" in metadata:
        parts.append(f"{metadata['dagster/row_count']:,} rows")
    if metadata.get("rows_reused"):
        parts.append(f"({metadata['rows_reused']:,} reused)")
    if "accuracy_95" in metadata:
        parts.append(f"accuracy {metadata['accuracy_95']}")
    return " ".join(parts)


def _shown(name: str, partition: str | None) -> str:
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
