"""The partitions that assets share: one definition per task family, one for the shards of a corpus."""

from __future__ import annotations

from functools import cache

import dagster as dg

from evidence_assets import profiles
from evidence_assets.benchmarks.declared import of_family


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
