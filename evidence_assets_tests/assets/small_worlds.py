"""A small world in this process: a lake, a profile, and selected materialized assets."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest

from evidence_assets import profiles
from evidence_assets.assets import partitions
from evidence_assets.assets.definitions import load_definitions
from evidence_assets.assets.resources import LakeResource
from evidence_assets.benchmarks import declared_benchmarks as benchmark
from evidence_assets.benchmarks.declared_benchmarks import declarations
from evidence_assets.lake.store import Lake

_CACHES = (
    profiles._load,
    declarations,
    benchmark.benchmarks,
    partitions.benchmark_partitions,
    partitions.question_partitions,
    partitions.corpus_partitions,
)


def clear_profile_caches() -> None:
    """Clear the caches of profiles, declarations, benchmarks and partitions."""
    for cache in _CACHES:
        cache.cache_clear()


class SmallWorld:
    """A lake in which tests materialize selected assets."""

    def __init__(self, root: Path, instance: dg.DagsterInstance) -> None:
        self._definitions = load_definitions()
        self.graph = self._definitions.resolve_asset_graph()
        self._job = self._definitions.resolve_implicit_global_asset_job_def()
        self._jobs: dict[tuple[frozenset[dg.AssetKey], bool], dg.JobDefinition] = {}
        self.instance = instance
        self.lake = Lake.create(root / "data_lake", question_shards=1, corpus_shards=1)

    def make(
        self, *keys: str, partition: str | None = None, fails: bool = False, run_checks: bool = True
    ) -> dg.ExecuteInProcessResult:
        """Materialize exactly these assets; with ``fails``, a step or check must fail.

        Without ``run_checks``, asset checks (half of the steps) do not run. Sharded assets use their only shard.
        """
        if partition is None and len(groups := [(p, list(group)) for p, group in groupby(keys, self._shard)]) > 1:
            return [self.make(*group, partition=p, fails=fails, run_checks=run_checks) for p, group in groups][-1]
        partition = partition or self._shard(keys[0])
        selection = frozenset(dg.AssetKey(key.split("/")) for key in keys)
        if (selection, run_checks) not in self._jobs:
            self._jobs[selection, run_checks] = self._job.get_subset(
                asset_selection=selection, asset_check_selection=None if run_checks else frozenset()
            )
        result = self._jobs[selection, run_checks].execute_in_process(
            instance=self.instance,
            partition_key=partition,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            raise_on_error=not fails,
        )
        assert result.success != fails
        return result

    def _shard(self, key: str) -> str | None:
        return (
            "0"
            if self.graph.get(dg.AssetKey(key.split("/"))).partitions_def == partitions.corpus_partitions()
            else None
        )

    def rows(self, table: str, asset: str) -> pl.DataFrame:
        return self.lake.read(table, asset)


@contextmanager
def small_world(root: Path, profile: Sequence[str]) -> Iterator[SmallWorld]:
    """A world with the embedded profile and the small sample; ``profile`` adds lines of YAML."""
    root.mkdir(parents=True, exist_ok=True)
    profile_lines = "\n".join(["extends: embedded", "sample: small", *profile])
    (root / "profile.yaml").write_text(profile_lines + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVIDENCE_LAKE", str(root / "data_lake"))
        patch.setenv("EVIDENCE_PROFILE", str(root / "profile.yaml"))
        clear_profile_caches()
        # Not `with`: two worlds may end in the order in which they began, which Dagster's context does not survive.
        instance = dg.DagsterInstance.ephemeral()
        try:
            yield SmallWorld(root, instance)
        finally:
            instance.dispose()
    clear_profile_caches()


def materialize(
    lake: Lake, definitions: dg.Definitions | dg.AssetsDefinition, *keys: str, **options: Any
) -> dg.ExecuteInProcessResult:
    """Materialize these assets (or all) with their checks in a lake."""
    assets = (
        [definitions]
        if isinstance(definitions, dg.AssetsDefinition)
        else [*(definitions.assets or []), *(definitions.asset_checks or [])]
    )
    return dg.materialize(
        assets,  # type: ignore[arg-type]
        selection=[dg.AssetKey(key.split("/")) for key in keys] or None,
        resources={"lake": LakeResource(root=str(lake.root))},
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        **options,
    )


def failures(result: dg.ExecuteInProcessResult) -> str:
    """Error messages of a run's failed steps."""
    messages = []
    for event in result.all_events:
        if event.is_step_failure:
            error = event.step_failure_data.error
            while error is not None:
                messages.append(error.message)
                error = error.cause
    return " ".join(messages)


def failed_checks(result: dg.ExecuteInProcessResult) -> dict[str, str]:
    """Errors of a run's failed checks, by asset."""
    return {
        evaluation.asset_key.to_user_string(): str(evaluation.metadata["problems"].value)
        for evaluation in result.get_asset_check_evaluations()
        if not evaluation.passed
    }
