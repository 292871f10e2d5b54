"""Axes of assets: the partitions that a family or corpus shares, and the encoders besides the profile's first."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import dagster as dg

from evidence_assets import profiles, systems
from evidence_assets.benchmarks.declared import of_family
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.stages import all_stages
from evidence_assets.experiment.variants import Variant, crossed_with, opted_in, variants
from evidence_assets.lake.ids import with_model


@cache
def benchmark_partitions(family: str) -> dg.StaticPartitionsDefinition:
    return dg.StaticPartitionsDefinition([b.name for b in of_family(family)])


@cache
def question_partitions(family: str) -> dg.MultiPartitionsDefinition:
    """Benchmark × shard, shared by every asset of the family."""
    shards = dg.StaticPartitionsDefinition([str(i) for i in range(profiles.load().shards.questions)])
    return dg.MultiPartitionsDefinition({"benchmark": benchmark_partitions(family), "shard": shards})


@cache
def corpus_partitions() -> dg.StaticPartitionsDefinition:
    return dg.StaticPartitionsDefinition([str(i) for i in range(profiles.load().shards.corpus)])


BY_BENCHMARK = dg.MultiToSingleDimensionPartitionMapping(partition_dimension_name="benchmark")
"""From a family's benchmark × shard to its benchmarks, in either direction."""
EVERY = dg.AllPartitionMapping()
MODEL_TAG = "model/"
"""Tag of assets that a model besides the profile's first makes, before its name."""


def _crossed(variant: Variant) -> bool:
    """Whether it is part of the graph and names encoders; told without importing its system."""
    return variant.loaded and "encoder" in crossed_with(variant.models, variant.presets, opted_in())


def further_encoders(key: str) -> list[str]:
    """The encoders besides the profile's first whose vectors of this asset a loaded variant reads."""
    names = profiles.load().names("encoder")[1:]
    if not names:
        return []
    crossed = [variant for variant in variants() if _crossed(variant)]
    read = {
        r.key for variant in crossed for stage in all_stages(systems.load(variant.system), variant) for r in stage.reads
    }
    return [name for name in names if with_model(key, name) in read]


def version_of_encoder(name: str) -> str:
    """What the code version of vectors says of an encoder; nothing of the profile's first, whose vectors say it
    themselves.
    """
    if not name:
        return ""
    settings = profiles.load().encoders[name]
    return f":{settings.name}@{settings.revision}"


def tags_of(name: str) -> dict[str, str]:
    """Tags of assets of an encoder."""
    return {f"{MODEL_TAG}{name}": ""} if name else {}


def encoding(step: StageContext, name: str) -> StageContext:
    return replace(step, models={"encoder": name} if name else {})
