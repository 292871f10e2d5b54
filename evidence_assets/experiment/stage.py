"""A stage of a system, one asset, without Dagster: what it reads, what it works with, and what it makes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import polars as pl

from evidence_assets import profiles
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, benchmarks
from evidence_assets.lake.blocks import Blocks
from evidence_assets.lake.rows import Rows
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import Request
from evidence_assets.profiles import ModelKind
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.templates import PACKAGED_PROMPTS, PromptSettings

LogFunction = Callable[[str], None]
Partitions = Literal["", "questions", "benchmarks", "relations"]
"""By what a stage is partitioned: nothing; benchmark and shard, or benchmark, of its family; relation."""
InputPartitions = Literal["same", "every", "benchmark"]
"""Which partitions of an input one partition reads: that of the same name, all, or those of the same benchmark."""
SECONDS_BETWEEN_REPORTS = 10.0


@dataclass(frozen=True)
class StageInput:
    """An asset that a stage reads."""

    key: str
    partitions: InputPartitions = "same"


@dataclass
class StageOutput:
    """What a stage made: rows of its table, their lineage, and the numbers that matter."""

    rows: Rows
    lineage: Rows | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    reused: int | None = None
    """Rows reused unchanged; where it is stated, the rest were computed."""
    other_tables: Mapping[str, Rows] = field(default_factory=dict)
    """Rows of other tables that are made together with these and stored beside them."""
    version: str = ""
    """Data version; the content hash of the rows where none is stated."""


class PreviousOutput(NamedTuple):
    """What a partition holds that is made again: its rows, their lineage, and where new rows are kept meanwhile."""

    rows: pl.DataFrame
    lineage: pl.DataFrame
    blocks: Blocks | None = None


def discard_message(text: str) -> None:
    """Reports nothing."""


@dataclass(frozen=True)
class StageContext:
    """One materialization: where it reads and writes, for which partition, and how it reports."""

    lake: Lake
    table: str
    asset: str
    partition: str = ""
    inform: LogFunction = discard_message
    warn: LogFunction = discard_message
    inputs: Sequence[StageInput] = ()
    """The declared inputs of its stage."""
    models: Mapping[ModelKind, str] = field(default_factory=dict)
    """The models that it works with, where they are not the profile's first, by their kind."""
    words: PromptSettings = PACKAGED_PROMPTS
    """What prompts say."""
    question_id: str = ""
    """The one question that it is about; all of its partition's where none is named."""
    captured_requests: list[Request] | None = None
    """Where requests to language models are put instead of being sent."""
    replacement_rows: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """Rows that stand for those of an asset in this partition."""
    language_models: list[LanguageModel] = field(default_factory=list, compare=False)
    """The language models that were asked."""
    encoder_rows: list[dict[str, Any]] = field(default_factory=list, compare=False)
    """Rows of ``models``: the encoders that are not the profile's first and whose vectors decided rows."""

    @property
    def profile(self) -> profiles.Profile:
        """The profile in use, with the models of this stage first."""
        return profiles.load().with_models(self.models)

    @property
    def encoder(self) -> str:
        """What the profile calls the encoder that it works with; empty for its first."""
        return self.models.get("encoder", "")

    @property
    def benchmark(self) -> Benchmark:
        return benchmarks()[self.benchmark_name]

    @property
    def benchmark_name(self) -> str:
        return self.partition.split("|")[0]

    @property
    def shard(self) -> int:
        """The partition's shard; 0 where it has none."""
        return int(self.partition.split("|")[-1]) if self.partition else 0

    @property
    def shards(self) -> list[str]:
        """The partitions of all shards of this partition's benchmark."""
        return [f"{self.benchmark_name}|{shard}" for shard in range(self.profile.shards.questions)]

    def read_input(self, kind: str, table: str = "") -> pl.DataFrame:
        """Rows of the declared input whose key begins with ``kind``, of the partitions that it is read over.

        ``table``: What is read of it, where that is not the table of its name: the lineage of its rows.
        """
        declared = next((item for item in self.inputs if item.key.partition("/")[0] == kind), None)
        if declared is None:
            raise KeyError(f"{self.asset} declares no input {kind!r}")
        if declared.partitions == "every":
            return self.read(table or kind, declared.key)
        return (self.read_benchmark if declared.partitions == "benchmark" else self.read_partition)(
            table or kind, declared.key
        )

    def read(self, table: str, asset: str, partition: str | None = None) -> pl.DataFrame:
        """Rows of an upstream asset; of all its partitions where none is named."""
        return self.lake.read(table, asset, partition)

    def read_partition(self, table: str, asset: str) -> pl.DataFrame:
        """Rows of an upstream asset in this partition, of the one question that it is about if there is one."""
        rows = (
            self.replacement_rows[asset] if asset in self.replacement_rows else self.read(table, asset, self.partition)
        )
        if not self.question_id or "question_id" not in rows.columns:
            return rows
        return rows.filter(pl.col("question_id") == self.question_id)

    def read_benchmark(self, table: str, asset: str) -> pl.DataFrame:
        """Rows of an upstream asset over all shards of this partition's benchmark."""
        return pl.concat([self.lake.read(table, asset, partition) for partition in self.shards])

    def previous_rows(self) -> pl.DataFrame:
        """The rows of this partition's last complete write, and those of an unfinished run; without the former where
        the files that were written with them are gone or belong to another write."""
        rows = self.lake.read(self.table, self.asset, self.partition)
        whole = rows if self.lake.is_complete(self.table, self.asset, self.partition) else rows.clear()
        return self.blocks.merge_into(self.table, whole)

    @property
    def previous_output(self) -> PreviousOutput:
        """All that a writer of rows can reuse."""
        lineage = self.lake.read("lineage_edges", self.asset, self.partition)
        return PreviousOutput(self.previous_rows(), self.blocks.merge_into("lineage_edges", lineage), self.blocks)

    @cached_property
    def blocks(self) -> Blocks:
        """Where rows are kept until the partition is written."""
        return Blocks(self.lake, self.asset, self.partition)

    def progress(self, what: str) -> Callable[[int, int], None]:
        """A callback ``(done, total)`` that reports rate and time left, at most every ten seconds."""
        return report_progress(what, self.inform)


