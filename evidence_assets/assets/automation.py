"""Finds stale assets: an upstream data version differs from the one that they were computed from.

It also finds changes that were made while the daemon was down, and those that an interrupted run had not reached. A
materialization without a new data version makes nothing stale (see ``docs/decisions.md``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.command_plans import read_plans
from evidence_assets.assets.run_liveness import (
    PREVIOUS_KILLS_TAG,
    UNFINISHED_STATUSES,
    awaits_retry,
    count_kills,
    is_interrupted,
)
from evidence_assets.lake.ids import content_id

DATA_VERSION = "dagster/data_version"
"""Tag of a materialization: its data version."""
INPUT_POINTER_TAG = "dagster/input_event_pointer/"
"""Prefix of tags of a materialization, before an upstream key; the value is the upstream event that it read."""
MODEL_POOL = "llm"
"""Pool of the assets that call a language model."""
MAX_KILLED_RUNS = 3
"""Consecutive killed runs after which a partition is not retried: it may cause the kills."""
MAX_ATTEMPTS = 3
"""Maximum run requests for the same content of an input."""
RECORDS_PER_FETCH = 500
_CHANGE_TAG = "evidence/input_change"


class AssetPartition(NamedTuple):
    """One partition of an asset, or a whole unpartitioned asset."""

    key: dg.AssetKey
    partition: str | None


def find_planned(graph: Any, instance: dg.DagsterInstance) -> Callable[[AssetPartition], bool]:
    """Whether an unfinished backfill or command is to materialize something, also where no run is requested yet."""
    # Dagster has no public name for the status by which get_backfills could filter.
    backfills = [b for b in instance.get_backfills() if b.is_asset_backfill and b.status.value == "REQUESTED"]
    targets = [backfill.get_asset_backfill_data(graph).target_subset for backfill in backfills]
    backfilled = {AssetPartition(*asset) for target in targets for asset in target.iterate_asset_partitions()}
    commanded = {key for plan in read_plans(instance).values() for key in plan.keys}
    return lambda asset: asset in backfilled or asset.key.to_user_string() in commanded


def request_input_run(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None, change: str
) -> list[dg.RunRequest]:
    """A run request for a changed input, unless a run for it is unfinished or MAX_ATTEMPTS runs failed.

    ``change`` identifies the content and the event before it, so that restored content is requested again.
    """
    tags = {_CHANGE_TAG: f"{key.path[0]}:{partition or ''}:{change}"}
    runs = instance.get_runs(dg.RunsFilter(tags=tags))
    failed = [run for run in runs if run.is_finished and not run.is_success and not is_interrupted(run)]
    if len(failed) >= MAX_ATTEMPTS or any(not run.is_finished for run in runs):
        return []
    return [dg.RunRequest(partition_key=partition, asset_selection=[key], tags=tags)]


def last_version(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None = None) -> tuple[str, int]:
    """Data version and event id of the latest materialization; ("", 0) if there is none."""
    last, event = last_materialization(instance, key, partition)
    return (last.tags or {}).get(DATA_VERSION, "") if last else "", event


def last_materialization(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None = None
) -> tuple[dg.AssetMaterialization | None, int]:
    """The latest materialization and the id of its event; (None, 0) if there is none."""
    record = instance.get_latest_data_version_record(key, partition_key=partition)
    return (record.asset_materialization, record.storage_id) if record else (None, 0)


class InstanceRecords:
    """Event records of the instance, joined with the asset graph; each is read at most once per tick."""

    def __init__(self, repository: dg.RepositoryDefinition, instance: dg.DagsterInstance) -> None:
        self.graph = repository.asset_graph
        self.instance = instance
        self.last_events = {
            record.asset_entry.asset_key: record.asset_entry.last_materialization_storage_id or 0
            for record in instance.get_asset_records(list(self.graph.get_all_asset_keys()))
        }
        """Id of each asset's latest materialization event, over all partitions."""
        self.events = cache(self._events)
        self.planned_events = cache(self._planned_events)
        self.tags = cache(self._tags)
        self.partitions = cache(self._partitions)
        self.parents = cache(self._parents)
        self.version = cache(self._version)
        self.is_in_progress = cache(self._is_in_progress)
        self.unfinished_runs = set(instance.get_run_ids(dg.RunsFilter(statuses=UNFINISHED_STATUSES)))
        self.is_planned = find_planned(self.graph, instance)

    def _events(self, key: dg.AssetKey) -> Mapping[str | None, int]:
        """Id of the latest materialization event of each partition."""
        if self.graph.get(key).is_partitioned:
            return self._latest_events(key, dg.DagsterEventType.ASSET_MATERIALIZATION)
        return {None: self.last_events[key]} if self.last_events.get(key) else {}

    def _planned_events(self, key: dg.AssetKey) -> Mapping[str | None, int]:
        """Id of the latest planned-materialization event of each partition."""
        if self.graph.get(key).is_partitioned:
            return self._latest_events(key, dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
        planned = self.instance.get_latest_planned_materialization_info(key)
        return {None: planned.storage_id} if planned else {}

    def _latest_events(self, key: dg.AssetKey, kind: dg.DagsterEventType) -> Mapping[str | None, int]:
        return dict(self.instance.get_latest_storage_id_by_partition(key, kind).items())

    def _partitions(self, key: dg.AssetKey) -> set[str | None]:
        """The partitions that an asset's definition has now."""
        definition = self.graph.get(key).partitions_def
        return set(definition.get_partition_keys(dynamic_partitions_store=self.instance)) if definition else {None}

    def _parents(self, asset: AssetPartition) -> list[AssetPartition]:
        parents = []
        for key in sorted(self.graph.get(asset.key).parent_keys):
            if self.graph.get(key).is_partitioned:
                mapped = self.graph.get_parent_partition_keys_for_child(asset.partition, key, asset.key)
                parents += [AssetPartition(key, name) for name in mapped.partitions_subset.get_partition_keys()]
            else:
                parents.append(AssetPartition(key, None))
        return parents

    def _tags(self, key: dg.AssetKey) -> Mapping[str | None, Mapping[str, str]]:
        """Tags of the latest materialization event of each partition."""
        partitions = {event: partition for partition, event in self.events(key).items()}
        ids = list(partitions)
        batches = [ids[start : start + RECORDS_PER_FETCH] for start in range(0, len(ids), RECORDS_PER_FETCH)]
        return {
            partitions[record.storage_id]: _event_tags(record)
            for batch in batches
            for record in self.instance.fetch_materializations(
                dg.AssetRecordsFilter(key, storage_ids=batch), limit=len(batch)
            ).records
        }

    def _version(self, asset: AssetPartition, event: int) -> str:
        """Data version after an event; "" before the first materialization."""
        partitions = [asset.partition] if asset.partition is not None else None
        records_filter = dg.AssetRecordsFilter(asset.key, asset_partitions=partitions, before_storage_id=event + 1)
        records = self.instance.fetch_materializations(records_filter, limit=1).records
        return _event_tags(records[0]).get(DATA_VERSION, "") if records else ""

    def _is_in_progress(self, asset: AssetPartition) -> bool:
        """Whether a queued or running run, or an unfinished backfill or command, will materialize this."""
        if self.is_planned(asset):
            return True
        planned = self.planned_events(asset.key).get(asset.partition, 0)
        if not self.unfinished_runs or planned <= self.events(asset.key).get(asset.partition, 0):
            return False
        latest = self.instance.get_latest_planned_materialization_info(asset.key, asset.partition)
        return latest is not None and latest.run_id in self.unfinished_runs

    def last_run(self, asset: AssetPartition) -> dg.DagsterRun | None:
        """The last run that was to materialize this."""
        latest = self.instance.get_latest_planned_materialization_info(asset.key, asset.partition)
        return self.instance.get_run_by_id(latest.run_id) if latest else None

    def find_stale(self, key: dg.AssetKey) -> Iterable[tuple[AssetPartition, int]]:
        """An asset's stale partitions, each with the latest upstream event that changed its inputs.

        A partition that was never materialized is stale only if partitions are dynamic (seed files) and all its inputs
        exist.
        """
        is_dynamic = isinstance(self.graph.get(key).partitions_def, dg.DynamicPartitionsDefinition)
        for asset in (AssetPartition(key, name) for name in self.partitions(key)):
            event = 0
            if asset.partition in self.events(key):
                event = self._last_change(asset)
            elif is_dynamic:
                event = self._last_input(asset)
            if event:
                yield asset, event

    def _last_change(self, asset: AssetPartition) -> int:
        """Latest event that changed the data version of an input since it was read; 0 if none did."""
        last_change = 0
        tags = self.tags(asset.key)[asset.partition]
        for key, parents in groupby(self.parents(asset), lambda parent: parent.key):
            name = key.to_user_string()
            # Dagster records NULL for an input that did not exist; a new or unrecorded input counts if it is newer.
            pointer = tags.get(INPUT_POINTER_TAG + name, str(self.events(asset.key)[asset.partition]))
            read_event = int(pointer) if pointer.isdecimal() else 0
            newer = [parent for parent in parents if self.events(key).get(parent.partition, 0) > read_event]
            for parent in newer:
                if self.tags(key)[parent.partition].get(DATA_VERSION, "") != self.version(parent, read_event):
                    last_change = max(last_change, self.events(key)[parent.partition])
        return last_change

    def _last_input(self, asset: AssetPartition) -> int:
        """Latest event of the inputs; 0 if any was never materialized."""
        events = [self.events(parent.key).get(parent.partition, 0) for parent in self.parents(asset)]
        return max(events) if events and all(events) else 0


def _event_tags(record: dg.EventLogRecord) -> Mapping[str, str]:
    materialization = record.asset_materialization
    return (materialization.tags if materialization else None) or {}


class _StaleAssets:
    """The stale assets that are found in one tick: those to request, and how often their runs were killed."""

    def __init__(self, records: InstanceRecords) -> None:
        self.records = records
        self.requested: set[AssetPartition] = set()
        self.has_open_changes = False
        self._kills: dict[AssetPartition, int] = {}
        self._is_waiting = cache(self._has_pending_input)

    def add(self, asset: AssetPartition, changed_at: int) -> None:
        """Request an asset unless it waits for inputs, is in progress, or its run has failed since the change."""
        records = self.records
        is_running = records.is_in_progress(asset)
        if not is_running and records.planned_events(asset.key).get(asset.partition, 0) > changed_at:
            run = records.last_run(asset)
            n_kills = count_kills(run) if run else None
            is_running = run is not None and awaits_retry(run)
            if not is_running and (n_kills is None or n_kills >= MAX_KILLED_RUNS):
                return
            self._kills[asset] = n_kills or 0
        self.has_open_changes = True
        if not is_running and not self._is_waiting(asset):
            self.requested.add(asset)

    def _has_pending_input(self, asset: AssetPartition) -> bool:
        return any(
            parent in self.requested or self.records.is_in_progress(parent) or self._is_waiting(parent)
            for parent in self.records.parents(asset)
        )

    def run_requests(self) -> list[dg.RunRequest]:
        """A run for the assets of each partition."""
        runs: dict[tuple[object, str | None], list[AssetPartition]] = defaultdict(list)
        for asset in sorted(self.requested, key=str):
            runs[self.records.graph.get(asset.key).partitions_def, asset.partition].append(asset)
        requests = []
        for (_, partition), assets in runs.items():
            n_kills = max(self._kills.get(asset, 0) for asset in assets)
            tags = {PREVIOUS_KILLS_TAG: str(n_kills)} if n_kills else {}
            keys = [asset.key for asset in assets]
            requests.append(dg.RunRequest(asset_selection=keys, partition_key=partition, tags=tags))
        return requests


def request_stale_assets(
    repository: dg.RepositoryDefinition, instance: dg.DagsterInstance, cursor: str | None, models: bool = False
) -> dg.SensorResult:
    """Run requests for stale assets, without those that wait for inputs or failed since the change.

    Without ``models``, assets that call a language model stay stale. An asset reached by two paths is materialized
    once. A failed run is not retried until its inputs change again; an interrupted or killed one is at once. Raw files
    are never requested.

    The cursor saves work: it identifies the graph and its latest events after which nothing is left to request.
    """
    records = InstanceRecords(repository, instance)
    graph = records.graph
    edges = sorted(f"{key} {sorted(graph.get(key).parent_keys)}" for key in graph.get_all_asset_keys())
    state = content_id(edges, sorted(map(str, records.last_events.items())), str(models))
    if cursor == state:
        return dg.SensorResult(skip_reason="no materializations since the last tick", cursor=cursor)
    stale = _StaleAssets(records)
    excludes_models = not models and profiles.load().generator.backend != "extractive"
    with dg.partition_loading_context(dynamic_partitions_store=instance):
        for key in graph.toposorted_asset_keys:  # inputs first
            if key.path[0] == "raw" or (excludes_models and MODEL_POOL in (graph.get(key).pools or ())):
                continue
            for asset, changed_at in records.find_stale(key):
                stale.add(asset, changed_at)
    return dg.SensorResult(
        run_requests=stale.run_requests(),
        skip_reason=None if stale.requested else "every stale asset is waiting, running, cancelled or has failed",
        cursor="open changes" if stale.has_open_changes else state,
    )
