"""A stage computes one asset, independent of Dagster: its inputs, its context and its output."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

import polars as pl

from evidence_assets import profiles
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, benchmarks
from evidence_assets.lake.blocks import Blocks
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.rows import Rows
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import ModelKind
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.templates import PACKAGED, Prompts

LogFunction = Callable[[str], None]
RowCheck = Callable[[pl.DataFrame], list[str]]
"""A check of rows; returns errors."""
Partitions = Literal["", "questions", "benchmarks", "relations"]
"""Unpartitioned; by benchmark and shard of its family; by benchmark; or by relation."""
InputPartitions = Literal["same", "every", "benchmark"]
"""Input partitions that one partition reads: the same one, all, or all of its benchmark."""
SECONDS_BETWEEN_REPORTS = 10.0


@dataclass(frozen=True)
class StageInput:
    """An asset that a stage reads.

    ``split``: The split of the benchmark's files that is read, if not the one that it answers.
    """

    key: str
    partitions: InputPartitions = "same"
    split: str = ""


@dataclass
class StageOutput:
    """The output of a stage: rows of its table, their lineage and metadata."""

    rows: Rows
    lineage: Rows | None = None
    metadata: dict[str, object] = field(default_factory=dict)
    reused: int | None = None
    """Number of rows reused unchanged; None if the stage does not reuse rows."""
    other_tables: Mapping[str, Rows] = field(default_factory=dict)
    """Rows of other tables, by table, written in the same commit."""
    pictures: Mapping[str, str] = field(default_factory=dict)
    """SVG pictures of the rows, by name, for the metadata."""
    version: str = ""
    """Data version; empty for the content hash of the rows."""


class PreviousOutput(NamedTuple):
    """The stored rows and lineage of a partition, and the checkpoints of its running materialization."""

    rows: pl.DataFrame
    lineage: pl.DataFrame
    blocks: Blocks | None = None


def discard_message(text: str) -> None:
    """Ignore a log message."""


@dataclass(frozen=True)
class StageContext:
    """The context of one materialization: lake, partition, inputs, models and logging."""

    lake: Lake
    table: str
    asset: str
    partition: str = ""
    inform: LogFunction = discard_message
    warn: LogFunction = discard_message
    inputs: Sequence[StageInput] = ()
    """The inputs that the stage declares."""
    models: Mapping[ModelKind, str] = field(default_factory=dict)
    """Names of models by kind, where they differ from the profile's first."""
    prompt_settings: Prompts = PACKAGED
    """Prompt texts and temperature."""
    ad_hoc_benchmark: Benchmark | None = None
    """The benchmark of a single question that belongs to no declared one; its tables are those of the partition."""
    language_models: list[LanguageModel] = field(default_factory=list, compare=False)
    """Language models opened in this materialization."""
    encoder_rows: list[dict[str, object]] = field(default_factory=list, compare=False)
    """Rows of ``models`` for encoders other than the profile's first."""

    @property
    def profile(self) -> profiles.Profile:
        """The active profile with the models of this stage first."""
        return profiles.load().with_models(self.models)

    @property
    def encoder(self) -> str:
        """Name of the encoder in the profile; empty for the first."""
        return self.models.get("encoder", "")

    @property
    def benchmark(self) -> Benchmark:
        return self.ad_hoc_benchmark or benchmarks()[self.benchmark_name]

    @property
    def benchmark_name(self) -> str:
        return self.partition if self.ad_hoc_benchmark else self.partition.split("|")[0]

    @property
    def shard(self) -> int:
        """Shard of the partition; 0 without one."""
        return int(self.partition.split("|")[-1]) if self.partition else 0

    def read_input(self, kind: str, table: str = "") -> pl.DataFrame:
        """Rows of the declared input whose key starts with ``kind``.

        ``table``: Another table of that asset, such as ``lineage_edges``.
        """
        declared = next((each for each in self.inputs if each.key.partition("/")[0] == kind), None)
        if declared is None:
            raise KeyError(f"{self.asset} declares no input {kind!r}")
        partitions: Mapping[InputPartitions, Sequence[str | None]] = {
            "same": [self.partition],
            "every": [None],
            "benchmark": [f"{self.benchmark_name}|{shard}" for shard in range(self.profile.shards.questions)],
        }
        return pl.concat([self.read(table or kind, declared.key, each) for each in partitions[declared.partitions]])

    def read(self, table: str, asset: str, partition: str | None = None) -> pl.DataFrame:
        """Rows of an upstream asset, from one or all partitions."""
        return self.lake.read(table, asset, partition)

    def previous_rows(self) -> pl.DataFrame:
        """Rows of the last complete write, merged with the checkpoints of an unfinished run.

        Without the former if files of that write are missing or belong to another write.
        """
        rows = self.lake.read(self.table, self.asset, self.partition)
        complete_rows = rows if self.lake.is_complete(self.table, self.asset, self.partition) else rows.clear()
        return self.blocks.merge_into(self.table, complete_rows)

    @property
    def previous_output(self) -> PreviousOutput:
        """Rows, lineage and checkpoints that a row writer can reuse."""
        lineage = self.lake.read("lineage_edges", self.asset, self.partition)
        return PreviousOutput(self.previous_rows(), self.blocks.merge_into("lineage_edges", lineage), self.blocks)

    @cached_property
    def blocks(self) -> Blocks:
        """Checkpoints of rows until the partition is written."""
        return Blocks(self.lake, self.asset, self.partition)

    def record_model(self, key: str, name: str, revision: str | None, task: str) -> None:
        """Add a row of ``models`` for a model other than the profile's first encoder."""
        row: dict[str, object] = {"model_id": key, "name": name, "revision": revision, "task": task}
        row["input_hash"] = content_id(task, key)
        self.encoder_rows.append(row)

    def progress(self, label: str, completed: int = 0, *, detail: Callable[[], str] | None = None) -> ProgressReporter:
        """Build a callback ``(completed, total)`` that logs rate, remaining time and detail every ten seconds.

        ``completed``: What was there before, which the rate leaves out.
        """
        reporter = ProgressReporter(label, self.inform, detail)
        if completed:
            reporter.start_round(completed)
        return reporter


