"""The schedule ``reextract_triples``: harvests relations again whose seeds, prompts or model have changed.

It is off until someone turns it on in the UI. With the sensors on, which follow changed seeds at once, it finds only
what they leave alone: a changed model or changed code.
"""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.automation import AssetPartition, InstanceRecords, last_version
from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.seeds import RELATIONS, SEEDS, read_seeds
from evidence_assets.lake.store import Lake

SCHEDULE = "reextract_triples"
_STAGES = " or ".join(f'key:"knowledge/{name}"' for name in ("seeds", "*/prompts*", "*/candidates*", "*/harvest*"))
"""The assets by relation."""
CODE_VERSION = "dagster/code_version"
"""Tag of a materialization: the code version of its asset, which includes its settings, prompts and models."""


def request_changed_harvests(
    repository: dg.RepositoryDefinition, instance: dg.DagsterInstance, lake: Lake, tick: str
) -> Iterator[dg.RunRequest]:
    """One run per relation: its seeds if they have changed, and the stages of each harvest that are outdated.

    Relations of an unfinished run, backfill or command are left to it. ``tick``: Time of the schedule; a tick that is
    repeated after a crash requests nothing twice.
    """
    relations = read_seeds(lake).relations
    instance.add_dynamic_partitions(str(RELATIONS.name), sorted(relations))
    with dg.partition_loading_context(dynamic_partitions_store=instance):
        records = InstanceRecords(repository, instance)
        outdated = {key: _find_outdated(records, key) for key in _find_harvests(records)}
        for name, relation in sorted(relations.items()):
            keys = list[dg.AssetKey]()
            for key, names in outdated.items():
                if name in names or not records.graph.get(key).parent_keys.isdisjoint(keys):
                    keys.append(key)
            version, _ = last_version(instance, SEEDS, name)
            if version != relation.seed_hash:
                keys = [SEEDS, *outdated]
            is_in_progress = any(records.is_in_progress(AssetPartition(key, name)) for key in keys)
            if keys and not is_in_progress:
                yield dg.RunRequest(f"{name} {tick}", asset_selection=keys, partition_key=name)


def _find_harvests(records: InstanceRecords) -> list[dg.AssetKey]:
    """The stages of all harvests, inputs first: assets by relation that read the seeds."""
    graph = records.graph
    by_relation = [key for key in graph.toposorted_asset_keys if graph.get(key).partitions_def == RELATIONS]
    return [key for key in by_relation if key != SEEDS]


def _find_outdated(records: InstanceRecords, key: dg.AssetKey) -> set[str | None]:
    """Relations for which an asset is missing, or was made from other inputs, settings, prompts or models."""
    stale = {asset.partition for asset, _ in records.find_stale(key)}
    code_version = records.graph.get(key).code_version
    return stale | {name for name, tags in records.tags(key).items() if tags.get(CODE_VERSION) != code_version}


def build_schedule() -> dg.ScheduleDefinition:
    """The schedule with the cron of the active profile."""

    @dg.schedule(
        name=SCHEDULE,
        cron_schedule=profiles.load().reextraction,
        target=dg.AssetSelection.from_string(_STAGES),
        description="Harvests relations again whose seeds, prompts or model have changed since their last harvest.",
    )
    def reextract_triples(context: dg.ScheduleEvaluationContext, lake: LakeResource) -> Iterator[dg.RunRequest]:
        assert context.repository_def is not None
        time = context.scheduled_execution_time.isoformat()
        yield from request_changed_harvests(context.repository_def, context.instance, lake.open(), time)

    return reextract_triples
