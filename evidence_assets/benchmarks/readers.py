"""Which reader reads a declared benchmark, and from where. Questions and tables carry the benchmark's declared name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from evidence_assets.benchmarks import own, registry
from evidence_assets.benchmarks.checks import some
from evidence_assets.benchmarks.declared import Benchmark, Part
from evidence_assets.benchmarks.graphs.triples import names_of
from evidence_assets.benchmarks.info import datasets
from evidence_assets.benchmarks.official import tabmcq
from evidence_assets.benchmarks.records import Question, Table
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake


def questions_of(lake: Lake, benchmark: Benchmark) -> Iterator[Question]:
    """The benchmark's questions under its declared name, at least one.

    Official files give those of its split alone; a user's own file gives all, of which the caller keeps a split. Of a
    part there are its own questions alone, whatever the file.
    """
    files = _files(lake, benchmark)
    chosen = _chosen(_questions(files, benchmark), benchmark, lake)
    names = names_of(lake.raw_place(benchmark.names)) if benchmark.names else {}
    found = (replace(_called(question, names), benchmark=benchmark.name) for question in chosen)
    return some(found, lambda: _nothing_in(files[0], benchmark))


def _called(question: Question, names: Mapping[str, str]) -> Question:
    """The question with the names of answers that are ids as other forms of them, and its gold facts in names."""
    if not names:
        return question
    known = question.aliases or ((),) * len(question.gold)
    aliases = [(*own, *filter(None, [names.get(gold)])) for gold, own in zip(question.gold, known, strict=True)]
    facts = [replace(g, text=" ".join(names.get(w, w) for w in g.text.split())) for g in question.gold_evidence]
    return replace(question, aliases=tuple(aliases), gold_evidence=tuple(facts))


def _chosen(questions: Iterator[Question], benchmark: Benchmark, lake: Lake) -> Iterator[Question]:
    """The questions, or those of them that the part of a benchmark is."""
    if not isinstance(benchmark, Part):
        return questions
    raw = lake.raw_with(*filter(None, [benchmark.subset.ids]))
    return benchmark.subset.chosen((q for q in questions if q.split == benchmark.split), raw)


def _nothing_in(file: Path, benchmark: Benchmark) -> BadInput:
    """The error to raise where ``file`` was read and gave no question."""
    if benchmark.reader in datasets():
        return datasets()[benchmark.reader].nothing_in(file, benchmark.split)
    return BadInput("holds no question", file=file)


def _files(lake: Lake, benchmark: Benchmark) -> list[Path]:
    return [lake.raw_place(name) for name in benchmark.files]


def _questions(files: list[Path], benchmark: Benchmark) -> Iterator[Question]:
    if benchmark.reader == "own":
        return own.read_questions(files[0], benchmark.name)
    if benchmark.reader in registry.PAIRS:
        return (question for question, _ in registry.PAIRS[benchmark.reader](files, benchmark.split))
    if benchmark.reader == "tabmcq":
        return tabmcq.read_questions(files[0], benchmark.split)
    return registry.read_questions(benchmark.reader, files[0], benchmark.split)


def tables_of(lake: Lake, benchmark: Benchmark) -> Iterator[Table]:
    """The benchmark's tables under its declared name, each once; of a part those that its questions are about."""
    asked = {q.table_id for q in questions_of(lake, benchmark)} if isinstance(benchmark, Part) else None
    for table in _tables(_files(lake, benchmark), benchmark):
        if asked is None or table.table_id in asked:
            yield replace(table, benchmark=benchmark.name)


def _tables(files: list[Path], benchmark: Benchmark) -> Iterator[Table]:
    if benchmark.reader == "own":
        return own.read_tables(files[1], benchmark.name)
    if benchmark.reader in registry.PAIRS:
        return _each_once(registry.PAIRS[benchmark.reader](files, benchmark.split), files[0], benchmark)
    if benchmark.reader == "tabmcq":
        return tabmcq.read_tables(files[0])
    raise BadInput(f"benchmark {benchmark.name}: reader {benchmark.reader!r} has no tables")


def _each_once(pairs: Iterator[tuple[Question, Table]], file: Path, benchmark: Benchmark) -> Iterator[Table]:
    known: dict[str, Table] = {}
    for question, table in pairs:
        before = known.get(table.table_id)
        if before is None:
            known[table.table_id] = table
            yield table
        elif before != table:
            raise BadInput(
                f"question {question.source_id}: table {table.table_id!r} differs from an earlier table of the same name",
                file=file,
            )
    if not known:
        raise _nothing_in(file, benchmark)
