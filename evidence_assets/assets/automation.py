"""Which assets are stale: those with a dependency of another data version than the one they were made from.

Nothing is lost while the daemon is down, and the same content made again moves nothing (see ``docs/decisions.md``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.run_liveness import KILLED_TAG, PREVIOUS_KILLS_TAG, UNFINISHED_STATUSES
from evidence_assets.lake.ids import content_id

DATA_VERSION = "dagster/data_version"
"""Tag of a materialization: which data it is."""
INPUT_POINTER_TAG = "dagster/input_event_pointer/"
"""Tag of a materialization, before a dependency's key: its last event when it was read."""
MODEL_POOL = "llm"
"""Pool of the assets that ask a language model."""
MAX_KILLED_RUNS = 3
"""Runs killed in a row after which a part is left to people: it may be the part that kills them."""
RECORDS_PER_FETCH = 500
"""Records that are fetched at once."""


class AssetPartition(NamedTuple):
    """One partition of an asset, or all of an asset that has none."""

    key: dg.AssetKey
    partition: str | None


class InstanceRecords:
    """What the instance has recorded and the graph connects, each read at most once a tick."""

    def __init__(self, repository: dg.RepositoryDefinition, instance: dg.DagsterInstance) -> None:
        self.graph, self.instance = repository.asset_graph, instance
        self.last = {
            record.asset_entry.asset_key: record.asset_entry.last_materialization_storage_id or 0
            for record in instance.get_asset_records(list(self.graph.get_all_asset_keys()))
        }
        """Number of the latest event that made any part of an asset."""
        self.made, self.planned, self.tags = cache(self._made), cache(self._planned), cache(self._tags)
        self.existing, self.parents = cache(self._existing), cache(self._parents)
        self.version, self.in_progress = cache(self._version), cache(self._in_progress)
        self.unfinished = set(instance.get_run_ids(dg.RunsFilter(statuses=UNFINISHED_STATUSES)))

    def _made(self, key: dg.AssetKey) -> Mapping[str | None, int]:
        """Number of the event that made each part of an asset last."""
        if self.graph.get(key).is_partitioned:
            return self._latest(key, dg.DagsterEventType.ASSET_MATERIALIZATION)
        return {None: self.last[key]} if self.last.get(key) else {}

    def _planned(self, key: dg.AssetKey) -> Mapping[str | None, int]:
        """Number of the event that announced the latest run for each part of an asset."""
        if self.graph.get(key).is_partitioned:
            return self._latest(key, dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
        planned = self.instance.get_latest_planned_materialization_info(key)
        return {None: planned.storage_id} if planned else {}

    def _latest(self, key: dg.AssetKey, kind: dg.DagsterEventType) -> Mapping[str | None, int]:
        return dict(self.instance.get_latest_storage_id_by_partition(key, kind).items())

    def _existing(self, key: dg.AssetKey) -> set[str | None]:
        """The partitions that an asset has by its definition."""
        partitions = self.graph.get(key).partitions_def
        return set(partitions.get_partition_keys(dynamic_partitions_store=self.instance)) if partitions else {None}

    def _parents(self, part: AssetPartition) -> list[AssetPartition]:
        found = []
        for key in sorted(self.graph.get(part.key).parent_keys):
            if self.graph.get(key).is_partitioned:
                mapped = self.graph.get_parent_partition_keys_for_child(part.partition, key, part.key)
                found += [AssetPartition(key, name) for name in mapped.partitions_subset.get_partition_keys()]
            else:
                found.append(AssetPartition(key, None))
        return found

    def _tags(self, key: dg.AssetKey) -> Mapping[str | None, Mapping[str, str]]:
        """Tags of the event that made each part of an asset last."""
        events = {event: partition for partition, event in self.made(key).items()}
        numbers = list(events)
        pages = [numbers[start : start + RECORDS_PER_FETCH] for start in range(0, len(numbers), RECORDS_PER_FETCH)]
        return {
            events[record.storage_id]: _tags_of(record)
            for page in pages
            for record in self.instance.fetch_materializations(
                dg.AssetRecordsFilter(key, storage_ids=page), limit=len(page)
            ).records
        }

    def _version(self, part: AssetPartition, up_to: int) -> str:
        """Data version that a part had after an event; "" where it was not made yet."""
        partitions = [part.partition] if part.partition is not None else None
        wanted = dg.AssetRecordsFilter(part.key, asset_partitions=partitions, before_storage_id=up_to + 1)
        records = self.instance.fetch_materializations(wanted, limit=1).records
        return _tags_of(records[0]).get(DATA_VERSION, "") if records else ""

    def _in_progress(self, part: AssetPartition) -> bool:
        """Whether a run that is to make a part waits or works."""
        planned = self.planned(part.key).get(part.partition, 0)
        if not self.unfinished or planned <= self.made(part.key).get(part.partition, 0):
            return False
        latest = self.instance.get_latest_planned_materialization_info(part.key, part.partition)
        return latest is not None and latest.run_id in self.unfinished

    def killed(self, part: AssetPartition) -> int:
        """How many runs in a row were killed that were to make a part; 0 where its last one was not."""
        latest = self.instance.get_latest_planned_materialization_info(part.key, part.partition)
        run = self.instance.get_run_by_id(latest.run_id) if latest else None
        return int(run.tags.get(KILLED_TAG, 0)) if run else 0

    def changed(self, key: dg.AssetKey, after: int = 0) -> Iterable[tuple[AssetPartition, int]]:
        """The parts of an asset that were made from other data than there is now, and the latest event that changed it.

        Parts are skipped if neither they nor what they read was made after the event ``after``. A part that was never
        made counts only where partitions come and go (seed files), once everything that it reads is there.
        """
        if all(self.last.get(one, 0) <= after for one in (key, *self.graph.get(key).parent_keys)):
            return
        comes_and_goes = isinstance(self.graph.get(key).partitions_def, dg.DynamicPartitionsDefinition)
        made = self.made(key)
        parts = [
            part
            for part in (AssetPartition(key, name) for name in self.existing(key) if name in made or comes_and_goes)
            if any(self.made(one.key).get(one.partition, 0) > after for one in (part, *self.parents(part)))
        ]
        for part in parts:
            since = self._since(part) if part.partition in made else self._all_there(part)
            if since:
                yield part, since

    def _since(self, part: AssetPartition) -> int:
        """Latest event that made other data of what a part reads; 0 where its data is as the part read it."""
        since, tags = 0, self.tags(part.key)[part.partition]
        for key, parents in groupby(self.parents(part), lambda parent: parent.key):
            name = key.to_user_string()
            # what did not exist yet is recorded as NULL; a new dependency, or one not recorded, counts once made after
            pointer = tags.get(INPUT_POINTER_TAG + name, str(self.made(part.key)[part.partition]))
            read = int(pointer) if pointer.isdecimal() else 0
            moved = [parent for parent in parents if self.made(key).get(parent.partition, 0) > read]
            for parent in moved:
                if self.tags(key)[parent.partition].get(DATA_VERSION, "") != self.version(parent, read):
                    since = max(since, self.made(key)[parent.partition])
        return since

    def _all_there(self, part: AssetPartition) -> int:
        """Latest event that made what a part reads; 0 unless all of it was made."""
        read = [self.made(parent.key).get(parent.partition, 0) for parent in self.parents(part)]
        return max(read) if read and all(read) else 0


def _tags_of(record: dg.EventLogRecord) -> Mapping[str, str]:
    made = record.asset_materialization
    return (made.tags if made else None) or {}


def _calls_language_model(graph: Any, key: dg.AssetKey) -> bool:
    """Whether making an asset asks a language model."""
    return MODEL_POOL in graph.get(key).pools and profiles.load().generator.backend != "extractive"


def _add_downstream(
    records: InstanceRecords, asked: set[AssetPartition], waits: Callable[[AssetPartition], bool], models: bool
) -> None:
    """Add what a change reaches next in the same partition, so that one run makes all of it.

    Only what was made before and waits for nothing outside of the run; unchanged rows are reused.
    """
    graph = records.graph
    for key in graph.toposorted_asset_keys:
        definition = graph.get(key).partitions_def
        if definition is None or isinstance(definition, dg.DynamicPartitionsDefinition):
            continue
        if not models and _calls_language_model(graph, key):
            continue
        for name in {part.partition for part in asked if graph.get(part.key).partitions_def == definition}:
            part = AssetPartition(key, name)
            if part in asked or name not in records.made(key) or records.in_progress(part):
                continue
            parents = records.parents(part)
            inside = [
                one
                for one in parents
                if one in asked and one.partition == name and graph.get(one.key).partitions_def == definition
            ]
            outside = [one for one in parents if one not in inside]
            if inside and not any(one in asked or records.in_progress(one) or waits(one) for one in outside):
                asked.add(part)


def request_stale_assets(
    repository: dg.RepositoryDefinition, instance: dg.DagsterInstance, cursor: str | None, models: bool = False
) -> dg.SensorResult:
    """Requests for what is stale, was not tried since, and reads nothing that is being made.

    Without ``models`` assets that ask a language model stay stale. An asset reached by two paths is materialized once;
    a failed run is not repeated until its inputs change again, a killed one is. Raw files are left to people.

    The cursor only spares work: it names the event up to which all was followed, and the last one seen. The first lags
    a tick behind, because a shared database may show an event later than its successors. Without a cursor, or where
    the graph has other edges, everything is looked at.
    """
    records = InstanceRecords(repository, instance)
    graph = records.graph
    edges = content_id(
        *sorted(f"{key} {sorted(graph.get(key).parent_keys)}" for key in graph.get_all_asset_keys()), str(models)
    )
    newest = max(records.last.values(), default=0)
    known, _, events = (cursor or "").partition(":")
    followed, seen = map(int, events.split(":")) if known == edges else (0, 0)
    if seen > newest:  # records were deleted, and their numbers may be given again
        followed = seen = 0
    if followed == newest:
        return dg.SensorResult(skip_reason="nothing was made since all was followed", cursor=cursor)
    asked: set[AssetPartition] = set()
    kills: dict[AssetPartition, int] = {}

    @cache
    def waits(part: AssetPartition) -> bool:
        return any(one in asked or records.in_progress(one) or waits(one) for one in records.parents(part))

    unsettled = False
    with dg.partition_loading_context(dynamic_partitions_store=instance):
        for key in graph.toposorted_asset_keys:
            if key.path[0] == "raw" or (not models and _calls_language_model(graph, key)):
                continue
            for part, since in records.changed(key, followed):
                running = records.in_progress(part)
                if not running and records.planned(key).get(part.partition, 0) > since:
                    kills[part] = records.killed(part)
                    if not 0 < kills[part] < MAX_KILLED_RUNS:
                        continue
                unsettled = True
                if not running and not waits(part):
                    asked.add(part)
        _add_downstream(records, asked, waits, models)
    together: dict[tuple[object, str | None], list[AssetPartition]] = defaultdict(list)
    for part in sorted(asked, key=str):
        together[graph.get(part.key).partitions_def, part.partition].append(part)
    return dg.SensorResult(
        run_requests=[
            dg.RunRequest(
                asset_selection=[part.key for part in parts],
                partition_key=partition,
                tags={PREVIOUS_KILLS_TAG: str(most)} if (most := max(kills.get(part, 0) for part in parts)) else {},
            )
            for (_, partition), parts in together.items()
        ],
        skip_reason=None if asked else "nothing has changed that does not wait, run or have failed",
        cursor=f"{edges}:{followed if unsettled else seen}:{newest}",
    )
