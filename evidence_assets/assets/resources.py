"""The lake as a Dagster resource, and step placement: local processes or Ray jobs."""

from __future__ import annotations

import os
import pickle  # nosec B403
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypedDict

import dagster as dg

from evidence_assets import profiles
from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import StepResources
from evidence_assets.retrieval.embedding import BlockMap, EncodeBlock

MAX_STEP_RESTARTS = 2
"""Restarts of a step whose machine was lost."""
STEP_VARIABLE = "DAGSTER_RUN_STEP_KEY"
"""Environment variable that Dagster sets in the Ray job of a step."""


def _on_ray() -> bool:
    return profiles.load().executor == "ray"


def _is_job() -> bool:
    """Whether this process is the Ray job of a step."""
    return _on_ray() and STEP_VARIABLE in os.environ


def _needs(pool: str | None) -> StepResources:
    needs = profiles.load().needs
    return {"gpu": needs.gpu, "llm": needs.llm}.get(pool or "", needs.other)


def _ray_options(needs: StepResources) -> dict[str, float | int]:
    """Resource options of a Ray task or actor."""
    return {"num_cpus": needs.cpus, "num_gpus": needs.gpus, "memory": profiles.parse_bytes(needs.memory)}


class StepOptions(TypedDict, total=False):
    """Placement arguments of an asset or a check."""

    pool: str
    op_tags: Mapping[str, Any]
    retry_policy: dg.RetryPolicy


def step_options(pool: str | None = None, *, uses_actors: bool = False) -> StepOptions:
    """Placement options for a step; one that ``uses_actors`` for its work reserves no CPU or GPU itself."""
    options: StepOptions = {"pool": pool} if pool else {}
    if not _on_ray():
        return options
    ray_config = _ray_options(_needs(pool)) | ({"num_cpus": 0, "num_gpus": 0} if uses_actors else {})
    options["op_tags"] = {"dagster-ray/config": {name: value for name, value in ray_config.items() if value}}
    if not _is_job():
        # only the run's process retries; a retry inside the job would nest
        options["retry_policy"] = dg.RetryPolicy(max_retries=MAX_STEP_RESTARTS)
    return options


def executor() -> dg.ExecutorDefinition | None:
    """The executor of a run's steps; None for Dagster's default."""
    if not _on_ray():
        return None
    try:
        from dagster_ray import ray_executor
    except ImportError as error:
        raise BadInput("executor: ray needs extra packages: pip install 'evidence-assets[ray]'") from error
    executor: dg.ExecutorDefinition = ray_executor
    return executor


def block_mapper() -> BlockMap:
    """Maps an encoder over blocks of texts: in this process, or by Ray actors if the step is a Ray job."""
    return _map_on_actors if _is_job() else map


class _EncoderActor:
    """A Ray actor that encodes blocks and loads the model with the first."""

    def __init__(self, encode: EncodeBlock) -> None:
        self._encode = encode

    def __call__(self, row: Mapping[str, Any]) -> dict[str, bytes]:
        return {"encoded": pickle.dumps(self._encode([str(text) for text in row["texts"]]))}


def _map_on_actors(encode: EncodeBlock, blocks: Iterable[list[str]]) -> Iterator[Any]:
    """Encode blocks with Ray Data, in order; blocks of a lost machine are encoded again."""
    import ray
    import ray.data

    rows = [{"texts": block} for block in blocks]
    if not rows:
        return
    ray.init(address="auto", ignore_reinit_error=True)
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    needs, resources = _needs("gpu"), ray.cluster_resources()
    capacities = [resources.get(kind, 0) / n for kind, n in (("CPU", needs.cpus), ("GPU", needs.gpus)) if n]
    actors = min(len(rows), max(1, int(min(capacities, default=len(rows)))))
    data = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
        _EncoderActor,
        fn_constructor_args=(encode,),
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=actors),
        **_ray_options(needs),
    )
    for row in data.iter_rows():  # pickled by our own actors
        yield pickle.loads(row["encoded"])  # nosec B301


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


def asset_name(key: dg.AssetKey) -> str:
    """The asset's key as the lake writes it, with slashes."""
    return "/".join(key.path)


class Resources(dg.Component, dg.Model, dg.Resolvable):
    """The lake resource and the executor."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return dg.Definitions(resources={"lake": LakeResource()}, executor=executor())
