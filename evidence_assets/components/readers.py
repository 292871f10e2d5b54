"""Which reader reads a declared benchmark, and from where."""

from __future__ import annotations

from collections.abc import Iterator

from evidence_assets.components.benchmark import Benchmark
from evidence_assets.datasets import own
from evidence_assets.datasets.records import Question, Table
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake


def questions_of(lake: Lake, benchmark: Benchmark) -> Iterator[Question]:
    """The benchmark's questions."""
    path = lake.raw / (benchmark.path or f"benchmarks/{benchmark.name}/questions.jsonl")
    if benchmark.reader != "own":
        raise BadInput(f"benchmark {benchmark.name}: there is no reader {benchmark.reader!r}")
    return own.read_questions(path, benchmark.name)


def tables_of(lake: Lake, benchmark: Benchmark) -> Iterator[Table]:
    """The benchmark's tables."""
    if benchmark.reader != "own":
        raise BadInput(f"benchmark {benchmark.name}: reader {benchmark.reader!r} has no tables")
    path = lake.raw / (benchmark.tables or f"benchmarks/{benchmark.name}/tables.jsonl")
    return own.read_tables(path, benchmark.name)
