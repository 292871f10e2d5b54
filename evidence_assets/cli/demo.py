"""Materializes the whole asset graph in one process, run by run, with progress: what ``evidence demo`` does.

One process, because every child process would load torch again; the runs are recorded in the same Dagster instance
that the UI shows.
"""

from __future__ import annotations

import logging
import os
import re
import resource
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
from rich.console import Console

from evidence_assets.assets.automation import Part
from evidence_assets.assets.in_process import end_killed_runs, marked_alive, spare_the_disk
from evidence_assets.assets.partitions import corpus_partitions
from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.table_asset import AT_ONCE
from evidence_assets.benchmarks.declared import Benchmark, benchmarks
from evidence_assets.definitions import defs
from evidence_assets.lake.housekeeping import sweep

HOME_VARIABLE = "DAGSTER_HOME"


@dataclass(frozen=True)
class Failure:
    """A step that failed, or a check that did not pass, and what it said."""

    name: str
    partition: str | None
    said: str


@dataclass(frozen=True)
class Wanted:
    """What is made: everything, or these assets, and of their partitions by benchmark those of one alone."""

    keys: frozenset[dg.AssetKey] | None = None
    benchmark: str = ""

    def asset(self, key: dg.AssetKey) -> bool:
        return self.keys is None or key in self.keys

    def partition(self, name: str) -> bool:
        """Whether a partition is made: of another benchmark than the one that is wanted it is not."""
        owner = name.split("|")[0]
        return not self.benchmark or owner == self.benchmark or owner not in benchmarks()


EVERYTHING = Wanted()


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

    @property
    def peak_gib(self) -> float:
        """Largest resident memory of this process so far."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


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


def batches(graph: Any, wanted: Wanted) -> Iterator[list[dg.AssetKey]]:
    """Wanted assets in an order in which they can be made: as many with equal partitions at once as need no other first.

    Those whose partitions are found out on the way (one per seed file) come after all that do not need them.
    """

    def worth(group: list[dg.AssetKey]) -> tuple[bool, int]:
        known = bool(group) and not isinstance(graph.get(group[0]).partitions_def, dg.DynamicPartitionsDefinition)
        return known, len(group)

    ordered = (key for level in graph.toposorted_asset_keys_by_level for key in level)
    left = [key for key in ordered if graph.get(key).is_executable and wanted.asset(key)]
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


def run_all(*, verbose: bool = False, console: Console | None = None, wanted: Wanted = EVERYTHING) -> Report:
    """Materialize every wanted asset in every partition; rows whose inputs are unchanged are taken over.

    What fails is reported, with what reads it left out, and everything else goes on.
    """
    shown = console or Console(highlight=False)
    started = time.monotonic()
    home = dagster_home()
    sweep(LakeResource().open())
    for name in ("dagster", "sentence_transformers", "transformers", "httpx"):
        logging.getLogger(name).setLevel(logging.ERROR)
    spare_the_disk()
    loaded = defs()
    graph = loaded.resolve_asset_graph()
    job = loaded.resolve_implicit_global_asset_job_def()
    report = Report(assets=sum(map(wanted.asset, graph.materializable_asset_keys)))
    unmade: set[Part] = set()
    with dg.DagsterInstance.get() as instance, marked_alive(home) as tags:
        end_killed_runs(instance, home)
        planned = list(batches(graph, wanted))
        done = 0

        def total() -> int:
            # counted anew each time: partitions of relations appear when the seed files are looked at
            return sum(len(b) * len(partitions_of(graph, b[0], instance, wanted)) for b in planned)

        for batch in planned:
            for partition in partitions_of(graph, batch[0], instance, wanted):
                selection = []
                with dg.partition_loading_context(dynamic_partitions_store=instance):
                    for key in batch:
                        if _lacks_input(graph, Part(key, partition), unmade):
                            unmade.add(Part(key, partition))
                            report.left_out.append(_shown("/".join(key.path), partition))
                        else:
                            selection.append(key)
                if not selection:
                    continue
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
                    asset_selection=selection,
                    run_id=run_id,
                    tags={**tags, AT_ONCE: "true"},
                    raise_on_error=False,
                )
                made = _count(report, result, partition)
                unmade |= {Part(key, partition) for key in selection if key not in made}
                told = {failure.name.partition(":")[0] for failure in report.failures}
                names = ["/".join(key.path) for key in selection if key not in made]
                report.left_out += [_shown(name, partition) for name in names if name not in told]
    report.seconds = time.monotonic() - started
    return report


def partitions_of(graph: Any, key: dg.AssetKey, instance: dg.DagsterInstance, wanted: Wanted) -> list[str | None]:
    """The wanted partitions of an asset, as they are known now; None stands for the whole of one without any."""
    definition = graph.get(key).partitions_def
    if definition is None:
        return [None]
    return [name for name in definition.get_partition_keys(dynamic_partitions_store=instance) if wanted.partition(name)]


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


def _lacks_input(graph: Any, part: Part, unmade: set[Part]) -> bool:
    """Whether something that a part is made from was not made.

    What unites benchmarks or relations goes on without one of them; a corpus, or a benchmark, lacks each of its shards.
    """
    for key in graph.get(part.key).parent_keys:
        if not graph.get(key).is_executable or not concerns(key, part.partition):
            continue
        if not graph.get(key).is_partitioned:
            if Part(key, None) in unmade:
                return True
            continue
        mapped = graph.get_parent_partition_keys_for_child(part.partition, key, part.key)
        lacking = [Part(key, name) in unmade for name in mapped.partitions_subset.get_partition_keys()]
        unites = part.partition is None and graph.get(key).partitions_def != corpus_partitions()
        if lacking and (all if unites else any)(lacking):
            return True
    return False


def concerns(key: dg.AssetKey, partition: str | None) -> bool:
    """Whether a benchmark is read or answered from an asset; what is no other benchmark's concerns all."""
    own = benchmarks().get((partition or "").split("|")[0])
    if own is None:
        return True
    name = "/".join(key.path)
    places = {place for one in benchmarks().values() for place in _places(one)} - _places(own)
    return not any(name == place or name.startswith(f"{place}/") for place in places)


def _places(benchmark: Benchmark) -> set[str]:
    graphs = {benchmark.graph, benchmark.background_graph, benchmark.taxonomy} - {""}
    return {benchmark.raw, f"corpus/{benchmark.corpus}", *(f"knowledge/{name}" for name in graphs)}


def _shown(name: str, partition: str | None) -> str:
    return f"{name} [{partition}]" if partition else name


def _count(report: Report, result: dg.ExecuteInProcessResult, partition: str | None) -> set[dg.AssetKey]:
    """Add a run to the report; returns the assets that it made and that passed their blocking checks."""
    made: set[dg.AssetKey] = set()
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
            while error is not None and error.cls_name and error.cls_name.startswith("Dagster") and error.cause:
                error = error.cause
            if error is not None and error.cls_name == "DagsterAssetCheckFailedError":
                continue  # said by its evaluation
            said = error.message.strip() if error is not None else event.message or ""
            said = re.sub(r"^evidence_assets\.lake\.errors\.\w+: ", "", said)
            report.failures.append(Failure(event.step_key.replace("__", "/"), partition, said))
    return made - refused
