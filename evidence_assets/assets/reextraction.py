"""The schedule ``reextract_triples``: harvests relations again whose seeds, prompts or model have changed.

It is off until someone turns it on in the UI. With the sensors on, which follow changed seeds at once, it finds only
what they leave alone: a changed model or changed code.
"""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.automation import AssetPartition, InstanceRecords, find_planned
from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.seeds import RELATIONS, SEEDS, last_version, read_seeds
from evidence_assets.lake.store import Lake

SCHEDULE = "reextract_triples"
CODE_VERSION = "dagster/code_version"
"""Tag of a materialization: the code version of its asset, which includes its settings, prompts and models."""


def request_changed_harvests(
    repository: dg.RepositoryDefinition, instance: dg.DagsterInstance, lake: Lake, tick: str
) -> Iterator[dg.RunRequest]:
    """One run per relation: its seeds if they have changed, and each harvest made from other seeds, prompts or models.

    Relations of an unfinished run, backfill or command are left to it. ``tick``: Time of the schedule; a tick that is
    repeated after a crash requests nothing twice.
    """
    relations = read_seeds(lake).relations
    instance.add_dynamic_partitions(str(RELATIONS.name), sorted(relations))
    graph = repository.asset_graph
    by_relation = [key for key in graph.toposorted_asset_keys if graph.get(key).partitions_def == RELATIONS]
    harvests = [key for key in by_relation if key != SEEDS]
    is_planned = find_planned(graph, instance)
    with dg.partition_loading_context(dynamic_partitions_store=instance):
        records = InstanceRecords(repository, instance)
        stale = {key: {asset.partition for asset, _ in records.find_stale(key)} for key in harvests}
        for partition, relation in sorted(relations.items()):
            version, _ = last_version(instance, SEEDS, partition)
            keys = [] if version == relation.seed_hash else [SEEDS]
            keys += [
                key for key in harvests if keys or partition in stale[key] or _has_other_code(records, key, partition)
            ]
            assets = [AssetPartition(key, partition) for key in keys]
            if assets and not any(is_planned(asset) or records.is_in_progress(asset) for asset in assets):
                yield dg.RunRequest(f"{partition} {tick}", asset_selection=keys, partition_key=partition)


def _has_other_code(records: InstanceRecords, key: dg.AssetKey, partition: str) -> bool:
    """Whether a harvest was made by other code, settings, prompts or models than the asset has now."""
    tags = records.tags(key).get(partition)
    return tags is not None and tags.get(CODE_VERSION) != records.graph.get(key).code_version


def build_schedule() -> dg.ScheduleDefinition:
    """The schedule with the cron of the active profile."""

    @dg.schedule(
        name=SCHEDULE,
        cron_schedule=profiles.load().reextraction,
        target=dg.AssetSelection.from_string('key:"knowledge/seeds" or key:"knowledge/*/harvest*"'),
        description="Harvests relations again whose seeds, prompts or model have changed since their last harvest.",
    )
    def reextract_triples(context: dg.ScheduleEvaluationContext, lake: LakeResource) -> Iterator[dg.RunRequest]:
        assert context.repository_def is not None
        time = context.scheduled_execution_time.isoformat()
        yield from request_changed_harvests(context.repository_def, context.instance, lake.open(), time)

    return reextract_triples
