"""The lake as a Dagster resource, the pools and the executor."""

from __future__ import annotations

import dagster as dg

from evidence_assets import profiles
from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.store import Lake


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
    """The lake resource and the executor of a run's steps."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        executors = {"in_process": dg.in_process_executor, "multiprocess": dg.multiprocess_executor}
        return dg.Definitions(resources={"lake": LakeResource()}, executor=executors[profiles.load().executor])
