"""Which reader reads a declared benchmark, and from where."""

from __future__ import annotations

from collections.abc import Iterator

from evidence_assets.components.benchmark import Benchmark
from evidence_assets.datasets import own, registry
from evidence_assets.datasets.records import Question, Table
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake


def questions_of(lake: Lake, benchmark: Benchmark) -> Iterator[Question]:
    """The benchmark's questions; those of its split are kept by the caller."""
    path = lake.raw / benchmark.files[0]
    if benchmark.reader == "own":
        return own.read_questions(path, benchmark.name)
    return registry.read_questions(benchmark.reader, path, benchmark.split)


def tables_of(lake: Lake, benchmark: Benchmark) -> Iterator[Table]:
    """The benchmark's tables."""
    if benchmark.reader != "own":
        raise BadInput(f"benchmark {benchmark.name}: reader {benchmark.reader!r} has no tables")
    return own.read_tables(lake.raw / benchmark.files[1], benchmark.name)
