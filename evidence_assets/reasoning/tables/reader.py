"""The reader: from a claim or a question to one expression of the algebra, and to what the text says of its value.

One rule a kind of expression, the same for claims and questions, in the order in which they are tried. A question presumes
that the table can answer it, so that a column or a number may go without saying; a claim says of the value what must hold.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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
from evidence_assets.reasoning.tables.reading import FURTHER_WORDS, Reading
from evidence_assets.reasoning.tables.text import unit_in


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


def _ordering(reading: Reading) -> tuple[int, int, int] | None:
    """The column along which another is said to move, and where the text says so: after "as", "sorted by" …"""
    cue = pattern("ordered").search(reading.text)
    inside = [(m.start, c) for c, m in reading.measures.items() if cue and m.start >= cue.end()]
    if cue is None or not inside:
        return None
    start, order = min(inside)
    stops = [m.start for m in reading.measures.values() if m.start > start]
    return (
        order,
        cue.start(),
        min([*stops, *(m.start() for m in re.finditer(",", reading.text) if m.start() > start), len(reading.text)]),
    )


def _trend(reading: Reading) -> Asked | None:
    """A column moves one way while another does, or "the fewer are sold, the higher the price"."""
    text, columns = reading.text, list(reading.measures)
    led = [d for d in reading.degrees if re.search(r"\bthe\s+$", text[: d.start], re.I) and d.kind == "comparative"]
    moving = [(at, sign) for at, sign in moves(text) if not reading.masked(at)]
    if reading.rows:
        return None
    if len(led) == len(columns) == 2:
        trend, said = Trend(columns[1], columns[0], led[0].direction), squeezed([led[1].direction])
    elif len(columns) > 1 and (clause := _ordering(reading)):
        order, start, end = clause
        falling = [sign for at, sign in moving if start <= at < end][:1] == [-1] or "descending" in text[start:end]
        trend = Trend(next(c for c in columns if c != order), order, -1 if falling else 1)
        said = squeezed([sign for at, sign in moving if not start <= at < end])
    elif len(columns) == 1 and says("trend", text):
        return Asked(Trend(columns[0]))
    else:
        return None
    if not said:
        return Asked(trend) if says("trend", text) or moves(text) else None
    if len(said) > 1 or said[0] not in (1, -1) or says("all", text):
        return Asked(trend, lambda outcome: outcome.pattern == said)
    return Asked(trend, lambda outcome: said[0] * (_number(outcome) - 0.5) > 0)


def _how_many(reading: Reading) -> Asked | None:
    """A question for the number of rows that satisfy something, or that have more than the one named."""
    if not reading.presumes or not says("count", reading.text):
        return None
    conditions = reading.demands()
    if conditions:
        return None if reading.rows else Asked(Filter(tuple(conditions)))
    above = _comparison(reading) if len(reading.rows) == 1 else None
    return above if above and isinstance(above.expression, Filter) else None


def _count(reading: Reading) -> Asked | None:
    """So many rows, all, none, most, or only the one named satisfy something."""
    text, view = reading.text, reading.view
    alone = len(reading.rows) == 1 and says("only", text)
    if reading.presumes or (reading.rows and not alone):
        return None
    nouns = [m.start for m in reading.items] + [m.start() for m in pattern("rows").finditer(text)]
    share = pattern("most").search(text)
    number = None if share or alone else _counting_number(reading, nouns)
    conditions = [c for c in reading.demands(number) if not share or not share.start() <= c.at < share.end()]
    named = [condition.column for condition in conditions if condition.number is None]
    if not conditions or len(set(named)) < len(named):
        return None  # no row has two names
    rows, expression = len(view.body), Filter(tuple(conditions))
    if alone:
        return Asked(expression, lambda outcome: [i for i, _ in outcome.rows] == list(reading.rows))
    if share is not None:
        return Asked(expression, lambda outcome: _number(outcome) > rows / 2)
    if number is not None and number.value == int(number.value):
        return Asked(expression, lambda outcome: number.is_met(_number(outcome)))
    every = says("all", text)
    which = [condition for condition in conditions if nouns and condition.at < min(nouns) and condition.number is None]
    if not nouns or len(conditions) == len(which) or not (every or says("none", text)):
        return None
    among = len(reading.rows_meant(which))
    return Asked(expression, lambda outcome: outcome.number == (among if every else 0))


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
    plain = reading.conditions and not reading.measures
    return next((n for n in reading.numbers if plain and noun.match(reading.text, n.end)), None)


def _pair(reading: Reading) -> Asked | None:
    """Two rows differ by a number, or one is a multiple of the other."""
    view, text = reading.view, reading.text
    if len(reading.rows) != 2 or len(reading.numbers) > 1 or says("neither", text):
        return None
    number = reading.numbers[0] if reading.numbers else None
    column = reading.measured(reading.degrees[0] if reading.degrees else None)
    if column is None and number is not None:
        column = reading.column_of(number)
    if column is None:
        return None
    first, second = ((row, column) for row in reading.rows)
    comparative = _first(reading, "comparative")
    percent = number is not None and number.kind == "percentage"
    if says("ratio", text) or (percent and comparative is None):
        scale = 100 if percent else 1
        return Asked(Pair("ratio", first, second), _stated(number, lambda outcome: scale * _number(outcome)))
    more = comparative is not None and number is not None
    if not (more or says("difference", text) or (says("how_much_more", text) and reading.degrees)):
        return None
    a, b = view.number(first) or 0.0, view.number(second) or 0.0
    right = comparative is None or reading.direction(comparative, column) * (a - b) > 0
    base = abs(b) / 100 if percent and b and unit_in(view.shape.labels[column]) != "%" else 1.0
    # A difference the wrong way round is none that any number states.
    stated = _stated(number, lambda outcome: _number(outcome) / base if right else math.inf)
    return Asked(Pair("difference", first, second), stated)


def _aggregate(reading: Reading) -> Asked | None:
    """Sum, mean or span over the rows that are named or satisfy what is said, over all where nothing is."""
    text, rows = reading.text, tuple(reading.rows)
    ends = {degree.direction for degree in reading.degrees if degree.kind == "superlative"}
    span = ends == {1, -1} and (says("difference", text) or says("how_much_more", text))
    kind: Literal["sum", "mean", "span"] = "span" if span else "mean" if says("mean", text) else "sum"
    if not (span or ((kind == "mean" or says("sum", text)) and not says("ratio", text))) or len(rows) == 1:
        return None
    if not span and _is_spoken_of(reading, kind):
        return None
    column = None if span else reading.measured(None)
    if column is None:
        column = reading.measured(reading.degrees[0] if reading.degrees else None)
    wanted = reading.numbers[-1] if reading.numbers and not reading.presumes else None
    conditions = [condition for condition in reading.demands(wanted) if condition.column != column or not span]
    rows = rows or reading.rows_meant(conditions if reading.presumes else reading.conditions)
    if column is None or len(rows) < 2:
        return None
    led = [d for d in reading.degrees if wanted and d.kind == "comparative" and d.end <= wanted.start]
    if wanted and led and not wanted.comparator:
        # "The average exceeds 200."
        wanted = replace(wanted, comparator=">" if reading.direction(led[-1], column) > 0 else "<")
    return Asked(Aggregate(kind, column, rows), _stated(wanted))


def _is_spoken_of(reading: Reading, kind: str) -> bool:
    """Whether the table's own cells speak of a mean or a sum, so that the word calls for nothing: "weighs on average"."""
    found = pattern(kind).finditer(reading.text)
    return any(
        word.stem in reading.view.row_frequency for m in found for word in reading.words if word.start == m.start()
    )


