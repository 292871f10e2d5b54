"""The partitions that assets share: one definition per task family, one for the shards of a corpus.

A benchmark belongs to one family; its YAML under ``defs/benchmarks`` puts it there.
"""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

import dagster as dg
import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from evidence_assets import profiles
from evidence_assets.lake.errors import BadInput

Family = Literal["mcqa", "table", "graph", "search"]
FAMILIES: tuple[Family, ...] = ("mcqa", "table", "graph", "search")
FAMILY_OF_TASK: dict[str, Family] = {
    "mcqa": "mcqa",
    "verification": "table",
    "table_qa": "table",
    "kgqa": "graph",
    "skb_search": "search",
}
BENCHMARK_TYPE = "evidence_assets.components.benchmark.Benchmark"
BENCHMARKS = Path(__file__).resolve().parent.parent / "defs" / "benchmarks"


class BenchmarkSettings(BaseModel):
    """One benchmark, as its YAML states it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    task: Literal["mcqa", "verification", "table_qa", "kgqa", "skb_search"]
    reader: str = "own"
    """Reader of its format; ``own`` is this project's own JSON lines."""
    folder: str = ""
    """Folder below the lake's ``raw`` where its files lie; ``benchmarks/<name>`` where none is named."""
    split: str = "test"
    source: str = ""
    """Raw source asset that puts the files there, where there is one."""
    corpus: str = ""
    """Corpus that it is answered from."""
    graph: str = ""
    """Graph that it is answered from."""
    profiles: tuple[str, ...] = ()
    """Profiles in which it is run; in all where none is named."""

    @property
    def family(self) -> Family:
        return FAMILY_OF_TASK[self.task]


@lru_cache
def benchmarks(folder: Path = BENCHMARKS) -> dict[str, BenchmarkSettings]:
    """Every benchmark declared in YAML below ``folder`` that the profile in use runs, by name."""
    found: dict[str, BenchmarkSettings] = {}
    profile = profiles.load().name
    for path in sorted(folder.rglob("*.yaml")):
        try:
            documents = [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]
        except yaml.YAMLError as error:
            raise BadInput(f"not readable as YAML: {error}", file=path) from error
        for document in documents:
            if document.get("type") != BENCHMARK_TYPE:
                continue
            try:
                made = BenchmarkSettings.model_validate(document.get("attributes", {}))
            except ValidationError as error:
                first = error.errors()[0]
                raise BadInput(first["msg"], file=path, field=".".join(str(p) for p in first["loc"])) from error
            if made.name in found:
                raise BadInput(f"benchmark {made.name!r} is declared twice", file=path, field="name")
            if not made.profiles or profile in made.profiles:
                found[made.name] = made
    return found


def of_family(family: Family) -> list[BenchmarkSettings]:
    """The family's benchmarks, by name."""
    return [b for _, b in sorted(benchmarks().items()) if b.family == family]


@cache
def benchmark_partitions(family: Family) -> dg.StaticPartitionsDefinition:
    """One partition a benchmark of the family."""
    return dg.StaticPartitionsDefinition([b.name for b in of_family(family)])


@cache
def question_partitions(family: Family) -> dg.MultiPartitionsDefinition:
    """Benchmark × shard, shared by every asset of the family."""
    shards = dg.StaticPartitionsDefinition([str(i) for i in range(profiles.load().shards.questions)])
    return dg.MultiPartitionsDefinition({"benchmark": benchmark_partitions(family), "shard": shards})


@cache
def corpus_partitions() -> dg.StaticPartitionsDefinition:
    """One partition a shard of a corpus."""
    return dg.StaticPartitionsDefinition([str(i) for i in range(profiles.load().shards.corpus)])


BY_BENCHMARK = dg.MultiToSingleDimensionPartitionMapping(partition_dimension_name="benchmark")
"""From a family's benchmark × shard to its benchmarks, in either direction."""
EVERY = dg.AllPartitionMapping()
