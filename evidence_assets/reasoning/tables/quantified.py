"""Claims about how many rows satisfy something: so many, all, none, only one named, most, half.

What belongs here: checks whose outcome is a count of rows. Claims about named rows and their numbers are in `checks`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from evidence_assets.reasoning.tables import degrees as vocabulary
from evidence_assets.reasoning.tables import workings
from evidence_assets.reasoning.tables.degrees import Degree
from evidence_assets.reasoning.tables.mentions import Reading
from evidence_assets.reasoning.tables.operations import states
from evidence_assets.reasoning.tables.verdicts import conditions_of, verdict
from evidence_assets.reasoning.tables.workings import Outcome

VERSION = "1"

_COUNTED = re.compile(r"\s*(?:(?:out )?of (?:all )?(?:the|these|those|its|them)\s*)?(?:\w+\s+){0,2}?$")

_AT_NO_TIME = re.compile(r"\b(?:never|at no (?:time|point))\b", re.IGNORECASE)
_AT_ALL_TIMES = re.compile(r"\b(?:always|throughout|at all times|without exception)\b", re.IGNORECASE)
_NOUN_BEHIND = re.compile(r"\s+(?:of (?:the|these|them)\s+)?(?:\w+\s+)?[a-z]+s\b", re.IGNORECASE)


def only_row(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """A named row satisfies something, and no other does: "only Como lies in Italy"."""
    if len(reading.rows) != 1 or not vocabulary.only_of(reading.text, reading.rows[0][1].start, reading.rows[0][1].end):
        return None
    conditions = [*conditions_of(reading, words), *workings.yes_conditions(reading)]
    if not conditions:
        return None
    outcome = workings.count(reading.view, conditions)
    return verdict(outcome, [row for row, _ in outcome.rows] == [reading.rows[0][0]], reading)


def part_of_rows(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """Most, half or a minority of the rows satisfy something."""
    part = next(
        ((match, sign, share) for said, sign, share in vocabulary.PARTS if (match := said.search(reading.text))), None
    )
    if part is None or reading.rows:
        return None
    match, sign, share = part
    words = tuple(word for word in words if not match.start() <= word.start < match.end())
    conditions = [*conditions_of(reading, words), *workings.yes_conditions(reading)]
    if not conditions:
        return None
    outcome = workings.count(reading.view, conditions)
    found, wanted = outcome.number or 0.0, share * len(reading.view.body)
    holds = found > wanted if sign == ">" else found < wanted if sign == "<" else abs(found - wanted) < 1e-9
    return verdict(outcome, holds, reading)


def always(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """A column never, or always, lies above or below a number."""
    never, ever = _AT_NO_TIME.search(reading.text), _AT_ALL_TIMES.search(reading.text)
    if reading.rows or not (never or ever):
        return None
    found = [workings.numeric_condition(reading, number, words) for number in reading.numbers]
    bounds = [bound for bound in found if bound is not None and bound.number is not None and bound.number.comparator]
    if len(bounds) != 1 or len(found) != 1:
        return None
    outcome = workings.count(reading.view, bounds)
    filled = [i for i in reading.view.body if reading.view.cell((i, bounds[0].column)).plain]
    return replace(outcome, holds=outcome.number == (0 if never else len(filled)))


def counted(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """So many rows satisfy something: a number before the word for the rows, or after "the number of"."""
    if reading.rows:
        return None
    nouns = [match.start() for match in vocabulary.ROWS.finditer(reading.text)] + [m.start for m in reading.items]
    number = next(
        (n for n in reading.numbers for at in nouns if n.end <= at and _COUNTED.fullmatch(reading.text[n.end : at])),
        None,
    )
    if number is None and vocabulary.COUNT.search(reading.text) and reading.numbers:
        number = reading.numbers[-1]
    if number is None and reading.conditions and not reading.numeric_columns:
        # "Two bridges cross the Ebro": the noun behind the number is what the rows are, whatever the table calls them.
        number = next((n for n in reading.numbers if _NOUN_BEHIND.match(reading.text, n.end)), None)
    if number is None or number.value != int(number.value):
        return None
    conditions = conditions_of(reading, words, number)
    if not conditions:
        return None
    outcome = workings.count(reading.view, conditions)
    found = outcome.number or 0.0
    if number.comparator in {">", "<"}:
        holds = found > number.value if number.comparator == ">" else found < number.value
    else:
        holds = states(number, found)
    return verdict(outcome, holds, reading)


def every_row(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """All rows, or none, satisfy something; what stands before the word for the rows says which rows are meant."""
    every, none = vocabulary.ALL.search(reading.text), vocabulary.NONE.search(reading.text)
    if reading.rows or not (every or none) or not (reading.items or vocabulary.ROWS.search(reading.text)):
        return None
    conditions = [*conditions_of(reading, words), *workings.yes_conditions(reading)]
    nouns = [m.start for m in reading.items] + [m.start() for m in vocabulary.ROWS.finditer(reading.text)]
    which = [condition for condition in conditions if condition.at < min(nouns) and condition.number is None]
    if len(conditions) == len(which):
        return None
    among = len(workings.count(reading.view, which).rows) if which else len(reading.view.body)
    outcome = workings.count(reading.view, conditions)
    return verdict(outcome, outcome.number == (among if every else 0), reading)
