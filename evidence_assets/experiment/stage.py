"""A stage of a system: one asset, as far as it can be said without Dagster.

Belongs here: what a stage is, and which rows of other assets it reads. ``assets.system`` turns stages into assets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

from evidence_assets.experiment.step import Made, Step
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import Kind

Partitions = Literal["", "questions", "benchmarks", "relations"]
"""By what a stage is partitioned: nothing; benchmark and shard, or benchmark, of its family; relation."""
Over = Literal["same", "every", "benchmark"]
"""Which partitions of an input one partition reads: that of the same name, all, or those of the same benchmark."""


@dataclass(frozen=True)
class Read:
    """An asset that a stage reads."""

    key: str
    over: Over = "same"


@dataclass(frozen=True)
class Stage:
    """One asset of a variant.

    ``make``: Makes the rows of one partition.
    ``version``: Everything of code and settings that decides the rows.
    ``pool``: The concurrency pool: ``gpu`` where a model is loaded in the process, ``llm`` where a served one is asked.
    ``check``, ``against``: What the blocking check looks at besides schema, order and lineage: the rows alone, or the
        rows beside the lake.
    ``models``: The models that it works with, where they are not the profile's first, by kind.
    ``paced``: Assets whose measured pace together is that of the variant; shown with its scores.
    """

    key: str
    table: str
    make: Callable[[Step], Made]
    description: str
    reads: Sequence[Read]
    version: str
    family: str = ""
    partitions: Partitions = "questions"
    pool: str | None = None
    kinds: tuple[str, ...] = ("parquet",)
    check: Callable[[pl.DataFrame], list[str]] | None = None
    against: Callable[[pl.DataFrame, Lake], list[str]] | None = None
    paced: Sequence[str] = field(default=())
    models: Mapping[Kind, str] = field(default_factory=dict)
