"""The reader: from a claim or a question to one expression of the algebra, and to what the text says of its value.

What belongs here: one rule a kind of expression, the same for claims and questions, in the order in which they are
tried. A question presumes that the table can answer it, so that a column or a number may go without saying; a claim says
of the value what must hold. Whether it does, and which option it is, is seen in `claims` and `questions`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from evidence_assets.reasoning.tables.algebra import (
    Aggregate,
    Beyond,
    Difference,
    Expression,
    Extreme,
    Filter,
    Order,
    Outcome,
    Ratio,
    Same,
    Together,
    Trend,
)
from evidence_assets.reasoning.tables.cells import CellValue
from evidence_assets.reasoning.tables.lexicon import Degree, moves, pattern, says, squeezed
from evidence_assets.reasoning.tables.mentions import Mention, Reading
from evidence_assets.reasoning.tables.parts import (
    conditions_of,
    denied,
    direction_in,
    further_words,
    measured_column,
    names_something_else,
    rows_meant,
    trend_of,
)
from evidence_assets.reasoning.tables.quantities import number_at, states
from evidence_assets.reasoning.tables.text import unit_in

# So many further words may a claim hold whose column is only hinted at; with more it speaks of something else.
_FURTHER_WORDS = 2


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


def _measured(reading: Reading, degree: Degree | None) -> int | None:
    """The measured column of a claim, unless so much else is said that the column hinted at is hardly meant."""
    column = measured_column(reading, degree)
    if column is None or reading.presumes or any(c == column and mention.whole for c, mention in reading.columns):
        return column
    return column if len(further_words(reading)) <= _FURTHER_WORDS else None


def _number(outcome: Outcome) -> float:
    return outcome.number or 0.0


def _stated(number: CellValue | None, value: Callable[[Outcome], float] = _number) -> Callable[[Outcome], bool] | None:
    """Whether a number that a claim states is the value of its expression; None where it states none."""
    return None if number is None else lambda outcome: states(number, value(outcome))


def _first(reading: Reading, kind: Literal["comparative", "superlative"]) -> Degree | None:
    return next((degree for degree in reading.degrees if degree.kind == kind), None)


def _trend(reading: Reading) -> Asked | None:
    """A column moves one way while another does, or "the fewer are sold, the higher the price"."""
    columns, text = reading.numeric_columns, reading.text
    led = [d for d in reading.degrees if re.search(r"\bthe\s+$", text[: d.start], re.I) and d.kind == "comparative"]
    if reading.rows:
        return None
    if len(led) == len(columns) == 2:
        trend, said = Trend(columns[1][0], columns[0][0], led[0].direction), squeezed([led[1].direction])
    elif clause := trend_of(reading):
        trend, start, end = clause
        said = squeezed([sign for at, sign in moves(text) if not start <= at < end and not reading.masked(at)])
    elif len(columns) == 1 and says("trend", text):
        trend, said = Trend(columns[0][0]), squeezed([])
    else:
        return None
    if not said:
        return Asked(trend) if says("trend", text) or moves(text) else None
    if len(said) > 1 or said[0] not in (1, -1) or says("all", text):
        return Asked(trend, lambda outcome: outcome.pattern == said)
    return Asked(trend, lambda outcome: said[0] * (_number(outcome) - 0.5) > 0)


def _count(reading: Reading) -> Asked | None:
    """So many rows, all, none, most, half, or only the one named satisfy something."""
    text, view = reading.text, reading.view
    if reading.presumes:
        conditions = conditions_of(reading)
        if not says("count", text):
            return None
        if not conditions:
            above = _comparison(reading) if len(reading.rows) == 1 else None
            beyond = above.expression if above else None
            return Asked(replace(beyond, counted=True)) if isinstance(beyond, Beyond) else None
        return None if reading.rows else Asked(Filter(tuple(conditions)))
    alone = len(reading.rows) == 1 and not says("only", text) and _only(reading, reading.rows[0][1])
    if reading.rows and not alone:
        return None
    nouns = [m.start for m in reading.items] + [m.start() for m in pattern("rows").finditer(text)]
    share = pattern("most").search(text)
    number = None if share or alone else _counting_number(reading, nouns)
    conditions = [c for c in conditions_of(reading, number) if not share or not share.start() <= c.at < share.end()]
    named = [condition.column for condition in conditions if condition.number is None]
    if not conditions or len(set(named)) < len(named):
        return None  # no row has two names
    rows, expression = len(view.body), Filter(tuple(conditions))
    if alone:
        return Asked(expression, lambda outcome: [i for i, _ in outcome.rows] == [reading.rows[0][0]])
    if share is not None:
        return Asked(expression, lambda outcome: _number(outcome) > rows / 2)
    if number is not None and number.value == int(number.value):
        return Asked(expression, lambda outcome: _counts(number, _number(outcome)))
    every = says("all", text)
    which = [condition for condition in conditions if nouns and condition.at < min(nouns) and condition.number is None]
    if not nouns or len(conditions) == len(which) or not (every or says("none", text)):
        return None
    among = len(rows_meant(reading, which))
    return Asked(expression, lambda outcome: outcome.number == (among if every else 0))


def _counts(number: CellValue, rows: float) -> bool:
    if number.comparator in {">", "<"}:
        return rows > number.value if number.comparator == ">" else rows < number.value
    return states(number, rows)


def _only(reading: Reading, mention: Mention) -> bool:
    """Whether something is said only of the name at a place; "has only three" says how many."""
    text = reading.text
    led = re.search(r"\b(?:only|solely)(?: the)?\s*$", text[: mention.start], re.IGNORECASE)
    return bool(led or re.match(r"\s*alone\b", text[mention.end :], re.IGNORECASE) or says("only", text))


def _counting_number(reading: Reading, nouns: Sequence[int]) -> CellValue | None:
    """The number that says how many rows: before the word for the rows, or after "the number of"."""
    counted = re.compile(r"\s*(?:(?:out )?of (?:all )?(?:the|these|those|its|them)\s*)?(?:\w+\s+){0,2}?$")
    for number in reading.numbers:
        if any(number.end <= at and counted.fullmatch(reading.text[number.end : at]) for at in nouns):
            return number
    if says("count", reading.text) and reading.numbers:
        return reading.numbers[-1]
    # "Two bridges cross the Ebro": the noun behind the number is what the rows are, whatever the table calls them.
    noun = re.compile(r"\s+(?:of (?:the|these|them)\s+)?(?:\w+\s+)?[a-z]+s\b", re.IGNORECASE)
    plain = reading.conditions and not reading.numeric_columns
    return next((n for n in reading.numbers if plain and noun.match(reading.text, n.end)), None)


def _pair(reading: Reading) -> Asked | None:
    """Two rows differ by a number, or one is a multiple of the other."""
    view, text, rows = reading.view, reading.text, [row for row, _ in reading.rows]
    number = reading.numbers[0] if reading.numbers else None
    if len(rows) != 2 or len(reading.numbers) > 1 or says("neither", text):
        return None
    column = _measured(reading, reading.degrees[0] if reading.degrees else None)
    if column is None and number is not None:
        column = reading.column_of(number)
    if column is None:
        return None
    first, second = (rows[0], column), (rows[1], column)
    comparative = _first(reading, "comparative")
    percent = number is not None and number.kind == "percentage"
    if says("ratio", text) or (percent and comparative is None):
        scale = 100 if percent else 1
        return Asked(Ratio(first, second), _stated(number, lambda outcome: scale * _number(outcome)))
    more = comparative is not None and number is not None
    if not (more or says("difference", text) or (says("how_much_more", text) and reading.degrees)):
        return None
    a, b = number_at(view, first) or 0.0, number_at(view, second) or 0.0
    right = comparative is None or direction_in(view, comparative, column) * (a - b) > 0
    base = abs(b) / 100 if percent and b and unit_in(view.shape.labels[column]) != "%" else 1.0
    # A difference the wrong way round is none that any number states.
    return Asked(
        Difference(first, second), _stated(number, lambda outcome: _number(outcome) / base if right else math.inf)
    )


def _aggregate(reading: Reading) -> Asked | None:
    """Sum, mean or span over the rows that are named or satisfy what is said, over all where nothing is."""
    text, rows = reading.text, tuple(row for row, _ in reading.rows)
    ends = {degree.direction for degree in reading.degrees if degree.kind == "superlative"}
    span = ends == {1, -1} and (says("difference", text) or says("how_much_more", text))
    kind: Literal["sum", "mean", "span"] = "span" if span else "mean" if says("mean", text) else "sum"
    if not (span or ((kind == "mean" or says("sum", text)) and not says("ratio", text))) or len(rows) == 1:
        return None
    if not rows and not span and names_something_else(reading):
        return None
    column = None if span else _measured(reading, None)
    if column is None:
        column = _measured(reading, reading.degrees[0] if reading.degrees else None)
    wanted = reading.numbers[-1] if reading.numbers and not reading.presumes else None
    conditions = [condition for condition in conditions_of(reading, wanted) if condition.column != column or not span]
    rows = rows or rows_meant(reading, conditions if reading.presumes else reading.conditions)
    if column is None or len(rows) < 2:
        return None
    led = [d for d in reading.degrees if wanted and d.kind == "comparative" and d.end <= wanted.start]
    if wanted and led and not wanted.comparator:
        # "The average exceeds 200."
        wanted = replace(wanted, comparator=">" if direction_in(reading.view, led[-1], column) > 0 else "<")
    return Asked(Aggregate(kind, column, rows), _stated(wanted))


def _extreme(reading: Reading) -> Asked | None:
    """A row is the greatest or smallest: said so, or as "none is greater", or as "greater than any other"."""
    view, text = reading.view, reading.text
    degree = _first(reading, "superlative") if reading.presumes else next(iter(reading.degrees), None)
    column = _measured(reading, degree)
    if degree is None or column is None or not (reading.presumes or len(reading.rows) == 1):
        return None
    named = reading.rows
    if degree.kind == "comparative":
        # "None is smaller than A" and "A is smaller than any other" say the same of A.
        nothing = [m for m in pattern("none").finditer(text) if not reading.masked(m.start())]
        none_is = bool(nothing and named) and nothing[0].start() < degree.start < named[0][1].start
        if not none_is and not says("others", text):
            return None
    among = rows_meant(reading, [condition for condition in conditions_of(reading) if condition.column != column])
    rows = tuple(row for row, _ in named) if len(named) > 1 else among
    extreme = Extreme(column, rows, direction_in(view, degree, column), degree.rank)
    if len(named) != 1 or named[0][0] not in rows:
        return Asked(extreme)
    return Asked(extreme, lambda outcome: number_at(view, (named[0][0], column)) == outcome.number)


def _comparison(reading: Reading) -> Asked | None:
    """One row has more than others; which rows have more than one, than a number, or of those joined by "or" the most."""
    view, text, rows = reading.view, reading.text, reading.rows
    degree = _first(reading, "comparative")
    column = _measured(reading, degree)
    conditions = tuple(conditions_of(reading)) if reading.presumes and says("asks_for_rows", text) and not rows else ()
    if degree is None:
        return Asked(Filter(conditions)) if conditions and any(n.comparator for n in reading.numbers) else None
    if column is None:
        return None
    direction = direction_in(view, degree, column)
    than = pattern("than").search(text, degree.end)
    if not reading.presumes:
        pairs = tuple(((i, column), (j, column), direction) for i, j in _compared_rows(reading, degree, than))
        # "No deeper than B" says at most as deep.
        at_most = re.search(r"\bno(?:t any)?\s*$", text[: degree.start], re.IGNORECASE) and not denied(reading)
        return Asked(Order(pairs, 0.0), lambda outcome: outcome.number == (0.0 if at_most else 1.0)) if pairs else None
    after = [row for row, mention in rows if mention.start > degree.end] if than or degree.in_time else []
    if len(rows) == 1 and after:
        return Asked(Beyond(column, after[0], direction))
    if reading.numbers and conditions:
        return Asked(Filter(conditions))
    if than or (degree.verb and not rows) or len(rows) == 1:
        return None
    # "Which working dog is lighter?"
    among = tuple(row for row, _ in rows) or rows_meant(reading, reading.conditions)
    return Asked(Extreme(column, among, direction))


def _compared_rows(reading: Reading, degree: Degree, than: re.Match[str] | None) -> list[tuple[int, int]]:
    """Each row of which more is said with each that it is set against."""
    border = than.start() if than else degree.start
    left = [row for row, mention in reading.rows if mention.start < border]
    right = [row for row, mention in reading.rows if mention.start >= border]
    if not left or not right:
        # "Compared with B, A is deeper": the row in the clause of the comparative is the subject.
        clause = reading.text.rfind(",", 0, degree.start)
        left = [row for row, mention in reading.rows if clause < mention.start < degree.start]
        right = [row for row, mention in reading.rows if mention.start < clause]
    return [(i, j) for i in left for j in right]


def _same(reading: Reading) -> Asked | None:
    """Rows have the same cell in a named column."""
    rows = tuple(row for row, _ in reading.rows)
    if len(rows) < 2 or len(reading.columns) != 1 or reading.presumes or not says("same", reading.text):
        return None
    return Asked(Same(tuple((row, reading.columns[0][0]) for row in rows)), lambda outcome: outcome.number == 1.0)


def _together(reading: Reading) -> Asked | None:
    """One row holds all that the claim says, whether or not it names the row."""
    said = reading.said
    columns = [column for column, _ in said if column is not None]
    if len(said) < 2 or reading.presumes or reading.degrees or len(set(columns)) < len(columns):
        return None
    if says("only", reading.text):
        return None
    if not all(places for _, places in said) or (not reading.columns and len(further_words(reading)) > _FURTHER_WORDS):
        return None
    if reading.numbers and not {column for column, _ in reading.numeric_columns} <= set(columns):
        return None  # "the precision and the recall are above 60" says so of both
    wanted = 0.0 if says("neither", reading.text) else 1.0
    return Asked(Together(said), lambda outcome: outcome.number == wanted)


RULES: tuple[Callable[[Reading], Asked | None], ...] = (
    _trend, _count, _pair, _aggregate, _extreme, _comparison, _same, _together,
)  # fmt: skip