def _extreme(reading: Reading) -> Asked | None:
    """A row is the greatest or smallest: said so, or as "none is greater", or as "greater than any other"."""
    view, text, named = reading.view, reading.text, reading.rows
    degree = _first(reading, "superlative") if reading.presumes else next(iter(reading.degrees), None)
    column = reading.measured(degree)
    if degree is None or column is None or not (reading.presumes or len(named) == 1):
        return None
    first = next(iter(named.items()), None)
    if degree.kind == "comparative":
        # "None is smaller than A" and "A is smaller than any other" say the same of A.
        nothing = [m for m in pattern("none").finditer(text) if not reading.masked(m.start())]
        none_is = bool(nothing and first) and nothing[0].start() < degree.start < first[1].start  # type: ignore[index]
        if not none_is and not says("others", text):
            return None
    among = reading.rows_meant([condition for condition in reading.demands() if condition.column != column])
    extreme = Extreme(column, tuple(named) if len(named) > 1 else among, reading.direction(degree, column), degree.rank)
    if first is None or len(named) > 1 or first[0] not in among:
        return Asked(extreme)
    return Asked(extreme, lambda outcome: view.number((first[0], column)) == outcome.number)


def _comparison(reading: Reading) -> Asked | None:
    """One row has more than others; which rows have more than one, than a number, or of those joined by "or" the most."""
    view, text, rows = reading.view, reading.text, reading.rows
    degree = _first(reading, "comparative")
    column = reading.measured(degree)
    conditions = tuple(reading.demands()) if reading.presumes and says("asks_for_rows", text) and not rows else ()
    if degree is None:
        return Asked(Filter(conditions)) if conditions and any(n.comparator for n in reading.numbers) else None
    if column is None:
        return None
    direction = reading.direction(degree, column)
    than = pattern("than").search(text, degree.end)
    if not reading.presumes:
        pairs = tuple(((i, column), (j, column), direction) for i, j in _compared_rows(reading, degree, than))
        # "No deeper than B" says at most as deep.
        at_most = re.search(r"\bno(?:t any)?\s*$", text[: degree.start], re.IGNORECASE) and not reading.denied
        return Asked(Order(pairs, 0.0), lambda outcome: outcome.number == (0.0 if at_most else 1.0)) if pairs else None
    after = [row for row, mention in rows.items() if mention.start > degree.end and (than or degree.in_time)]
    limit = view.number((after[0], column)) if len(rows) == 1 and after else None
    if limit is not None:
        bound = CellValue("number", limit, f"{limit:g}", 0, 0, comparator=">" if direction > 0 else "<")
        return Asked(Filter((Condition(column, number=bound),), ((after[0], column),)))
    if reading.numbers and conditions:
        return Asked(Filter(conditions))
    if than or (degree.verb and not rows) or len(rows) == 1:
        return None
    # "Which working dog is lighter?"
    return Asked(Extreme(column, tuple(rows) or reading.rows_meant(reading.conditions), direction))


