"""What every question and document must fulfil, whichever file it came from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from evidence_assets.benchmarks.reading import Row
from evidence_assets.benchmarks.records import TASKS, Question
from evidence_assets.lake.errors import BadInput

Item = TypeVar("Item")
Beside = TypeVar("Beside")
FEWEST_OPTIONS, MOST_OPTIONS = 2, 26
Located: TypeAlias = tuple[Row, Question]
"""A question with the row it was read from, so that a later check can name the place."""


def question(row: Row, **fields: Any) -> Located:
    """A :class:`Question` with the row it came from, once it fulfils what all questions must.

    It has a text; its task is known; it has no options or 2 to 26 non-blank ones; every gold label is one of its
    labels; aliases, where given, stand beside each gold answer. The labels of a claim are different; two options of a
    choice may read alike, as in some official questions, since their letters tell them apart.
    """
    made = Question(**fields)
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


def _check_options(row: Row, made: Question) -> None:
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
    """Notices an id that comes twice, in 8 bytes an id: 64-bit hashes in one sorted array, merged batch by batch.

    An id equal to an earlier one is reported at the latest when :meth:`finish` is called. Two different ids meet in
    one hash once in about 10⁶ corpora of the size of Wikipedia.
    """

    def __init__(self, field: str, batch: int = 1 << 14) -> None:
        self._field, self._batch = field, batch
        self._known: npt.NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        self._fresh: dict[int, tuple[str, Row]] = {}

    def add(self, identifier: str, row: Row) -> None:
        """Take note of ``identifier``, read from ``row``."""
        digest = hashlib.blake2b(identifier.encode(errors="surrogatepass"), digest_size=8).digest()
        number = int.from_bytes(digest, "little")
        if number in self._fresh:
            raise self._twice(identifier, row)
        self._fresh[number] = (identifier, row)
        if len(self._fresh) >= self._batch:
            self.finish()

    def finish(self) -> None:
        """Compare what has not been compared yet with all before it."""
        fresh = np.fromiter(self._fresh, dtype=np.uint64, count=len(self._fresh))
        if len(self._known):
            # in the order read, so that the first double is the one named
            places = np.minimum(np.searchsorted(self._known, fresh), len(self._known) - 1)
            for number in fresh[self._known[places] == fresh][:1]:
                raise self._twice(*self._fresh[int(number)])
        fresh.sort()
        self._known = np.insert(self._known, np.searchsorted(self._known, fresh), fresh)
        self._fresh = {}

    def _twice(self, identifier: str, row: Row) -> BadInput:
        return row.bad(f"{identifier!r} occurs twice; each id stands for one row of all files together", self._field)


def unique_questions(located: Iterable[Located]) -> Iterator[Question]:
    """The questions, none of whose ids may come twice."""
    return (made for made, _ in unique_pairs((row, made, None) for row, made in located))


def unique_pairs(located: Iterable[tuple[Row, Question, Beside]]) -> Iterator[tuple[Question, Beside]]:
    """The questions with their tables, of which several may have one; no id of a question may come twice."""
    seen = SeenIds("source_id")
    for row, made, table in located:
        seen.add(made.source_id, Row({}, row.file, row.line))
        yield made, table
    seen.finish()


def some(items: Iterable[Item], otherwise: Callable[[], BadInput]) -> Iterator[Item]:
    """The items, of which there must be one: else what is said ``otherwise`` is raised."""
    item = None
    for item in items:
        yield item
    if item is None:
        raise otherwise()
