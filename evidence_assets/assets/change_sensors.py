"""Sensors that re-materialize stale assets, and a run that updates all assets downstream.

The run executes further runs in its own process, one per batch of assets: it waits for no tick, queue or new process.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.automation import request_stale_assets
from evidence_assets.assets.raw_files import raw_paths_by_asset, request_raw_runs, stamp_raw_files
from evidence_assets.assets.resources import LakeResource, set_pool_limits
from evidence_assets.assets.run_liveness import (
    FOLLOW_JOB,
    PARENT_TAG,
    fail_killed_runs,
    hold_liveness_lock,
    is_interrupted,
    keep_connected,
    speed_up_databases,
)
from evidence_assets.assets.seeds import RELATIONS, request_seed_runs
from evidence_assets.lake.store import Lake
from evidence_assets.systems.kbloom.seeds import list_seed_files


def _home(instance: dg.DagsterInstance) -> Path:
    """The folder with the liveness locks, also those of the command line."""
    return Path(os.environ.get("DAGSTER_HOME") or instance.root_directory)


def request_input_runs(
    repository: dg.RepositoryDefinition, instance: dg.DagsterInstance, lake: Lake
) -> tuple[list[dg.RunRequest], list[str]]:
    """Run requests for changed seed files and raw files, and partitions of relations to add."""
    requests, new_partitions = request_seed_runs(repository, instance, lake)
    return [*requests, *request_raw_runs(repository, instance, lake)], new_partitions


def materialize_changes(
    repository: dg.RepositoryDefinition,
    instance: dg.DagsterInstance,
    lake: Lake,
    tags: Mapping[str, str],
    log: Callable[[str], None],
) -> list[str]:
    """Materialize stale assets until none is left; returns those that failed.

    Raises DagsterExecutionInterruptedError if a signal interrupted a run, which ends that run only.
    """
    job = repository.get_implicit_global_asset_job_def()
    failed: list[str] = []
    cursor: str | None = None
    while True:
        requests, new_partitions = request_input_runs(repository, instance, lake)
        instance.add_dynamic_partitions(str(RELATIONS.name), new_partitions)
        if not requests:
            result = request_stale_assets(repository, instance, cursor, profiles.load().automation)
            requests = list(result.run_requests or ())
            cursor = result.cursor
        if not requests:
            return failed
        for request in requests:
            keys = list(request.asset_selection or ())
            names = f"{', '.join(key.to_user_string() for key in keys)} {request.partition_key or ''}".strip()
            log(names)
            run = job.execute_in_process(
                instance=instance,
                asset_selection=keys,
                partition_key=request.partition_key,
                tags={**request.tags, **tags},
                raise_on_error=False,
            )
            if is_interrupted(run.dagster_run):
                raise dg.DagsterExecutionInterruptedError
            if not run.success:
                failed.append(f"{names} (run {run.run_id})")


@dg.op(description="Materializes stale assets until none is left.")
def materialize_stale_assets(context: dg.OpExecutionContext, lake: LakeResource) -> None:
    instance = context.instance
    speed_up_databases()
    # The lock outlives this step, so that a kill before the run has ended is noticed as well.
    alive = hold_liveness_lock(_home(instance))
    instance.add_run_tags(context.run_id, alive)
    tags = {**alive, PARENT_TAG: context.run_id}
    failed = materialize_changes(context.repository_def, instance, lake.open(), tags, context.log.info)
    if failed:
        raise dg.Failure("\n".join(["These assets failed:", *failed]), allow_retries=False)


@dg.job(
    name=FOLLOW_JOB,
    executor_def=dg.in_process_executor,
    description="Re-materializes all assets downstream of a change.",
)
def follow_changes() -> None:
    materialize_stale_assets()


def _last_change(repository: dg.RepositoryDefinition, instance: dg.DagsterInstance, lake: Lake) -> float:
    """Time of the latest materialization or edit of a seed or raw file, in seconds since the epoch; 0 if none."""
    events = (record.asset_entry.last_materialization_record for record in instance.get_asset_records())
    folder = lake.raw_path("seeds")
    files = [folder, *list_seed_files(folder)] if folder.exists() else []
    raw_paths = [path for paths in raw_paths_by_asset(repository).values() for path in paths]
    edits = [modified / 1e9 for modified, _ in stamp_raw_files(lake, raw_paths).values()]
    edits += [path.stat().st_ctime for path in files]
    return max([*(event.timestamp for event in events if event), *edits], default=0)


_instances: dict[str, dg.DagsterInstance] = {}


def reuse_instance(instance: dg.DagsterInstance) -> dg.DagsterInstance:
    """The same instance with a connection that all ticks of this process use: to connect takes five sixths of a tick.

    Dagster opens an instance for every tick. After Postgres has restarted, the next two ticks fail and the third
    connects again.
    """
    if not instance.is_persistent:
        return instance
    settings = instance.get_ref()
    if str(settings) not in _instances:
        _instances[str(settings)] = keep_connected(dg.DagsterInstance.from_ref(settings))
    return _instances[str(settings)]


def _runs_on_this_machine(instance: dg.DagsterInstance) -> bool:
    """Whether runs are local processes; other launchers would report the runs inside a run as lost."""
    return isinstance(instance.run_launcher, dg.DefaultRunLauncher)


@dg.sensor(
    job=follow_changes,
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=5,
    description="Re-materializes, in one run, assets whose seeds, raw files or inputs have changed.",
)
def follow_data(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.SensorResult | dg.SkipReason:
    instance = context.instance
    set_pool_limits(instance)
    if not _runs_on_this_machine(instance):
        return dg.SkipReason("runs start on other machines: follow_apart requests them")
    fail_killed_runs(instance, _home(instance), context.log.info)
    for last_run in instance.get_run_records(dg.RunsFilter(job_name=FOLLOW_JOB), limit=1):
        if not last_run.dagster_run.is_finished:
            return dg.SkipReason("a follow_changes run is in progress")
        if last_run.dagster_run.status is dg.DagsterRunStatus.CANCELED:
            cancelled_at = last_run.end_time or last_run.update_timestamp.timestamp()
            assert context.repository_def is not None
            if _last_change(context.repository_def, instance, lake.open()) <= cancelled_at:
                return dg.SkipReason("a user cancelled the last follow_changes run, and nothing has changed since")
    result = _request_changes(context, instance, lake.open())
    # No retries: the next tick requests what this run leaves stale.
    request = dg.RunRequest(tags={"dagster/max_retries": "0"})
    return result._replace(run_requests=[request] if result.run_requests else [])


def _request_changes(context: dg.SensorEvaluationContext, instance: dg.DagsterInstance, lake: Lake) -> dg.SensorResult:
    """Separate run requests for changed inputs and stale assets."""
    assert context.repository_def is not None
    requests, new_partitions = request_input_runs(context.repository_def, instance, lake)
    result = request_stale_assets(context.repository_def, instance, context.cursor, profiles.load().automation)
    requests += result.run_requests or ()
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else result.skip_reason,
        cursor=result.cursor,
        dynamic_partitions_requests=[RELATIONS.build_add_request(new_partitions)] if new_partitions else [],
    )


@dg.sensor(
    asset_selection=dg.AssetSelection.all(),
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=5,
    description="Requests separate runs for assets whose inputs have changed, if runs start on other machines.",
)
def follow_apart(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.SensorResult | dg.SkipReason:
    set_pool_limits(context.instance)
    if _runs_on_this_machine(context.instance):
        return dg.SkipReason("runs start on this machine: follow_data requests one for all")
    return _request_changes(context, reuse_instance(context.instance), lake.open())