@dataclass(frozen=True)
class Stage:
    """One asset of a variant.

    ``make``: Makes the rows of one partition, from what ``reads`` declares.
    ``version``: Everything of code and settings that decides the rows.
    ``pool``: The concurrency pool: ``gpu`` where a model is loaded in the process, ``llm`` where a served one is asked.
    ``check``, ``against``: What the blocking check looks at besides schema, order and lineage: the rows alone, or the
        rows beside the lake.
    ``models``, ``words``: The models that it works with, where they are not the profile's first, by kind; and what
        prompts say.
    """

    key: str
    table: str
    compute: Callable[[StageContext], StageOutput]
    description: str
    inputs: Sequence[StageInput]
    version: str
    family: str = ""
    partitions: Partitions = "questions"
    pool: str | None = None
    kinds: tuple[str, ...] = ("parquet",)
    check: Callable[[pl.DataFrame], list[str]] | None = None
    lake_check: Callable[[pl.DataFrame, Lake], list[str]] | None = None
    models: Mapping[ModelKind, str] = field(default_factory=dict)
    words: PromptSettings = PACKAGED_PROMPTS

    def prepare(self, context: StageContext) -> StageContext:
        """The context with the inputs, models and words of this stage."""
        return replace(context, inputs=self.inputs, models=self.models, words=self.words)

    def run(self, context: StageContext) -> StageOutput:
        """Make the rows of the context's partition."""
        return self.compute(self.prepare(context))


def report_progress(what: str, inform: LogFunction) -> Callable[[int, int], None]:
    """A callback ``(done, total)`` that reports rate and time left, at most every ten seconds."""
    started = last = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < SECONDS_BETWEEN_REPORTS or not done:
            return
        last = now
        rate = done / (now - started)
        inform(f"{what}: {done:,} of {total:,}, {rate:,.1f} a second, {(total - done) / rate:,.0f} s left")

    return report
