"""What every question and document must fulfil, whichever file it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

from evidence_assets.benchmarks.line_streams import Row
from evidence_assets.benchmarks.records import TASKS, QuestionRecord
from evidence_assets.lake.errors import BadInput

Item = TypeVar("Item")
Beside = TypeVar("Beside")
FEWEST_OPTIONS, MOST_OPTIONS = 2, 26
Located: TypeAlias = tuple[Row, QuestionRecord]
"""A question with the row it was read from, so that a later check can name the place."""


def question(row: Row, **fields: Any) -> Located:
    """A :class:`Question` with the row it came from, once it fulfils what all questions must.

    Two options of a choice may read alike, as in some official questions: their letters tell them apart.
    """
    made = QuestionRecord(**fields)
    if made.task not in TASKS:
        raise row.bad(f"{made.task!r} is not one of {', '.join(TASKS)}", "task")
    for field in ("source_id", "text"):
        if not getattr(made, field).strip():
            raise row.bad("is empty", field)
    if made.options or made.task in ("mcqa", "verification"):
        _check_options(row, made)
    elif len(set(made.gold)) < len(made.gold):
        raise row.bad("names an answer twice", "gold")
    if made.aliases and len(made.aliases) != len(made.gold):
        raise row.bad(f"{len(made.aliases)} lists of aliases for {len(made.gold)} answers", "aliases")
    return row, made


def _check_options(row: Row, made: QuestionRecord) -> None:
    if len(made.options) < FEWEST_OPTIONS:
        raise row.bad(f"{len(made.options) or 'no'} option(s); a choice needs at least {FEWEST_OPTIONS}", "options")
    if len(made.options) > MOST_OPTIONS:
        raise row.bad(f"{len(made.options)} options; at most {MOST_OPTIONS} can be lettered", "options")
    for place, option in enumerate(made.options):
        if not option.strip():
            raise row.bad("is empty", f"options[{place}]")
    if made.task == "verification" and len(set(made.options)) < len(made.options):
        raise row.bad("two labels are equal", "options")
    for label in made.gold:
        if label not in made.labels:
            raise row.bad(f"{label!r} is not one of {', '.join(made.labels)}", "gold")
    if len(set(made.gold)) < len(made.gold):
        raise row.bad("names a label twice", "gold")


class SeenIds:
    """Refuses an id that comes twice."""

    def __init__(self, field: str) -> None:
        self._field, self._ids = field, set[str]()

    def add(self, identifier: str, row: Row) -> None:
        if identifier in self._ids:
            message = f"{identifier!r} occurs twice; each id stands for one row of all files together"
            raise BadInput(message, file=row.file, line=row.line, field=self._field)
        self._ids.add(identifier)


def unique_questions(located: Iterable[Located]) -> Iterator[QuestionRecord]:
    """The questions, none of whose ids may come twice."""
    return (made for made, _ in unique_pairs((row, made, None) for row, made in located))


def unique_pairs(located: Iterable[tuple[Row, QuestionRecord, Beside]]) -> Iterator[tuple[QuestionRecord, Beside]]:
    """The questions with their tables, of which several may have one; no id of a question may come twice."""
    seen = SeenIds("source_id")
    for row, made, table in located:
        seen.add(made.source_id, row)
        yield made, table


def some(items: Iterable[Item], otherwise: Callable[[], BadInput]) -> Iterator[Item]:
    """The items, of which there must be one: else what is said ``otherwise`` is raised."""
    item = None
    for item in items:
        yield item
    if item is None:
        raise otherwise()
