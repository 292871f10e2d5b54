"""What every question and document must fulfil, whichever file it came from."""

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
"""A question with the row it was read from, so that a later check can name the place."""


def build_question(row: Row, **fields: Any) -> LocatedQuestion:
    """A :class:`Question` with the row it came from, once it fulfils what all questions must.

    Two options of a choice may read alike, as in some official questions: their letters tell them apart.
    """
    made = QuestionRecord(**fields)
    if made.task not in TASKS:
        raise row.error(f"{made.task!r} is not one of {', '.join(TASKS)}", "task")
    for field in ("source_id", "text"):
        if not getattr(made, field).strip():
            raise row.error("is empty", field)
    if made.options or made.task in ("mcqa", "verification"):
        _check_options(row, made)
    elif len(set(made.gold)) < len(made.gold):
        raise row.error("names an answer twice", "gold")
    if made.aliases and len(made.aliases) != len(made.gold):
        raise row.error(f"{len(made.aliases)} lists of aliases for {len(made.gold)} answers", "aliases")
    return row, made


def _check_options(row: Row, made: QuestionRecord) -> None:
    if len(made.options) < MIN_OPTIONS:
        raise row.error(f"{len(made.options) or 'no'} option(s); a choice needs at least {MIN_OPTIONS}", "options")
    if len(made.options) > MAX_OPTIONS:
        raise row.error(f"{len(made.options)} options; at most {MAX_OPTIONS} can be lettered", "options")
    for place, option in enumerate(made.options):
        if not option.strip():
            raise row.error("is empty", f"options[{place}]")
    if made.task == "verification" and len(set(made.options)) < len(made.options):
        raise row.error("two labels are equal", "options")
    for label in made.gold:
        if label not in made.labels:
            raise row.error(f"{label!r} is not one of {', '.join(made.labels)}", "gold")
    if len(set(made.gold)) < len(made.gold):
        raise row.error("names a label twice", "gold")


class UniqueIds:
    """Refuses an id that comes twice."""

    def __init__(self, field: str) -> None:
        self._field, self._ids = field, set[str]()

    def add(self, identifier: str, row: Row) -> None:
        if identifier in self._ids:
            message = f"{identifier!r} occurs twice; each id stands for one row of all files together"
            raise BadInput(message, file=row.file, line=row.line, field=self._field)
        self._ids.add(identifier)


def unique_questions(located: Iterable[LocatedQuestion]) -> Iterator[QuestionRecord]:
    """The questions, none of whose ids may come twice."""
    return (made for made, _ in unique_pairs((row, made, None) for row, made in located))


def unique_pairs(
    located: Iterable[tuple[Row, QuestionRecord, TableOrNone]],
) -> Iterator[tuple[QuestionRecord, TableOrNone]]:
    """The questions with their tables, of which several may have one; no id of a question may come twice."""
    seen = UniqueIds("source_id")
    for row, made, table in located:
        seen.add(made.source_id, row)
        yield made, table


def require_items(items: Iterable[Item], otherwise: Callable[[], BadInput]) -> Iterator[Item]:
    """The items, of which there must be one: else what is said ``otherwise`` is raised."""
    item = None
    for item in items:
        yield item
    if item is None:
        raise otherwise()
