"""When an asset is made again by itself: when the data that it read has changed, and only then.

Dagster's own conditions fire on what happened since their last tick, whatever its content. Here the question is put to
what is recorded: has a dependency another data version than the one that this asset was made from? So nothing is lost
while the daemon is down, and the same content made again moves nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from itertools import groupby
from typing import Any, Literal, NamedTuple

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.in_process import KILLED, KILLED_BEFORE, UNFINISHED
from evidence_assets.assets.table_asset import CALLED, CALLS
from evidence_assets.lake.ids import content_id

DATA_VERSION = "dagster/data_version"
"""Tag of a materialization: which data it is."""
READ_VERSION, READ_UP_TO = "dagster/input_data_version/", "dagster/input_event_pointer/"
"""Tags of a materialization, before a dependency's key: which data it had when it was read, and its last event then."""
MODEL_POOL = "llm"
"""Pool of the assets that ask a language model."""
Models = Literal["left out", "too", "alone"]
"""What is done with assets that ask a language model."""
KILLS = 3
"""Runs killed in a row after which a part is left to people: it may be the part that kills them."""
PAGE = 500
"""Records that are fetched at once."""


class Part(NamedTuple):
    """One partition of an asset, or all of an asset that has none."""

    key: dg.AssetKey
    partition: str | None


class Records:
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
        self.unfinished = set(instance.get_run_ids(dg.RunsFilter(statuses=UNFINISHED)))

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

    def _parents(self, part: Part) -> list[Part]:
        found = []
        for key in sorted(self.graph.get(part.key).parent_keys):
            if self.graph.get(key).is_partitioned:
                mapped = self.graph.get_parent_partition_keys_for_child(part.partition, key, part.key)
                found += [Part(key, name) for name in mapped.partitions_subset.get_partition_keys()]
            else:
                found.append(Part(key, None))
        return found

    def _tags(self, key: dg.AssetKey) -> Mapping[str | None, Mapping[str, str]]:
        """Tags of the event that made each part of an asset last."""
        events = {event: partition for partition, event in self.made(key).items()}
        numbers = list(events)
        pages = [numbers[start : start + PAGE] for start in range(0, len(numbers), PAGE)]
        return {
            events[record.storage_id]: _tags_of(record)
            for page in pages
            for record in self.instance.fetch_materializations(
                dg.AssetRecordsFilter(key, storage_ids=page), limit=len(page)
            ).records
        }

    def _version(self, part: Part, up_to: int) -> str:
        """Data version that a part had after an event; "" where it was not made yet."""
        partitions = [part.partition] if part.partition is not None else None
        wanted = dg.AssetRecordsFilter(part.key, asset_partitions=partitions, before_storage_id=up_to + 1)
        records = self.instance.fetch_materializations(wanted, limit=1).records
        return _tags_of(records[0]).get(DATA_VERSION, "") if records else ""

    def _in_progress(self, part: Part) -> bool:
        """Whether a run that is to make a part waits or works."""
        planned = self.planned(part.key).get(part.partition, 0)
        if not self.unfinished or planned <= self.made(part.key).get(part.partition, 0):
            return False
        latest = self.instance.get_latest_planned_materialization_info(part.key, part.partition)
        return latest is not None and latest.run_id in self.unfinished

    def killed(self, part: Part) -> int:
        """How many runs in a row were killed that were to make a part; 0 where its last one was not."""
        latest = self.instance.get_latest_planned_materialization_info(part.key, part.partition)
        run = self.instance.get_run_by_id(latest.run_id) if latest else None
        return int(run.tags.get(KILLED, _out_of_calls(run))) if run else 0

    def changed(self, key: dg.AssetKey, after: int = 0) -> Iterable[tuple[Part, int]]:
        """The parts of an asset that were made from other data than there is now, and the latest event that changed it.

        Only parts are looked at that were made themselves, or read something that was made, after the event ``after``.
        A change of code is not a change of data. A part that was never made counts only where partitions come and go
        (one per seed file); there it has changed once everything that it reads is there.
        """
        if all(self.last.get(one, 0) <= after for one in (key, *self.graph.get(key).parent_keys)):
            return
        comes_and_goes = isinstance(self.graph.get(key).partitions_def, dg.DynamicPartitionsDefinition)
        made = self.made(key)
        parts = [
            part
            for part in (Part(key, name) for name in self.existing(key) if name in made or comes_and_goes)
            if any(self.made(one.key).get(one.partition, 0) > after for one in (part, *self.parents(part)))
        ]
        for part in parts:
            since = self._since(part) if part.partition in made else self._all_there(part)
            if since:
                yield part, since

    def _since(self, part: Part) -> int:
        """Latest event that made other data of what a part reads; 0 where its data is as the part read it."""
        since, tags = 0, self.tags(part.key)[part.partition]
        for key, group in groupby(self.parents(part), lambda parent: parent.key):
            parents, name = list(group), key.to_user_string()
            # what did not exist yet is recorded as NULL; a new dependency, or one not recorded, counts once made after
            pointer = tags.get(READ_UP_TO + name, str(self.made(part.key)[part.partition]))
            read = int(pointer) if pointer.isdecimal() else 0
            moved = [parent for parent in parents if self.made(key).get(parent.partition, 0) > read]
            if not moved or tags.get(READ_VERSION + name) == self.version_of(parents):
                continue
            for parent in moved:
                if self.tags(key)[parent.partition].get(DATA_VERSION, "") != self.version(parent, read):
                    since = max(since, self.made(key)[parent.partition])
        return since

    def version_of(self, parts: list[Part]) -> str:
        """Data version of parts of one asset together, as it is recorded for what reads them.

        Only spares the look at each part's past: were it formed otherwise, that look would still tell what has changed.
        """
        versions = [
            self.tags(part.key)[part.partition].get(DATA_VERSION, "")
            for part in sorted(parts, key=lambda part: part.partition or "")
            if part.partition in self.made(part.key)
        ]
        partitioned = self.graph.get(parts[0].key).is_partitioned
        return sha256("".join(versions).encode()).hexdigest() if partitioned else "".join(versions)

    def _all_there(self, part: Part) -> int:
        """Latest event that made what a part reads; 0 unless all of it was made."""
        read = [self.made(parent.key).get(parent.partition, 0) for parent in self.parents(part)]
        return max(read) if read and all(read) else 0