def _compared_rows(reading: Reading, degree: Degree, than: re.Match[str] | None) -> list[tuple[int, int]]:
    """Each row of which more is said with each that it is set against."""
    border = than.start() if than else degree.start
    left = [row for row, mention in reading.rows.items() if mention.start < border]
    right = [row for row, mention in reading.rows.items() if mention.start >= border]
    if not left or not right:
        # "Compared with B, A is deeper": the row in the clause of the comparative is the subject.
        clause = reading.text.rfind(",", 0, degree.start)
        left = [row for row, mention in reading.rows.items() if clause < mention.start < degree.start]
        right = [row for row, mention in reading.rows.items() if mention.start < clause]
    return [(i, j) for i in left for j in right]


def _same(reading: Reading) -> Asked | None:
    """Rows have the same cell in a named column."""
    if len(reading.rows) < 2 or len(reading.columns) != 1 or reading.presumes or not says("same", reading.text):
        return None
    cells = tuple((row, column) for row in reading.rows for column in reading.columns)
    return Asked(Same(cells), lambda outcome: outcome.number == 1.0)


def _together(reading: Reading) -> Asked | None:
    """One row holds all that the claim says, whether or not it names the row."""
    said = reading.said
    columns = [column for column, _ in said if column is not None]
    if len(said) < 2 or reading.presumes or reading.degrees or len(set(columns)) < len(columns):
        return None
    if says("only", reading.text) or not all(places for _, places in said):
        return None
    if not reading.columns and len(reading.further_words) > FURTHER_WORDS:
        return None
    if reading.numbers and not set(reading.measures) <= set(columns):
        return None  # "the precision and the recall are above 60" says so of both
    wanted = 0.0 if says("neither", reading.text) else 1.0
    return Asked(Together(said), lambda outcome: outcome.number == wanted)


RULES: tuple[Callable[[Reading], Asked | None], ...] = (
    _trend,
    _how_many,
    _count,
    _pair,
    _aggregate,
    _extreme,
    _comparison,
    _same,
    _together,
)
