"""The reader: from a claim or a question to one expression of the algebra, and to what the text says of its value.

One rule a kind of expression, the same for claims and questions, in the order in which they are tried. A question presumes
that the table can answer it, so that a column or a number may go without saying; a claim says of the value what must hold.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from evidence_assets.reasoning.tables.algebra import (
    Aggregate,
    Condition,
    Expression,
    Extreme,
    Filter,
    Order,
    Outcome,
    Pair,
    Same,
    Together,
    Trend,
)
from evidence_assets.reasoning.tables.cells import CellValue
from evidence_assets.reasoning.tables.lexicon import Degree, moves, pattern, says, squeezed
from evidence_assets.reasoning.tables.reading import Reading
from evidence_assets.reasoning.tables.text import content_stems


@dataclass(frozen=True)
class Asked:
    """What a text is read into: an expression, and what a claim says of its value."""

    expression: Expression
    holds: Callable[[Outcome], bool] | None = None


def readings_of(reading: Reading) -> Iterator[Asked]:
    """The expressions that a text can be read into, the likeliest first; of a claim those of which it says something."""
    for rule in RULES:
        asked = rule(reading)
        if asked is not None and (reading.presumes or asked.holds is not None):
            yield asked


def _number(outcome: Outcome) -> float:
    return outcome.number or 0.0


def _stated(number: CellValue | None, value: Callable[[Outcome], float] = _number) -> Callable[[Outcome], bool] | None:
    """Whether a number that a claim states is the value of its expression; None where it states none."""
    return None if number is None else lambda outcome: number.states(value(outcome))


def _first(reading: Reading, kind: Literal["comparative", "superlative"]) -> Degree | None:
    return next((degree for degree in reading.degrees if degree.kind == kind), None)


def _trend(reading: Reading) -> Asked | None:
    """A column moves in some way while another rises, or along rows that are sorted by it."""
    measures = reading.measures
    cue = pattern("ordered").search(reading.text)
    led = [(mention.start, column) for column, mention in measures.items() if cue and mention.start >= cue.end()]
    if cue is None or not led or len(measures) < 2:
        return None
    start, order = min(led)
    end = min((mention.start for mention in measures.values() if mention.start > start), default=len(reading.text))
    trend = Trend(next(column for column in measures if column != order), order)
    said = squeezed([sign for at, sign in moves(reading.text) if not cue.start() <= at < end])
    return Asked(trend, (lambda outcome: outcome.pattern == said) if said else None)


def _count(reading: Reading) -> Asked | None:
    """How many rows satisfy something."""
    if reading.rows:
        return None
    number = None if reading.presumes else _counting_number(reading)
    conditions = reading.demands(number)
    if not conditions or (number is None and not (reading.presumes and says("count", reading.text))):
        return None
    return Asked(Filter(tuple(conditions)), None if number is None else lambda outcome: number.states(_number(outcome)))


def _counting_number(reading: Reading) -> CellValue | None:
    """The number that says how many rows: before the word for the rows, or for what they are rows of."""
    nouns = [m.start for m in reading.items] + [m.start() for m in pattern("rows").finditer(reading.text)]
    counted = re.compile(r"\s*(?:(?:out )?of (?:all )?(?:the|these|those|its|them)\s*)?(?:\w+\s+){0,2}?$")
    for number in reading.numbers:
        if any(number.end <= at and counted.fullmatch(reading.text[number.end : at]) for at in nouns):
            return number
    # "Two bridges cross the Ebro": the noun behind the number is what the rows are, whatever the table calls them.
    noun = re.compile(r"\s+(?:of (?:the|these|them)\s+)?(?:\w+\s+)?[a-z]+s\b", re.IGNORECASE)
    return next((n for n in reading.numbers if not reading.measures and noun.match(reading.text, n.end)), None)


def _pair(reading: Reading) -> Asked | None:
    """Two rows differ by a number, or one is a multiple of the other."""
    view, text = reading.view, reading.text
    if len(reading.rows) != 2 or len(reading.numbers) > 1:
        return None
    number = reading.numbers[0] if reading.numbers else None
    column = reading.measured(next(iter(reading.degrees), None))
    if column is None:
        return None
    first, second = ((row, column) for row in reading.rows)
    percent = number is not None and number.kind == "percentage"
    if says("ratio", text):
        scale = 100 if percent else 1
        return Asked(Pair("ratio", first, second), _stated(number, lambda outcome: scale * _number(outcome)))
    comparative = _first(reading, "comparative")
    if not (says("difference", text) or (comparative and (number or says("how_much_more", text)))):
        return None
    a, b = view.number(first) or 0.0, view.number(second) or 0.0
    right = comparative is None or reading.direction(comparative, column) * (a - b) > 0
    base = abs(b) / 100 if percent and b else 1.0
    # A difference the wrong way round is none that any number states.
    stated = _stated(number, lambda outcome: _number(outcome) / base if right else math.inf)
    return Asked(Pair("difference", first, second), stated)


def _aggregate(reading: Reading) -> Asked | None:
    """Sum or mean over the rows that are named or satisfy what is said, over all where nothing is."""
    kinds: tuple[Literal["mean", "sum"], ...] = ("mean", "sum")
    kind = next((kind for kind in kinds if says(kind, reading.text)), None)
    rows = tuple(reading.rows) or reading.rows_meant(reading.conditions)
    column = reading.measured(next(iter(reading.degrees), None))
    if kind is None or column is None or len(rows) < 2 or says("ratio", reading.text):
        return None
    # "Weighs on average": where the cells themselves speak of a mean, the word calls for nothing.
    said = (word for match in pattern(kind).finditer(reading.text) for word in content_stems(match.group()))
    if any(word in reading.view.row_frequency for word in said):
        return None
    return Asked(Aggregate(kind, column, rows), _stated(reading.numbers[-1] if reading.numbers else None))


def _extreme(reading: Reading) -> Asked | None:
    """A row is the greatest or smallest; of one row a claim says so in words of any degree: "none is greater"."""
    view, named = reading.view, tuple(reading.rows)
    degree = next(iter(reading.degrees), None)
    column = reading.measured(degree)
    if degree is None or column is None:
        return None
    if reading.presumes and degree.kind == "comparative" and len(named) < 2:
        return None
    among = named if len(named) > 1 else reading.rows_meant(reading.demands())
    extreme = Extreme(column, among, reading.direction(degree, column))
    if len(named) != 1:
        return Asked(extreme)
    return Asked(extreme, lambda outcome: view.number((named[0], column)) == outcome.number)


def _comparison(reading: Reading) -> Asked | None:
    """One row has more than others; which rows have more than one."""
    view, rows = reading.view, reading.rows
    degree = _first(reading, "comparative")
    column = reading.measured(degree)
    if degree is None or column is None:
        return None
    direction = reading.direction(degree, column)
    than = pattern("than").search(reading.text, degree.end)
    if reading.presumes:
        (row,) = rows if len(rows) == 1 else (None,)
        limit = None if row is None or than is None else view.number((row, column))
        if row is None or limit is None:
            return None
        bound = CellValue("number", limit, f"{limit:g}", 0, 0, comparator=">" if direction > 0 else "<")
        return Asked(Filter((Condition(column, number=bound),), ((row, column),)))
    border = than.start() if than else degree.start
    left = [row for row, mention in rows.items() if mention.start < border]
    right = [row for row, mention in rows.items() if mention.start >= border]
    pairs = tuple(((i, column), (j, column), direction) for i in left for j in right)
    # "No deeper than B" says at most as deep.
    at_most = re.search(r"\bno(?:t any)?\s*$", reading.text[: degree.start], re.IGNORECASE) and not reading.denied
    return Asked(Order(pairs, 0.0), lambda outcome: outcome.number == (0.0 if at_most else 1.0)) if pairs else None


def _same(reading: Reading) -> Asked | None:
    """Rows have the same cell in a named column."""
    if len(reading.rows) < 2 or len(reading.columns) != 1 or not says("same", reading.text):
        return None
    cells = tuple((row, column) for row in reading.rows for column in reading.columns)
    return Asked(Same(cells), lambda outcome: outcome.number == 1.0)


def _together(reading: Reading) -> Asked | None:
    """One row holds all that the claim says, whether or not it names the row."""
    said = reading.said
    columns = [column for column, _ in said if column is not None]
    if len(said) < 2 or reading.presumes or reading.degrees or len(set(columns)) < len(columns):
        return None
    if not all(places for _, places in said):
        return None
    return Asked(Together(said), lambda outcome: outcome.number == 1.0)


RULES: tuple[Callable[[Reading], Asked | None], ...] = (
    _trend, _count, _pair, _aggregate, _extreme, _comparison, _same, _together,
)  # fmt: skip
