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
    if benchmark.reader == "own":
        path = benchmark.path or f"benchmarks/{benchmark.name}/questions.jsonl"
        return own.read_questions(lake.raw / path, benchmark.name)
    folder = lake.raw / (benchmark.path or benchmark.reader)
    return registry.read_questions(benchmark.reader, folder, benchmark.split)


def tables_of(lake: Lake, benchmark: Benchmark) -> Iterator[Table]:
    """The benchmark's tables."""
    if benchmark.reader == "own":
        return own.read_tables(
            lake.raw / (benchmark.tables or f"benchmarks/{benchmark.name}/tables.jsonl"), benchmark.name
        )
    raise BadInput(f"benchmark {benchmark.name}: reader {benchmark.reader!r} has no tables")
