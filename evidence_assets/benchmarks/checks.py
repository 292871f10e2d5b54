"""Checks that apply to every question and document, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

from evidence_assets.benchmarks.line_streams import Row
from evidence_assets.benchmarks.records import TASKS, QuestionRecord
from evidence_assets.lake.errors import BadInput

Item = TypeVar("Item")
TableOrNone = TypeVar("TableOrNone")
MIN_OPTIONS, MAX_OPTIONS = 2, 26
LocatedQuestion: TypeAlias = tuple[Row, QuestionRecord]
"""A question with its row, so that later checks can report file and line."""


def build_question(row: Row, **fields: Any) -> LocatedQuestion:
    """Build a :class:`QuestionRecord` and check it.

    Options of a multiple-choice question may have equal texts, as in some official files: their letters differ.
    """
    question = QuestionRecord(**fields)
    if question.task not in TASKS:
        raise row.error(f"{question.task!r} is not a task; use one of {', '.join(TASKS)}", "task")
    for field in ("source_id", "text"):
        if not getattr(question, field).strip():
            raise row.error("is empty; add a text", field)
    if question.options or question.task in ("mcqa", "verification"):
        _check_options(row, question)
    elif len(set(question.gold)) < len(question.gold):
        raise row.error("contains an answer twice; remove one", "gold")
    if question.aliases and len(question.aliases) != len(question.gold):
        raise row.error(
            f"{len(question.aliases)} lists of aliases for {len(question.gold)} gold answers; give one list per answer",
            "aliases",
        )
    return row, question


def _check_options(row: Row, question: QuestionRecord) -> None:
    if len(question.options) < MIN_OPTIONS:
        raise row.error(
            f"{len(question.options) or 'no'} option(s); a question needs at least {MIN_OPTIONS}", "options"
        )
    if len(question.options) > MAX_OPTIONS:
        raise row.error(f"{len(question.options)} options; the maximum is {MAX_OPTIONS}, one per letter", "options")
    for position, option in enumerate(question.options):
        if not option.strip():
            raise row.error("is empty; add its text", f"options[{position}]")
    if question.task == "verification" and len(set(question.options)) < len(question.options):
        raise row.error("contains two equal labels; remove one", "options")
    for label in question.gold:
        if label not in question.labels:
            raise row.error(f"{label!r} is not one of {', '.join(question.labels)}", "gold")
    if len(set(question.gold)) < len(question.gold):
        raise row.error("contains a label twice; remove one", "gold")


class UniqueIds:
    """Rejects duplicate ids."""

    def __init__(self, field: str) -> None:
        self._field, self._ids = field, set[str]()

    def add(self, identifier: str, row: Row) -> None:
        if identifier in self._ids:
            message = f"{identifier!r} occurs twice; an id must be unique across all files"
            raise BadInput(message, file=row.file, line=row.line, field=self._field)
        self._ids.add(identifier)


def unique_questions(located: Iterable[LocatedQuestion]) -> Iterator[QuestionRecord]:
    """Yield the questions; a duplicate id is an error."""
    return (question for question, _ in unique_pairs((row, question, None) for row, question in located))


def unique_pairs(
    located: Iterable[tuple[Row, QuestionRecord, TableOrNone]],
) -> Iterator[tuple[QuestionRecord, TableOrNone]]:
    """Yield the questions with their tables; a duplicate question id is an error. Questions may share a table."""
    ids = UniqueIds("source_id")
    for row, question, table in located:
        ids.add(question.source_id, row)
        yield question, table


def require_items(items: Iterable[Item], error: Callable[[], BadInput]) -> Iterator[Item]:
    """Yield the items; raise ``error()`` if there are none."""
    item = None
    for item in items:
        yield item
    if item is None:
        raise error()
