"""Records that the readers of benchmarks yield, and rows of ``tables``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from evidence_assets.benchmarks.line_streams import Row
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.reasoning.questions import option_labels
from evidence_assets.reasoning.tasks import NOT_ENOUGH_INFORMATION

Task = Literal["mcqa", "verification", "table_qa", "kgqa", "skb_search"]
TASKS: tuple[Task, ...] = ("mcqa", "verification", "table_qa", "kgqa", "skb_search")
ASKED_BENCHMARK = "asked"
"""Benchmark of the questions that are asked one by one."""
CLAIM_LABELS = ("SUPPORTS", "REFUTES", NOT_ENOUGH_INFORMATION)


@dataclass(frozen=True)
class GoldEvidence:
    """Evidence that a benchmark annotates as support of an answer.

    ``kind`` is chunk, sentence, cell, column, row, triple or path; ``source`` is a document, table or graph.
    ``locator`` is the position in the source: characters ``12:57``, a cell ``r3c1`` (``r0`` is the header, ``r1`` the
    first row), a JSON list of edges, or empty for the whole source. ``text`` is the text there. Items of the same
    non-empty ``group`` are alternatives: one is enough.
    """

    kind: str
    source: str
    locator: str
    text: str
    group: str = ""


@dataclass(frozen=True)
class QuestionRecord:
    """One question or claim.

    ``options`` are texts; the label of option i is the i-th letter, or the option itself in verification. ``gold`` has
    the right labels (usually one); for questions without options, answer strings (kgqa) or node ids (skb_search). An
    empty ``gold`` means that the answer is not known, or with ``unanswerable`` that none is right.
    """

    benchmark: str
    source_id: str
    split: str
    task: Task
    text: str
    options: tuple[str, ...] = ()
    gold: tuple[str, ...] = ()
    table_id: str | None = None
    topic_entities: tuple[str, ...] = ()
    gold_evidence: tuple[GoldEvidence, ...] = ()
    negated: bool | None = None
    """Whether it asks for the option that is false; None if the benchmark does not say."""
    aliases: tuple[tuple[str, ...], ...] = ()
    """Other accepted forms of each gold answer, for kgqa."""
    unanswerable: bool = False
    """Whether no answer is right; such a question is graded, although it has no gold answer."""

    @property
    def is_graded(self) -> bool:
        return bool(self.gold) or self.unanswerable

    @property
    def question_id(self) -> str:
        return content_id("question", self.benchmark, self.source_id, self.text, self.options, self.table_id)

    @property
    def labels(self) -> tuple[str, ...]:
        return option_labels(self.task, self.options)


class CellOrigin(NamedTuple):
    """The cell, header or column that one of a joined table was taken from; locators are like ``r3c1`` and ``c1``."""

    locator: str
    table_id: str
    source_locator: str


@dataclass(frozen=True)
class Table:
    """A table as read: the header may be empty, rows may be ragged."""

    benchmark: str
    table_id: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    published_id: str = ""
    """The published id, if it was changed because an earlier table of the file has it."""
    origins: tuple[CellOrigin, ...] = ()
    """Where the cells of a joined table come from; a cell of its key comes from each table that has the key."""


@dataclass(frozen=True)
class Document:
    """One text of a corpus, before chunking."""

    doc_id: str
    title: str
    text: str
    source: str
    """Its file, relative to the corpus folder."""


def table_rows(tables: Iterable[Table]) -> list[dict[str, Any]]:
    """Rows of ``tables``; missing cells of ragged rows have no entry."""
    return [
        {
            **{name: getattr(t, name) for name in ("table_id", "benchmark", "caption")},
            "header": list(t.header),
            "n_rows": len(t.rows),
            "cells": [
                {"row": r, "column": c, "text": text} for r, row in enumerate(t.rows) for c, text in enumerate(row)
            ],
            "origins": [origin._asdict() for origin in t.origins] or None,
            "content_hash": table_content_id(t),
        }
        for t in tables
    ]


def table_content_id(table: Table) -> str:
    """Hash of a table's caption and cells."""
    return content_id("table", table.caption, table.header, table.rows)


def table_from_row(row: dict[str, Any]) -> Table:
    rows: list[list[str]] = [[] for _ in range(row["n_rows"])]
    for cell in row["cells"]:
        rows[cell["row"]].append(cell["text"])
    return Table(row["benchmark"], row["table_id"], row["caption"], tuple(row["header"]), tuple(tuple(r) for r in rows))


# Checks that apply to every question and document, whatever its format


Item = TypeVar("Item")
MIN_OPTIONS = 2
MAX_OPTIONS = 26
LocatedQuestion: TypeAlias = tuple[Row, QuestionRecord]
"""A question with its row, so that later checks can report file and line."""
Located = TypeVar("Located", LocatedQuestion, tuple[Row, QuestionRecord, Table])
"""A question with its row, and perhaps its table."""


def build_question(row: Row, **fields: Any) -> LocatedQuestion:
    """Build a :class:`QuestionRecord` and check it.

    Options of a multiple-choice question may have equal texts, as in some official files: their letters differ.
    """
    question = QuestionRecord(**fields)
    if question.task not in TASKS:
        raise row.error(f"{question.task!r} is not a task; use one of {', '.join(TASKS)}", "task")
    for name in ("source_id", "text"):
        if not getattr(question, name).strip():
            raise row.error("is empty; add a value", name)
    if question.options or question.task in ("mcqa", "verification", "table_qa"):
        _check_options(row, question)
    elif len(set(question.gold)) < len(question.gold):
        raise row.error("contains an answer twice; remove one", "gold")
    if question.aliases and len(question.aliases) != len(question.gold):
        counts = f"{len(question.aliases)} lists of aliases for {len(question.gold)} gold answers"
        raise row.error(f"{counts}; give one list per answer", "aliases")
    return row, question


def _check_options(row: Row, question: QuestionRecord) -> None:
    if len(question.options) < MIN_OPTIONS:
        count = len(question.options) or "no"
        raise row.error(f"{count} option(s); a question needs at least {MIN_OPTIONS}", "options")
    if len(question.options) > MAX_OPTIONS:
        raise row.error(f"{len(question.options)} options; the maximum is {MAX_OPTIONS}, one per letter", "options")
    for position, option in enumerate(question.options):
        if not option.strip():
            raise row.error("is empty; add its text", f"options[{position}]")
    for label in question.gold:
        if label not in question.labels:
            raise row.error(f"{label!r} is not one of {', '.join(question.labels)}", "gold")
    if len(set(question.gold)) < len(question.gold):
        raise row.error("contains a label twice; remove one", "gold")


@dataclass
class UniqueIds:
    """Rejects duplicate ids in a field."""

    id_field: str
    _ids: set[str] = field(default_factory=set)

    def add(self, identifier: str, row: Row) -> None:
        if identifier in self._ids:
            raise row.error(f"{identifier!r} occurs twice; an id must be unique across all files", self.id_field)
        self._ids.add(identifier)


def unique_questions(located: Iterable[Located]) -> Iterator[Located]:
    """Yield the questions; a duplicate id is an error."""
    ids = UniqueIds("source_id")
    for each in located:
        ids.add(each[1].source_id, each[0])
        yield each


def require_items(items: Iterable[Item], error: Callable[[], BadInput]) -> Iterator[Item]:
    """Yield the items; raise ``error()`` if there are none."""
    item = None
    for item in items:
        yield item
    if item is None:
        raise error()