def _out_of_calls(run: dg.DagsterRun) -> bool:
    """Whether a run failed because a step of it had asked language models as often as it may: another
    day it may again.
    """
    return run.status == dg.DagsterRunStatus.FAILURE and any(
        name.startswith(CALLED) and int(asked) >= int(run.tags[CALLS])
        for name, asked in run.tags.items()
        if CALLS in run.tags
    )


def calls_left(instance: dg.DagsterInstance) -> int:
    """How often automation may still ask language models today.

    A run that is at work, or was killed, has asked as often as it may: an upper bound, until it says how often it did.
    """
    profile = profiles.load()
    if not profile.automation:
        return 0
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    left = profile.calls_a_day
    for run in instance.get_runs(dg.RunsFilter(created_after=today)):
        if CALLS in run.tags:
            said = run.is_finished and KILLED not in run.tags
            asked = sum(int(value) for name, value in run.tags.items() if name.startswith(CALLED))
            left -= asked if said else int(run.tags[CALLS]) * len(run.asset_selection or ())
    return max(0, left)


def rationed(graph: Any, requests: Iterable[dg.RunRequest], left: int) -> list[dg.RunRequest]:
    """The requests whose steps that ask a language model have a call each; what is left is divided
    among these steps.
    """
    given: list[dg.RunRequest] = []
    steps = 0
    for request in requests:
        asking = sum(_asks(graph, key) for key in request.asset_selection or ())
        if steps + asking <= left:
            given.append(request)
            steps += asking
    each = {CALLS: str(left // steps)} if steps else {}
    return [
        dg.RunRequest(
            asset_selection=request.asset_selection,
            partition_key=request.partition_key,
            tags={**request.tags, **(each if any(_asks(graph, key) for key in request.asset_selection or ()) else {})},
        )
        for request in given
    ]


def _tags_of(record: dg.EventLogRecord) -> Mapping[str, str]:
    made = record.asset_materialization
    return (made.tags if made else None) or {}


def _asks(graph: Any, key: dg.AssetKey) -> bool:
    """Whether making an asset asks a language model."""
    return MODEL_POOL in graph.get(key).pools and profiles.load().generator.backend != "extractive"


def _together(records: Records, asked: set[Part], waits: Callable[[Part], bool], models: Models) -> None:
    """Add what a change reaches next in the very partition: one run makes all of it, one after another.

    Only what was made before, and what waits for nothing outside of the run. What is unchanged in the end is taken
    over.
    """
    graph = records.graph
    for key in graph.toposorted_asset_keys:
        definition = graph.get(key).partitions_def
        if definition is None or isinstance(definition, dg.DynamicPartitionsDefinition):
            continue
        if models == "left out" and _asks(graph, key):
            continue
        for name in {part.partition for part in asked if graph.get(part.key).partitions_def == definition}:
            part = Part(key, name)
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


def follow(
    repository: dg.RepositoryDefinition, instance: dg.DagsterInstance, cursor: str | None, models: Models = "left out"
) -> dg.SensorResult:
    """What is to be made again: what has changed, was not tried since, and stands on nothing that is being made.

    What asks a language model may be left out, and stays stale, or be all that is asked for, with what follows it at
    once. An asset that a change reaches on two ways is made once, and a run that failed is not repeated until its
    inputs change again; one that was killed is. Raw files are left out: people bring them, and seed files are looked
    at beside.

    The cursor only spares work. It names the event up to which all was followed, and the last one seen; the first comes
    after the second by a tick, because a database that many write to may show an event later than its successors, and
    stays behind while anything waits or is being made. Where the cursor is lost, or the graph has other edges, all is
    looked at.
    """
    records = Records(repository, instance)
    graph = records.graph
    edges = content_id(
        *sorted(f"{key} {sorted(graph.get(key).parent_keys)}" for key in graph.get_all_asset_keys()), models
    )
    newest = max(records.last.values(), default=0)
    known, _, events = (cursor or "").partition(":")
    followed, seen = map(int, events.split(":")) if known == edges else (0, 0)
    if seen > newest:  # records were deleted, and their numbers may be given again
        followed = seen = 0
    if followed == newest:
        return dg.SensorResult(skip_reason="nothing was made since all was followed", cursor=cursor)
    asked: set[Part] = set()
    kills: dict[Part, int] = {}

    @cache
    def waits(part: Part) -> bool:
        return any(one in asked or records.in_progress(one) or waits(one) for one in records.parents(part))

    unsettled = False
    with dg.partition_loading_context(dynamic_partitions_store=instance):
        for key in graph.toposorted_asset_keys:
            if key.path[0] == "raw" or (models == "left out" and _asks(graph, key)):
                continue
            for part, since in records.changed(key, followed):
                running = records.in_progress(part)
                if not running and records.planned(key).get(part.partition, 0) > since:
                    kills[part] = records.killed(part)
                    if not 0 < kills[part] < KILLS:
                        continue
                unsettled = True
                if not running and not waits(part):
                    asked.add(part)
        others = {part for part in asked if models == "alone" and not _asks(graph, part.key)}
        asked -= others
        _together(records, asked, lambda part: part in others or waits(part), models)
    together: dict[tuple[object, str | None], list[Part]] = defaultdict(list)
    for part in sorted(asked, key=str):
        together[graph.get(part.key).partitions_def, part.partition].append(part)
    return dg.SensorResult(
        run_requests=[
            dg.RunRequest(
                asset_selection=[part.key for part in parts],
                partition_key=partition,
                tags={KILLED_BEFORE: str(most)} if (most := max(kills.get(part, 0) for part in parts)) else {},
            )
            for (_, partition), parts in together.items()
        ],
        skip_reason=None if asked else "nothing has changed that does not wait, run or have failed",
        cursor=f"{edges}:{followed if unsettled else seen}:{newest}",
    )