@dataclass(frozen=True)
class Stage:
    """One asset of a variant.

    ``compute``: Computes the rows of one partition from the declared ``inputs``.
    ``version``: Version of the code and settings that determine the rows.
    ``pool``: Concurrency pool: ``gpu`` for models in the process, ``llm`` for served language models.
    ``check``: An additional blocking check on the rows; returns errors.
    ``warning_check``: A check that does not block.
    ``models``: Names of models by kind, where they differ from the profile's first.
    ``prompt_settings``: Prompt texts and temperature.
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
    check: RowCheck | None = None
    warning_check: RowCheck | None = None
    models: Mapping[ModelKind, str] = field(default_factory=dict)
    prompt_settings: Prompts = PACKAGED

    def prepare(self, context: StageContext) -> StageContext:
        """Return the context with the inputs, models and prompts of this stage."""
        return replace(context, inputs=self.inputs, models=self.models, prompt_settings=self.prompt_settings)

    def run(self, context: StageContext) -> StageOutput:
        """Compute the rows of the context's partition."""
        return self.compute(self.prepare(context))


class ProgressReporter:
    """A callback ``(completed, total)`` that logs rate and remaining time every ten seconds.

    Without a total, it logs the number and rate. ``detail`` is a text to append.
    """

    def __init__(self, label: str, inform: LogFunction, detail: Callable[[], str] | None = None) -> None:
        self._label = label
        self._inform = inform
        self._detail = detail
        self._last_report = time.monotonic()
        self._start = self._last_report
        self._completed_before = 0

    def start_round(self, completed: int = 0) -> None:
        """Start the clock of the rate; ``completed`` is what took no time, such as cached replies."""
        self._start = time.monotonic()
        self._completed_before = completed

    def __call__(self, completed: int, total: int | None) -> None:
        time_s = time.monotonic()
        elapsed_s = time_s - self._start
        n_timed = completed - self._completed_before
        if time_s - self._last_report < SECONDS_BETWEEN_REPORTS or not (n_timed and elapsed_s):
            return
        self._last_report = time_s
        rate = n_timed / elapsed_s
        of_total = "" if total is None else f" of {total:,}"
        left = "" if total in (None, completed) else f", {(total - completed) / rate:,.0f} s left"
        pace = f"{rate:,.1f} per second" if rate >= 1 else f"{1 / rate:,.1f} s each"
        more = f"; {self._detail()}" if self._detail else ""
        self._inform(f"{self._label}: {completed:,}{of_total}, {pace}{left}{more}")
