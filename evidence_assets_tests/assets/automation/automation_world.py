"""A small lake with a few seed files, and the run requests of the sensors, tick by tick."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import dagster as dg
import polars as pl
import yaml
from dagster._core.execution.backfill import PartitionBackfill  # no public function creates one without a server

from evidence_assets.assets.automation import InstanceRecords, request_stale_assets
from evidence_assets.assets.change_sensors import request_input_runs
from evidence_assets.assets.definitions import load_definitions
from evidence_assets.lake.store import Lake

RELATIONS: dict[str, tuple[str, list[list[str]]]] = {
    "may_treat": ("<HEAD> may treat <TAIL>", [["allopurinol", "gout"], ["rifampicin", "tuberculosis"]]),
    "listed_with": ("<HEAD> is listed with <TAIL>", [["gout", "allopurinol"]]),
    "leads_to": ("<HEAD> can lead to <TAIL>", [["epilepsy", "gout"]]),
}
"""Three relations whose words occur in the small corpus; their truth does not matter."""

Asset = tuple[str, str | None]
COLLECTION = "knowledge/kbloom/biomedical"
MAX_TICKS = 15
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def write_seed(lake: Path, name: str, prompt: str, pairs: Sequence[Sequence[str]], **fields: Any) -> Path:
    """Write a seed file."""
    path = lake / "raw" / "seeds" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"id": name, "collection": "biomedical", "prompt": prompt, "pairs": [list(p) for p in pairs], **fields}
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def add_backfill(
    instance: dg.DagsterInstance, repository: dg.RepositoryDefinition, name: str, partition: str
) -> PartitionBackfill:
    """Ask for a backfill of one partition; no daemon requests its run."""
    backfill = PartitionBackfill.from_asset_partitions(
        backfill_id=f"{name}-{partition}".replace("/", "-"),
        asset_graph=repository.asset_graph,
        partition_names=[partition],
        asset_selection=[dg.AssetKey(name.split("/"))],
        backfill_timestamp=0.0,
        tags={},
        dynamic_partitions_store=instance,
        all_partitions=False,
        title=None,
        description=None,
        run_config=None,
    )
    instance.add_backfill(backfill)
    return backfill


def end_backfill(instance: dg.DagsterInstance, backfill: PartitionBackfill, status: str) -> None:
    """Give a backfill the status CANCELED or COMPLETED_FAILED."""
    statuses = type(backfill.status)
    instance.update_backfill(backfill.with_status(statuses[status]))


@dataclass
class SensorWorld:
    """A lake, a Dagster instance and the sensors over them."""

    root: Path
    instance: dg.DagsterInstance
    repository: dg.RepositoryDefinition
    cursor: str | None = None
    queue: list[dg.DagsterRun] = field(default_factory=list)

    @classmethod
    def open(cls, root: Path) -> Self:
        return cls(root, dg.DagsterInstance.get(), load_definitions().get_repository_def())

    @property
    def lake(self) -> Lake:
        return Lake(self.root / "data_lake")

    def seed(self, name: str, pairs: Sequence[Sequence[str]] | None = None, **fields: Any) -> Path:
        prompt, default_pairs = RELATIONS.get(name, ("<HEAD> may treat <TAIL>", []))
        return write_seed(self.root / "data_lake", name, fields.pop("prompt", prompt), pairs or default_pairs, **fields)

    # The daemon -------------------------------------------------------------------------------------------------------

    def tick(self) -> list[Asset]:
        """A tick over input files and materializations; runs are queued, except those of the graph of the sample."""
        requests, new_partitions = request_input_runs(self.repository, self.instance, self.lake)
        self.instance.add_dynamic_partitions("relations", new_partitions)
        result = request_stale_assets(self.repository, self.instance, self.cursor)
        self.cursor = result.cursor
        new = [*requests, *(result.run_requests or [])]
        new = [request for request in new if not _names(request)[0].startswith("knowledge/sample/")]
        self.queue += [self._queued(request) for request in new]
        return sorted((name, request.partition_key) for request in new for name in _names(request))

    def _queued(self, request: dg.RunRequest) -> dg.DagsterRun:
        selection = frozenset(request.asset_selection or ())
        job = load_definitions().resolve_implicit_global_asset_job_def().get_subset(asset_selection=selection)
        tags = dict(request.tags)
        if request.partition_key and "dagster/partition" not in tags:
            tags |= job.get_tags_for_partition_key(request.partition_key, selection)
        return self.instance.create_run_for_job(
            job_def=job, tags=tags, asset_selection=selection, run_config=_QUIET, status=dg.DagsterRunStatus.NOT_STARTED
        )

    def run(self, run: dg.DagsterRun, *, succeeds: bool = True) -> list[dg.DagsterEvent]:
        """Execute one queued run."""
        # No public function executes a queued run, so a new run replaces it.
        self.instance.delete_run(run.run_id)
        result = (
            load_definitions()
            .resolve_implicit_global_asset_job_def()
            .execute_in_process(
                instance=self.instance,
                asset_selection=list(run.asset_selection or ()),
                tags=run.tags,
                run_config=_QUIET,
                raise_on_error=False,
            )
        )
        failed = [e.step_failure_data.error_display_string for e in result.all_events if e.is_step_failure]
        assert result.success is succeeds, failed
        return list(result.all_events)

    def make(self, *names: str, partition: str | None = None, succeeds: bool = True) -> list[dg.DagsterEvent]:
        """Materialize assets directly."""
        keys = [dg.AssetKey(name.split("/")) for name in names]
        request = dg.RunRequest(asset_selection=keys, partition_key=partition)
        with dg.partition_loading_context(dynamic_partitions_store=self.instance):
            return self.run(self._queued(request), succeeds=succeeds)

    def work(self) -> None:
        """Execute the queued runs."""
        queued, self.queue = self.queue, []
        for run in queued:
            self.run(run)

    def settle(self, last: list[Asset] | None = None) -> list[list[Asset]]:
        """Tick and execute until nothing, or ``last``, is requested; returns the requests of each tick."""
        requested: list[list[Asset]] = []
        for _ in range(MAX_TICKS):
            assets = self.tick()
            if not assets:
                return requested
            requested.append(assets)
            self.work()
            if assets == last:
                return requested
        raise AssertionError(f"no end after {MAX_TICKS} ticks: {requested}")

    # Results --------------------------------------------------------------------------------------------------------

    def stale(self) -> set[Asset]:
        """Stale asset partitions."""
        records = InstanceRecords(self.repository, self.instance)
        with dg.partition_loading_context(dynamic_partitions_store=self.instance):
            changed = [asset for key in records.last_events for asset, _ in records.find_stale(key)]
        return {("/".join(key.path), partition) for key, partition in changed}

    def partitions(self) -> set[str]:
        return set(self.instance.get_dynamic_partitions("relations"))

    def triples(self, asset: str, relation: str) -> list[tuple[str, str]]:
        """Heads and tails of K-Bloom's triples of a relation, best first."""
        rows = self.lake.read("triples", asset)
        rows = rows.filter((pl.col("relation_id") == relation) & (pl.col("origin") == "kbloom")).sort("rank")
        return list(zip(rows["head"], rows["tail"], strict=True))

    def check(self, name: str, key: str) -> tuple[bool, str]:
        """Whether an asset check passed last, and its error text."""
        check = dg.AssetCheckKey(dg.AssetKey(key.split("/")), name)
        record = self.instance.get_latest_asset_check_evaluation_record(check)
        evaluation = record.event.dagster_event.asset_check_evaluation_data  # type: ignore[union-attr]
        return evaluation.passed, str(evaluation.metadata["problems"].value)


def _names(request: dg.RunRequest) -> list[str]:
    return ["/".join(key.path) for key in request.asset_selection or []]
