"""What one materialization of a stage works with, and what it hands over.

Belongs here: reading upstream rows, the rows of the last time, progress. Knows nothing of Dagster: ``assets`` makes a
step out of Dagster's context, a test makes one out of a lake.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import polars as pl

from evidence_assets import profiles
from evidence_assets.benchmarks.declared import Benchmark, benchmarks
from evidence_assets.lake.blocks import Blocks
from evidence_assets.lake.rows import Rows
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import Request
from evidence_assets.profiles import Kind
from evidence_assets.reasoning.asking import LanguageModel
from evidence_assets.reasoning.templates import PACKAGED, Words

Say = Callable[[str], None]
TOLD_EVERY = 10.0
"""Seconds between two lines of progress."""


@dataclass
class Made:
    """What a step made: rows of its table, their lineage, and the numbers that matter."""

    rows: Rows
    lineage: Rows | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    reused: int | None = None
    """Rows taken over unchanged; where it is stated, the rest were computed."""
    beside: Mapping[str, Rows] = field(default_factory=dict)
    """Rows of other tables that the same step makes and that lie beside its own."""
    version: str = ""
    """Data version; the content hash of the rows where none is stated."""


class Before(NamedTuple):
    """What there is of a partition that is made again: its rows, their lineage, and where new ones are kept meanwhile."""

    rows: pl.DataFrame
    lineage: pl.DataFrame
    blocks: Blocks | None = None


def silent(text: str) -> None:
    """Says nothing."""


@dataclass(frozen=True)
class Step:
    """One materialization: where it reads and writes, for which partition, and how it reports."""

    lake: Lake
    table: str
    asset: str
    partition: str = ""
    inform: Say = silent
    warn: Say = silent
    models: Mapping[Kind, str] = field(default_factory=dict)
    """The models that it works with, where they are not the profile's first, by their kind."""
    words: Words = PACKAGED
    """What prompts say."""
    only: str = ""
    """The one question that it is about; all of its partition's where none is named."""
    shown: list[Request] | None = None
    """Where requests to language models are put instead of being sent."""
    instead: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """Rows that stand for those of an asset in this partition."""
    asked: list[LanguageModel] = field(default_factory=list, compare=False)
    """The language models that were asked."""
    calls: int | None = None
    """Times that it may ask language models; without end where none is stated."""
    encoded_by: list[dict[str, Any]] = field(default_factory=list, compare=False)
    """Rows of ``models``: the encoders that are not the profile's first and whose vectors decided rows."""

    @property
    def profile(self) -> profiles.Profile:
        """The profile in use, with the models of this step first."""
        return profiles.load().using(self.models)

    @property
    def encoder(self) -> str:
        """What the profile calls the encoder that it works with; empty for its first."""
        return self.models.get("encoder", "")

    def at(self, key: str) -> str:
        """The key of an asset that a language model makes, with the model of this step after it; see ``Variant.at``."""
        return "/".join([key, *(name for kind, name in self.models.items() if kind == "generator")])

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

    def previous(self) -> pl.DataFrame:
        """The rows of this partition's last complete write, and those of an unfinished step; without the former where the
        files that were written with them are gone or belong to another write."""
        rows = self.lake.read(self.table, self.asset, self.partition)
        whole = rows if self.lake.is_whole(self.table, self.asset, self.partition) else rows.clear()
        return self.blocks.added_to(self.table, whole)

    @property
    def before(self) -> Before:
        """All that a writer of rows takes over from."""
        lineage = self.lake.read("lineage_edges", self.asset, self.partition)
        return Before(self.previous(), self.blocks.added_to("lineage_edges", lineage), self.blocks)

    @cached_property
    def blocks(self) -> Blocks:
        """Where rows are kept until the partition is written."""
        return Blocks(self.lake, self.asset, self.partition)

    def read(self, table: str, asset: str, partition: str | None = None) -> pl.DataFrame:
        """Rows of an upstream asset; of all its partitions where none is named."""
        return self.lake.read(table, asset, partition)

    def read_here(self, table: str, asset: str) -> pl.DataFrame:
        """Rows of an upstream asset in the partition of this step, of the one question that it is about if there is one."""
        rows = self.instead[asset] if asset in self.instead else self.read(table, asset, self.partition)
        if not self.only or "question_id" not in rows.columns:
            return rows
        return rows.filter(pl.col("question_id") == self.only)

    def read_benchmark(self, table: str, asset: str) -> pl.DataFrame:
        """Rows of an upstream asset over all shards of this partition's benchmark."""
        return pl.concat([self.lake.read(table, asset, partition) for partition in self.shards])

    def progress(self, what: str) -> Callable[[int, int], None]:
        """A callback ``(done, total)`` that tells rate and time left, at most every ten seconds."""
        return progress(what, self.inform)


def progress(what: str, inform: Say) -> Callable[[int, int], None]:
    """A callback ``(done, total)`` that tells ``inform`` rate and time left, at most every ten seconds."""
    started = last = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < TOLD_EVERY or not done:
            return
        last = now
        rate = done / (now - started)
        inform(f"{what}: {done:,} of {total:,}, {rate:,.1f} a second, {(total - done) / rate:,.0f} s left")

    return report
