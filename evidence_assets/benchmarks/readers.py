"""The readers by the name of their dataset, and the questions and tables of declared benchmarks.

A module in ``official`` names in ``READERS`` the datasets that it reads out of a folder, in ``PAIRS`` those whose
questions it reads with their tables, in ``TABLES`` further tables, in ``PASSAGES`` those that bring passages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from evidence_assets.benchmarks import official, user_benchmark
from evidence_assets.benchmarks.checks import LocatedQuestion, require_items, unique_pairs, unique_questions
from evidence_assets.benchmarks.dataset_info import DatasetInfo, PairReader, Reader, find_dataset, load_datasets
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, BenchmarkPart
from evidence_assets.benchmarks.graphs.rows import read_names
from evidence_assets.benchmarks.official import choices
from evidence_assets.benchmarks.records import Document, QuestionRecord, Table
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake

_MODULES = [import_module(f"{official.__name__}.{module.name}") for module in iter_modules(official.__path__)]


def _collect_readers(kind: str) -> dict[str, Any]:
    return {name: read for module in _MODULES for name, read in getattr(module, kind, {}).items()}


def _without_tables(read: PairReader) -> Reader:
    def claims(info: DatasetInfo, folder: Path, split: str) -> Iterator[LocatedQuestion]:
        return ((row, question) for row, question, _ in read([folder], split))

    return claims


PASSAGES: dict[str, Callable[[Path, str], Iterator[Document]]] = _collect_readers("PASSAGES")
TABLES: dict[str, Callable[[Path], Iterator[Table]]] = _collect_readers("TABLES")
PAIRS: dict[str, PairReader] = _collect_readers("PAIRS")
READERS: dict[str, Reader] = {
    **{name: _without_tables(read) for name, read in PAIRS.items()},
    **_collect_readers("READERS"),
}


def read_questions(name: str, folder: Path, split: str) -> Iterator[QuestionRecord]:
    """The questions of a split of a dataset, in the order of its files, of which there must be some."""
    info = find_dataset(name)
    read = READERS.get(name) or (choices.read_choices if info.fields else None)
    if read is None:
        raise BadInput(f"{info.title} holds no questions")
    files = info.find_files(folder, split)  # before the first question
    place = files[0] if len(files) == 1 else folder
    return unique_questions(require_items(read(info, folder, split), lambda: info.no_questions_error(place, split)))


def read_pairs(name: str, files: Sequence[Path], split: str) -> Iterator[tuple[QuestionRecord, Table]]:
    """The questions of a split, each with its table; ``files`` as a benchmark declares them."""
    return unique_pairs(PAIRS[name](files, split))


def check_passages(name: str) -> None:
    """Refuse a dataset that brings no passages."""
    if name not in PASSAGES:
        raise BadInput(f"{find_dataset(name).title} brings no passages; known: {', '.join(PASSAGES)}")


def read_passages(name: str, folder: Path, split: str) -> Iterator[Document]:
    """The passages that come with the questions of a split, each once, called as the gold evidence calls them."""
    check_passages(name)
    return PASSAGES[name](folder, split)


def read_benchmark_questions(lake: Lake, benchmark: Benchmark) -> Iterator[QuestionRecord]:
    """The benchmark's questions under its declared name, at least one; of a user's own file those of all splits."""
    files = [lake.raw_path(name) for name in benchmark.files]
    questions = _read_questions(files, benchmark)
    if isinstance(benchmark, BenchmarkPart):
        questions = benchmark.subset.select(q for q in questions if q.split == benchmark.split)
    names = read_names(lake.raw_path(benchmark.names)) if benchmark.names else {}
    renamed = (replace(_add_names(question, names), benchmark=benchmark.name) for question in questions)
    return require_items(renamed, lambda: _no_questions_error(files[0], benchmark))


def _read_questions(files: list[Path], benchmark: Benchmark) -> Iterator[QuestionRecord]:
    if benchmark.reader == "own":
        return user_benchmark.read_questions(files[0], benchmark.name)
    if benchmark.reader in PAIRS:
        return (question for question, _ in read_pairs(benchmark.reader, files, benchmark.split))
    return read_questions(benchmark.reader, files[0], benchmark.split)


def _add_names(question: QuestionRecord, names: Mapping[str, str]) -> QuestionRecord:
    """The question with the names of answers that are ids as other forms of them, and its gold facts in names."""
    if not names:
        return question
    forms = question.aliases or ((),) * len(question.gold)
    aliases = [(*known, *filter(None, [names.get(gold)])) for gold, known in zip(question.gold, forms, strict=True)]
    facts = [replace(g, text=" ".join(names.get(w, w) for w in g.text.split())) for g in question.gold_evidence]
    return replace(question, aliases=tuple(aliases), gold_evidence=tuple(facts))


def _no_questions_error(file: Path, benchmark: Benchmark) -> BadInput:
    """The error to raise where ``file`` was read and gave no question."""
    if benchmark.reader in load_datasets():
        return load_datasets()[benchmark.reader].no_questions_error(file, benchmark.split)
    return BadInput("holds no question", file=file)


def read_benchmark_tables(lake: Lake, benchmark: Benchmark) -> Iterator[Table]:
    """The benchmark's tables under its declared name, each once; of a part those that its questions are about."""
    asked = (
        {q.table_id for q in read_benchmark_questions(lake, benchmark)}
        if isinstance(benchmark, BenchmarkPart)
        else None
    )
    for table in _read_tables([lake.raw_path(name) for name in benchmark.files], benchmark):
        if asked is None or table.table_id in asked:
            yield replace(table, benchmark=benchmark.name)


def _read_tables(files: list[Path], benchmark: Benchmark) -> Iterator[Table]:
    if benchmark.reader == "own":
        return user_benchmark.read_tables(files[1], benchmark.name)
    if benchmark.reader in TABLES:
        return TABLES[benchmark.reader](files[0])
    if benchmark.reader in PAIRS:
        return _unique_tables(read_pairs(benchmark.reader, files, benchmark.split), files[0], benchmark)
    raise BadInput(f"benchmark {benchmark.name}: reader {benchmark.reader!r} has no tables")


def _unique_tables(pairs: Iterator[tuple[QuestionRecord, Table]], file: Path, benchmark: Benchmark) -> Iterator[Table]:
    tables: dict[str, Table] = {}
    for question, table in pairs:
        earlier = tables.get(table.table_id)
        if earlier is None:
            tables[table.table_id] = table
            yield table
        elif earlier != table:
            what = f"question {question.source_id}: table {table.table_id!r}"
            raise BadInput(f"{what} differs from an earlier table of the same name", file=file)
    if not tables:
        raise _no_questions_error(file, benchmark)
