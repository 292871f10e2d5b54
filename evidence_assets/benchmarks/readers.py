"""Registry of readers by dataset, and the questions and tables of declared benchmarks.

Modules in ``official`` register functions by dataset: ``READERS`` for questions of a folder, ``PAIRS`` for questions
with their tables, ``PASSAGES`` for passages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import polars as pl

from evidence_assets.benchmarks import official, user_benchmark
from evidence_assets.benchmarks.dataset_info import DatasetInfo, PairReader, Reader, find_dataset
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, BenchmarkSubset
from evidence_assets.benchmarks.graphs.rows import read_labels
from evidence_assets.benchmarks.line_streams import Row, delimited_rows
from evidence_assets.benchmarks.official import choices
from evidence_assets.benchmarks.records import (
    Document,
    Located,
    QuestionRecord,
    Table,
    require_items,
    table_content_id,
    unique_questions,
)
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake

_MODULES = [import_module(f"{official.__name__}.{module.name}") for module in iter_modules(official.__path__)]


def _collect_readers(kind: str) -> dict[str, Any]:
    return {name: reader for module in _MODULES for name, reader in getattr(module, kind, {}).items()}


PASSAGES: dict[str, Callable[[Path, str], Iterator[Document]]] = _collect_readers("PASSAGES")
PAIRS: dict[str, PairReader] = _collect_readers("PAIRS")
READERS: dict[str, Reader] = _collect_readers("READERS")


def read_questions(name: str, folder: Path, split: str) -> Iterator[QuestionRecord]:
    """Read the questions of a split of a dataset, in file order; having none is an error."""
    if name in PAIRS:
        return (question for question, _ in read_pairs(name, folder, split))
    info = find_dataset(name)
    read = READERS.get(name) or (choices.read_choices if info.fields else None)
    if read is None and info.task:
        message = f"no function reads {info.title}: add it to READERS of a module in benchmarks/official"
        raise BadInput(f"{message}, or describe its layout with `fields`", field=name)
    if read is None:
        raise BadInput(f"{info.title} has no questions; use another dataset")
    return (question for _, question in _read_checked(read, info, folder, split))


def read_pairs(name: str, folder: Path, split: str) -> Iterator[tuple[QuestionRecord, Table]]:
    """Read the questions of a split with their tables, in file order; having none is an error."""
    return _with_unique_table_ids(_read_checked(PAIRS[name], find_dataset(name), folder, split))


def _with_unique_table_ids(
    pairs: Iterator[tuple[Row, QuestionRecord, Table]],
) -> Iterator[tuple[QuestionRecord, Table]]:
    """Give different tables with the id ``t`` distinct ids: ``t``, ``t#2`` …, in the order of the file."""
    contents: dict[str, list[str]] = {}
    for _, question, table in pairs:
        earlier = contents.setdefault(table.table_id, [])
        content = table_content_id(table)
        if content not in earlier:
            earlier.append(content)
        if number := earlier.index(content):
            unique_id = f"{table.table_id}#{number + 1}"
            question = replace(question, table_id=unique_id)
            table = replace(table, table_id=unique_id, published_id=table.table_id)
        yield question, table


def _read_checked(
    read: Callable[[DatasetInfo, Path, str], Iterator[Located]], info: DatasetInfo, folder: Path, split: str
) -> Iterator[Located]:
    """Read questions; duplicate ids and having no questions are errors. Missing files are reported at once."""
    files = info.find_files(folder, split)
    location = files[0] if len(files) == 1 else folder
    missing = f"contains no questions; expected {info.describe_files(split)}"
    return require_items(unique_questions(read(info, folder, split)), lambda: BadInput(missing, file=location))


def check_passages(name: str) -> None:
    if name not in PASSAGES:
        raise BadInput(f"{find_dataset(name).title} has no passages; datasets with passages: {', '.join(PASSAGES)}")


def read_passages(name: str, folder: Path, split: str) -> Iterator[Document]:
    """Read the distinct passages of a split's questions; ids are those of the gold evidence."""
    check_passages(name)
    return PASSAGES[name](folder, split)


