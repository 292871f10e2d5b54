"""The lake as a Dagster resource, and step placement: local processes or Ray jobs."""

from __future__ import annotations

import os
from typing import Any

import dagster as dg

from evidence_assets import profiles
from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake

MAX_STEP_RESTARTS = 2
"""Restarts of a step whose machine was lost."""
STEP_VARIABLE = "DAGSTER_RUN_STEP_KEY"
"""Environment variable that Dagster sets in the Ray job of a step."""


def step_options(pool: str | None = None) -> dict[str, Any]:
    """Placement arguments of an asset or a check: its pool and, with Ray, its resources and retries."""
    options: dict[str, Any] = {"pool": pool} if pool else {}
    if profiles.load().executor != "ray":
        return options
    needs = profiles.load().needs
    resources = {"gpu": needs.gpu, "llm": needs.llm}.get(pool or "", needs.other)
    ray_config = {
        "num_cpus": resources.cpus,
        "num_gpus": resources.gpus,
        "memory": profiles.parse_bytes(resources.memory),
    }
    options["op_tags"] = {"dagster-ray/config": {name: value for name, value in ray_config.items() if value}}
    if STEP_VARIABLE not in os.environ:
        # only the run's process retries; a retry inside the job would nest
        options["retry_policy"] = dg.RetryPolicy(max_retries=MAX_STEP_RESTARTS)
    return options


def executor() -> dg.ExecutorDefinition | None:
    """The executor of a run's steps; None for Dagster's default."""
    if profiles.load().executor != "ray":
        return None
    try:
        from dagster_ray import ray_executor
    except ImportError as error:
        raise BadInput("executor: ray needs extra packages: pip install 'evidence-assets[ray]'") from error
    executor: dg.ExecutorDefinition = ray_executor
    return executor


def set_pool_limits(instance: dg.DagsterInstance) -> None:
    """Apply the profile's pool limits to an instance, across all its runs."""
    current = {pool.name: pool.limit for pool in instance.event_log_storage.get_pool_limits()}
    for pool, limit in profiles.load().pools.model_dump().items():
        if current.get(pool) != limit:
            instance.event_log_storage.set_concurrency_slots(pool, limit)


class LakeResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The lake; without ``root``, the same folder that the command line uses."""

    root: str = ""

    def open(self) -> Lake:
        """The lake; a new one gets this profile's shard counts for good."""
        shards = profiles.load().shards
        return Lake.create(self.root or find_lake(), question_shards=shards.questions, corpus_shards=shards.corpus)


class Resources(dg.Component, dg.Model, dg.Resolvable):
    """The lake resource and the executor."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return dg.Definitions(resources={"lake": LakeResource()}, executor=executor())
