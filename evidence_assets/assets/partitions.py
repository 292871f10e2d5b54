"""Partitions of task families and corpora, and the encoders for which an asset has a version."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import dagster as dg

from evidence_assets import profiles, systems
from evidence_assets.assets.table_asset import CommonOptions
from evidence_assets.benchmarks.declared_benchmarks import benchmarks_of_family
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.stages import build_all_stages
from evidence_assets.experiment.variants import models_to_combine, variants
from evidence_assets.lake.ids import key_for_model
from evidence_assets.reproduction.presets import enabled_presets


@cache
def benchmark_partitions(family: str) -> dg.StaticPartitionsDefinition:
    return dg.StaticPartitionsDefinition([b.name for b in benchmarks_of_family(family)])


@cache
def question_partitions(family: str) -> dg.MultiPartitionsDefinition:
    """Benchmark × shard, shared by every asset of the family."""
    shards = dg.StaticPartitionsDefinition([str(i) for i in range(profiles.load().shards.questions)])
    return dg.MultiPartitionsDefinition({"benchmark": benchmark_partitions(family), "shard": shards})


@cache
def corpus_partitions() -> dg.StaticPartitionsDefinition:
    return dg.StaticPartitionsDefinition([str(i) for i in range(profiles.load().shards.corpus)])


BY_BENCHMARK = dg.MultiToSingleDimensionPartitionMapping(partition_dimension_name="benchmark")
"""Maps between a family's benchmark × shard partitions and its benchmarks."""
ALL_PARTITIONS = dg.AllPartitionMapping()
MODEL_TAG = "model/"
"""Tag prefix of assets computed with another model than the profile's first, followed by the model's name."""


def list_encoders(key: str) -> list[str]:
    """The encoders that need this asset: "" for the profile's first, then those that loaded variants name."""
    names = profiles.load().model_names("encoder")[1:]
    if not names:
        return [""]
    selected = [
        variant
        for variant in variants()  # filters first, so that other systems are not imported
        if variant.is_loaded and "encoder" in models_to_combine(variant, enabled_presets())
    ]
    keys = {r.key for v in selected for stage in build_all_stages(systems.open_method(v)) for r in stage.inputs}
    return ["", *(name for name in names if key_for_model(key, name) in keys)]


def encoder_options(name: str, group: str, version: str, description: str) -> CommonOptions:
    """Options of an asset computed with this encoder; with the profile's first if ``name`` is empty."""
    profile = profiles.load()
    settings = profile.encoders[name] if name else None
    return {
        "description": f"{description}{f' by {name}' if name else ''}.",
        "group": f"{group}_{name}" if name else group,
        "code_version": f"{version}:{settings.name}@{settings.revision}" if settings else version,
        "tags": {f"{MODEL_TAG}{name}": ""} if name else {},
        "pool": "llm" if (settings or profile.encoder).base_url else "gpu",
    }


def with_encoder(context: StageContext, name: str) -> StageContext:
    """The context of an asset computed with this encoder; with the profile's first if ``name`` is empty."""
    return replace(context, models={"encoder": name} if name else {})


def profile_with_encoder(name: str) -> profiles.Profile:
    """The active profile with this encoder first; unchanged if ``name`` is empty."""
    return profiles.load().with_models({"encoder": name} if name else {})
