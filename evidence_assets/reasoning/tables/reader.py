"""The reader: from a claim or a question to one operation of the algebra, and whether a claim says its value.

One rule a kind of operation, the same for claims and questions, in the order in which they are tried. A question
presumes that the table can answer it, so that a column or a number may be left unsaid; a claim says of the value what
must hold.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from evidence_assets.reasoning.tables import algebra
from evidence_assets.reasoning.tables.algebra import Condition, Outcome, rows_with
from evidence_assets.reasoning.tables.cells import CellValue
from evidence_assets.reasoning.tables.lexicon import Degree, Kind, moves, pattern, says, squeezed
from evidence_assets.reasoning.tables.reading import FURTHER_WORDS, Reading
from evidence_assets.reasoning.tables.text import unit_in


class WorkedOut(NamedTuple):
    """What a text is read into, worked out; of a claim whether it says so, None where it says nothing of the value."""

    outcome: Outcome | None
    holds: bool | None = None


def work_out(reading: Reading) -> WorkedOut | None:
    """The first rule that gives a value, of a claim one of which it says something."""
    for rule in RULES:
        found = rule(reading)
        if found is not None and found.outcome is not None and (reading.presumes or found.holds is not None):
            return found
    return None


def _stated(number: CellValue | None, value: float) -> bool | None:
    """Whether a number that a claim states is a value; None where it states none."""
    return None if number is None else number.states(value)


def _first(reading: Reading, kind: Kind) -> Degree | None:
    return next((degree for degree in reading.degrees if degree.kind == kind), None)


def _trend(reading: Reading) -> WorkedOut | None:
    """A column moves one way while another does, or "the fewer are sold, the higher the price"."""
    text, columns, view = reading.text, list(reading.measures), reading.view
    led = [d for d in reading.degrees if re.search(r"\bthe\s+$", text[: d.start], re.I) and d.kind == "comparative"]
    moving = [(at, sign) for at, sign in moves(text) if not reading.masked(at)]
    if reading.rows:
        return None
    if len(led) == len(columns) == 2:
        outcome, said = algebra.trend(view, columns[1], columns[0], led[0].direction), squeezed([led[1].direction])
    elif len(columns) > 1 and (clause := _ordering(reading)):
        order, start, end = clause
        falling = [sign for at, sign in moving if start <= at < end][:1] == [-1] or "descending" in text[start:end]
        column = next(c for c in columns if c != order)
        outcome = algebra.trend(view, column, order, -1 if falling else 1)
        said = squeezed(sign for at, sign in moving if not start <= at < end)
    elif len(columns) == 1 and says("trend", text):
        return WorkedOut(algebra.trend(view, columns[0]))
    else:
        return None
    if outcome is None or not said:
        return WorkedOut(outcome) if says("trend", text) or moving else None
    if len(said) > 1 or said[0] not in (1, -1) or says("all", text):
        return WorkedOut(outcome, outcome.pattern == said)
    return WorkedOut(outcome, said[0] * ((outcome.number or 0.0) - 0.5) > 0)


def _ordering(reading: Reading) -> tuple[int, int, int] | None:
    """The column along which another is said to move, and where the text says so: after "as", "sorted by" …"""
    cue = pattern("ordered").search(reading.text)
    named = sorted((m.start, c) for c, m in reading.measures.items() if cue and m.start >= cue.end())
    if cue is None or not named:
        return None
    start, order = named[0]
    comma = reading.text.find(",", start)
    ends = [at for at, _ in named[1:]] + [comma if comma >= 0 else len(reading.text)]
    return order, cue.start(), min(ends)


def _count(reading: Reading) -> WorkedOut | None:
    """How many rows satisfy something, or of a claim: so many, all, none, most, or only the one named do."""
    text, view = reading.text, reading.view
    alone = len(reading.rows) == 1 and says("only", text)
    if reading.presumes:
        if not says("count", text):
            return None
        conditions = reading.demands()
        if conditions:
            return None if reading.rows else WorkedOut(algebra.count(view, conditions))
        above = _comparison(reading) if len(reading.rows) == 1 else None
        return above if above and above.outcome and above.outcome.operation == "count" else None
    if reading.rows and not alone:
        return None
    nouns = [m.start for m in reading.items] + [m.start() for m in pattern("rows").finditer(text)]
    share = pattern("most").search(text)
    number = None if share or alone else _counting_number(reading, nouns)
    conditions = [c for c in reading.demands(number) if not share or not share.start() <= c.at < share.end()]
    named = [condition.column for condition in conditions if condition.number is None]
    if not conditions or len(set(named)) < len(named):
        return None  # no row has two names
    outcome = algebra.count(view, conditions)
    rows = len(outcome.rows)
    if alone:
        return WorkedOut(outcome, [i for i, _ in outcome.rows] == list(reading.rows))
    if share is not None:
        return WorkedOut(outcome, rows > len(view.body) / 2)
    if number is not None and number.value == int(number.value):
        return WorkedOut(outcome, number.is_met(rows))
    which = [condition for condition in conditions if nouns and condition.at < min(nouns) and condition.number is None]
    if not nouns or len(conditions) == len(which) or not (says("all", text) or says("none", text)):
        return None
    return WorkedOut(outcome, rows == (len(rows_with(view, which)) if says("all", text) else 0))


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


def _pair(reading: Reading) -> WorkedOut | None:
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
        outcome = algebra.pair(view, "ratio", first, second)
        value = (outcome.number or 0.0) if outcome else 0.0
        return WorkedOut(outcome, _stated(number, (100 if percent else 1) * value))
    more = comparative is not None and number is not None
    if not (more or says("difference", text) or (says("how_much_more", text) and reading.degrees)):
        return None
    outcome = algebra.pair(view, "difference", first, second)
    a, b = view.number(first) or 0.0, view.number(second) or 0.0
    right = comparative is None or reading.direction(comparative, column) * (a - b) > 0
    base = abs(b) / 100 if percent and b and unit_in(view.shape.labels[column]) != "%" else 1.0
    # A difference the wrong way round is none that any number states.
    return WorkedOut(outcome, _stated(number, abs(a - b) / base if right else math.inf))


def _extreme(reading: Reading) -> WorkedOut | None:
    """A row is the greatest or smallest: said so, or as "none is greater", or as "greater than any other"."""
    view, text, named = reading.view, reading.text, list(reading.rows)
    degree = _first(reading, "superlative") if reading.presumes else next(iter(reading.degrees), None)
    column = reading.measured(degree)
    if degree is None or column is None or not (reading.presumes or len(named) == 1):
        return None
    if degree.kind == "comparative":
        # "None is smaller than A" and "A is smaller than any other" say the same of A.
        nothing = next((m.start() for m in pattern("none").finditer(text) if not reading.masked(m.start())), len(text))
        none_is = bool(named) and nothing < degree.start < reading.rows[named[0]].start
        if not none_is and not says("others", text):
            return None
    among = rows_with(view, [condition for condition in reading.demands() if condition.column != column])
    rows = named if len(named) > 1 else among
    outcome = algebra.extreme(view, column, rows, reading.direction(degree, column), degree.rank)
    if outcome is None or len(named) != 1 or named[0] not in among:
        return WorkedOut(outcome)
    return WorkedOut(outcome, view.number((named[0], column)) == outcome.number)


def _comparison(reading: Reading) -> WorkedOut | None:
    """One row has more than others; which rows have more than one, than a number, or of those joined by "or" the
    most."""
    view, text, rows = reading.view, reading.text, reading.rows
    degree = _first(reading, "comparative")
    column = reading.measured(degree)
    conditions = reading.demands() if reading.presumes and says("asks_for_rows", text) and not rows else []
    if degree is None:
        bounded = conditions and any(number.comparator for number in reading.numbers)
        return WorkedOut(algebra.count(view, conditions)) if bounded else None
    if column is None:
        return None
    direction = reading.direction(degree, column)
    than = pattern("than").search(text, degree.end)
    if not reading.presumes:
        pairs = [((i, column), (j, column), direction) for i, j in _compared_rows(reading, degree, than)]
        outcome = algebra.order(view, pairs, 0.0) if pairs else None
        # "No deeper than B" says at most as deep.
        at_most = re.search(r"\bno(?:t any)?\s*$", text[: degree.start], re.IGNORECASE) and not reading.denied
        return WorkedOut(outcome, outcome.number == (0.0 if at_most else 1.0)) if outcome else None
    after = [row for row, mention in rows.items() if mention.start > degree.end and (than or degree.in_time)]
    limit = view.number((after[0], column)) if len(rows) == 1 and after else None
    if limit is not None:
        bound = CellValue("number", limit, f"{limit:g}", 0, 0, comparator=">" if direction > 0 else "<")
        return WorkedOut(algebra.count(view, [Condition(column, number=bound)], [(after[0], column)]))
    if reading.numbers and conditions:
        return WorkedOut(algebra.count(view, conditions))
    if than or (degree.verb and not rows) or len(rows) == 1:
        return None
    # "Which working dog is lighter?"
    return WorkedOut(algebra.extreme(view, column, tuple(rows) or rows_with(view, reading.conditions), direction))


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


def _together(reading: Reading) -> WorkedOut | None:
    """One row holds all that the claim says, whether or not it names the row."""
    things = reading.things
    columns = [column for column, _ in things if column is not None]
    if len(things) < 2 or reading.presumes or reading.degrees or len(set(columns)) < len(columns):
        return None
    if says("only", reading.text) or not all(places for _, places in things):
        return None
    if not reading.columns and len(reading.further_words) > FURTHER_WORDS:
        return None
    if reading.numbers and not set(reading.measures) <= set(columns):
        return None  # "the precision and the recall are above 60" says so of both
    outcome = algebra.together(reading.view, things)
    return WorkedOut(outcome, outcome.number == (0.0 if says("neither", reading.text) else 1.0)) if outcome else None


RULES: tuple[Callable[[Reading], WorkedOut | None], ...] = (_trend, _count, _pair, _extreme, _comparison, _together)
