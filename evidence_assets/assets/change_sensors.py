"""The sensors that follow changes, and the run that carries a change through from a seed file to the last score.

What that run makes is recorded in runs of their own, but none waits for a tick, the queue or a new process.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.automation import request_stale_assets
from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.run_liveness import (
    LOCK_FILE_TAG,
    UNFINISHED_STATUSES,
    fail_killed_runs,
    liveness_lock,
    reduce_disk_syncs,
)
from evidence_assets.assets.seeds import RELATIONS, request_seed_runs
from evidence_assets.lake.store import Lake

PARENT_RUN_TAG = "evidence/within"
"""Tag of a run: the run that carries it."""


def _home(instance: dg.DagsterInstance) -> Path:
    """Where the command line, too, says which of its runs are alive."""
    return Path(os.environ.get("DAGSTER_HOME") or instance.root_directory)


def materialize_changes(
    repository: dg.RepositoryDefinition,
    instance: dg.DagsterInstance,
    lake: Lake,
    tags: Mapping[str, str],
    say: Callable[[str], None],
) -> list[str]:
    """Make what has changed, and what then has changed, until nothing is left; returns what could not be made."""
    job = repository.get_implicit_global_asset_job_def()
    failed: list[str] = []
    cursor: str | None = None
    while True:
        asked, new = request_seed_runs(instance, lake)
        instance.add_dynamic_partitions(str(RELATIONS.name), new)
        if not asked:
            followed = request_stale_assets(repository, instance, cursor, profiles.load().automation)
            asked, cursor = list(followed.run_requests or ()), followed.cursor
        if not asked:
            return failed
        for request in asked:
            keys = list(request.asset_selection or ())
            names = f"{', '.join(key.to_user_string() for key in keys)} {request.partition_key or ''}".strip()
            say(names)
            made = job.execute_in_process(
                instance=instance,
                asset_selection=keys,
                partition_key=request.partition_key,
                tags={**request.tags, **tags},
                raise_on_error=False,
            )
            if not made.success:
                failed.append(f"{names} (run {made.run_id})")


@dg.op(description="Makes what has changed, and what then has changed, until nothing is left.")
def carry(context: dg.OpExecutionContext, lake: LakeResource) -> None:
    instance = context.instance
    reduce_disk_syncs()
    with liveness_lock(_home(instance)) as alive:
        instance.add_run_tags(context.run_id, alive)
        tags = {**alive, PARENT_RUN_TAG: context.run_id}
        failed = materialize_changes(context.repository_def, instance, lake.open(), tags, context.log.info)
        instance.add_run_tags(context.run_id, {LOCK_FILE_TAG: ""})  # the mark goes before the run has ended
    if failed:
        raise dg.Failure("\n".join(["not all could be made again:", *failed]), allow_retries=False)


@dg.job(executor_def=dg.in_process_executor, description="Carries what has changed through to all that depends on it.")
def follow_changes() -> None:
    carry()


def _runs_on_this_machine(instance: dg.DagsterInstance) -> bool:
    """Whether runs and their steps are processes of this machine; other launchers would take a carried run for lost."""
    return profiles.load().executor == "processes" and isinstance(instance.run_launcher, dg.DefaultRunLauncher)


@dg.sensor(
    job=follow_changes,
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=5,
    description="Re-materializes, in one run, assets whose seeds or inputs have changed.",
)
def follow_data(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.SensorResult | dg.SkipReason:
    instance = context.instance
    if not _runs_on_this_machine(instance):
        return dg.SkipReason("runs are launched elsewhere: follow_apart requests them")
    fail_killed_runs(instance, _home(instance))
    if instance.get_run_ids(dg.RunsFilter(job_name=follow_changes.name, statuses=UNFINISHED_STATUSES), limit=1):
        return dg.SkipReason("a run carries changes through")
    # what that run finds not done it asks for itself: a second one would only do the same
    carrying = [dg.RunRequest(tags={"dagster/max_retries": "0"})]
    if request_seed_runs(instance, lake.open())[0]:
        return dg.SensorResult(run_requests=carrying, cursor=context.cursor)
    assert context.repository_def is not None
    followed = request_stale_assets(context.repository_def, instance, context.cursor, profiles.load().automation)
    return followed._replace(run_requests=carrying) if followed.run_requests else followed


@dg.sensor(
    asset_selection=dg.AssetSelection.all(),
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=5,
    description="Requests separate runs of such assets, where runs are launched on other machines.",
)
def follow_apart(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.SensorResult | dg.SkipReason:
    instance = context.instance
    if _runs_on_this_machine(instance):
        return dg.SkipReason("runs are launched here: follow_data requests one for all")
    requested, new = request_seed_runs(instance, lake.open())
    assert context.repository_def is not None
    followed = request_stale_assets(context.repository_def, instance, context.cursor, profiles.load().automation)
    requested += followed.run_requests or ()
    return dg.SensorResult(
        run_requests=requested,
        skip_reason=None if requested else followed.skip_reason,
        cursor=followed.cursor,
        dynamic_partitions_requests=[RELATIONS.build_add_request(new)] if new else [],
    )