def read_benchmark_questions(
    lake: Lake, benchmark: Benchmark, warn: Callable[[str], None] = user_benchmark.ignore_warning
) -> Iterator[QuestionRecord]:
    """Read the benchmark's questions, at least one; a user's file yields those of all splits.

    ``warn`` receives a message about each earlier name of a field in a user's file.
    """
    file = lake.raw_path(benchmark.files[0])
    if benchmark.reader == "own":
        questions = user_benchmark.read_questions(file, benchmark.name, warn)
    else:
        questions = read_questions(benchmark.reader, file, benchmark.split)
    if isinstance(benchmark, BenchmarkSubset):
        questions = benchmark.subset.select(q for q in questions if q.split == benchmark.split)
        if listed := benchmark.subset.listed:
            questions = _select_listed(questions, lake.raw_path(listed.file))
    named = _add_names(lake, benchmark, questions)
    renamed = (replace(question, benchmark=benchmark.name) for question in named)
    return require_items(renamed, lambda: BadInput("contains no questions; add at least one", file=file))


def _select_listed(questions: Iterable[QuestionRecord], file: Path) -> Iterator[QuestionRecord]:
    """The questions whose ids a file lists, one per line; an id that no question has is an error."""
    lines = {fields[0]: line for line, fields in delimited_rows(file, "\t", columns=1)}
    for question in questions:
        if lines.pop(question.source_id, None) is not None:
            yield question
    for source_id, line in lines.items():
        raise BadInput(f"{source_id} is not a question of the benchmark. Remove the line", file=file, line=line)


def _add_names(lake: Lake, benchmark: Benchmark, questions: Iterable[QuestionRecord]) -> Iterable[QuestionRecord]:
    """The questions with the names of ids, from the benchmark's file of names and, if it is there, that of aliases."""
    files = [lake.raw_path(name) for name in (benchmark.names, benchmark.aliases) if name]
    if benchmark.aliases and not files[-1].exists():
        files.pop()
    if not files:
        return questions
    questions = list(questions)
    words = {word for question in questions for word in _possible_ids(question)}
    forms: dict[str, list[str]] = {}
    for file in files:
        labels = read_labels(file).filter(pl.col("id").is_in(words))
        forms |= {identifier: [label, *aliases] for identifier, label, aliases in labels.iter_rows()}
    return [_add_forms(question, forms) for question in questions]


def _possible_ids(question: QuestionRecord) -> Iterator[str]:
    """What may be an id: answers, their aliases, and words of gold facts."""
    yield from question.gold
    yield from chain.from_iterable(question.aliases or ())
    for gold in question.gold_evidence:
        yield from gold.text.split()


def _add_forms(question: QuestionRecord, forms: Mapping[str, Sequence[str]]) -> QuestionRecord:
    """Add the names of answers that are ids, or have one among their aliases, and write gold facts with labels."""
    if not forms:
        return question
    aliases = []
    for gold, known_forms in zip(question.gold, question.aliases or ((),) * len(question.gold), strict=True):
        names = [name for form in (gold, *known_forms) for name in forms.get(form, ()) if name != gold]
        aliases.append(tuple(dict.fromkeys([*known_forms, *names])))
    labels = {word: forms[word][0] for g in question.gold_evidence for word in g.text.split() if word in forms}
    facts = [replace(g, text=" ".join(labels.get(w, w) for w in g.text.split())) for g in question.gold_evidence]
    return replace(question, aliases=tuple(aliases), gold_evidence=tuple(facts))


def read_benchmark_tables(lake: Lake, benchmark: Benchmark) -> list[Table]:
    """Read the benchmark's distinct tables; for a subset only those of its questions."""
    is_subset = isinstance(benchmark, BenchmarkSubset)
    table_ids = {q.table_id for q in read_benchmark_questions(lake, benchmark)} if is_subset else None
    files = [lake.raw_path(name) for name in benchmark.files]
    if benchmark.reader == "own":
        tables = user_benchmark.read_tables(files[1], benchmark.name)
    elif benchmark.reader in PAIRS:
        tables = (table for _, table in read_pairs(benchmark.reader, files[0], benchmark.split))
    else:
        raise BadInput(f"benchmark {benchmark.name}: the reader {benchmark.reader!r} has no tables; use another reader")
    by_id = {table.table_id: table for table in tables}
    return [
        replace(t, benchmark=benchmark.name) for t in by_id.values() if table_ids is None or t.table_id in table_ids
    ]
