"""What questions and claims work out alike: the column that is measured, the rows meant, and numbers over them.

What belongs here: operations on cells whose result is a number, rows in an order or a pattern, each with the cells that
show it and a sentence that says what was done. What the result means for an option or a label is said by the callers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from evidence_assets.reasoning.tables.cells import CellValue
from evidence_assets.reasoning.tables.claim_words import lower_is_better
from evidence_assets.reasoning.tables.degrees import (
    EXCEPT,
    FIXED_RATIOS,
    GO_INTO,
    LACKS,
    MEAN,
    RATIO,
    SUM,
    Degree,
    degrees,
    moves,
    pointed_at,
    squeezed,
    units_in_words,
)
from evidence_assets.reasoning.tables.mentions import Condition, Mention, Reading
from evidence_assets.reasoning.tables.operations import states
from evidence_assets.reasoning.tables.quantities import bound_at, is_dated, is_numeric, number_at, only
from evidence_assets.reasoning.tables.text import stem, tokens, unit_in, without_unit
from evidence_assets.reasoning.tables.view import Place, TableStep, TableView

VERSION = "4"

# Of a working over many rows only so many are named in the sentence; all are cited.
_ROWS_TOLD = 3

MIXED = (2,)


@dataclass(frozen=True)
class Outcome:
    """Result of an operation; which field holds it depends on the operation.

    ``rows`` come with how far each is what was asked for, in [0, 1]; ``holds`` says whether a claim is true.
    """

    operation: str
    text: str
    cells: tuple[Place, ...]
    number: float | None = None
    rows: tuple[tuple[int, float], ...] = ()
    pattern: tuple[int, ...] | None = None
    column: int | None = None
    about: bool = False
    holds: bool | None = None

    def shown_for(self, row: int | None) -> tuple[Place, ...]:
        """The cells that show how one row stands to the outcome, or those of the whole outcome.

        Whether a row is among those found is read in its own cells. That one is the greatest shows only beside all
        others; that it is not, beside one that is greater.
        """
        if row is None or not self.rows:
            return self.cells
        found = {i for i, share in self.rows if share == 1.0 or self.operation != "superlative"}
        if self.operation == "superlative":
            return self.cells if row in found else tuple(place for place in self.cells if place[0] in {row, *found})
        columns = dict.fromkeys(j for i, j in self.cells if i in found)
        beside = tuple(place for place in self.cells if place[0] not in found)
        return tuple(dict.fromkeys((*beside, *((row, j) for j in columns))))


def label_of(view: TableView, column: int) -> str:
    """The name of a column, or its number if it has none."""
    return view.shape.labels[column] or f"column {column}"


def row_name(view: TableView, row: int) -> str:
    """The names of a row, as far as they tell it from others."""
    return ", ".join(filter(None, (view.cell((row, j)).plain for j in view.telling_columns))) or f"row {row}"


def whose_cells(view: TableView, cells: Sequence[Place]) -> tuple[TableStep, ...]:
    """The step that cites whose cells these are and what they hold: a value without its row's name proves nothing."""
    body, held = set(view.body), set(cells)
    rows = list(dict.fromkeys(i for i, _ in cells if i in body))
    names = [place for i in rows for j in view.telling_columns if view.cell(place := (i, j)).plain]
    heads = [place for j in dict.fromkeys(j for _, j in cells) for place in view.heads(j)]
    cited = tuple(place for place in (*names, *heads) if place not in held)
    if not cited:
        return ()
    told = [f"{view.line(i)} is that of “{row_name(view, i)}”" for i in rows[:_ROWS_TOLD]]
    more = f", and so on for {len(rows)} rows" if len(rows) > _ROWS_TOLD else ""
    said = f"{', '.join(told)}{more}." if told else "The column is headed so."
    return (TableStep("find_row", said, cited, tuple(view.cell(place).plain for place in cited)),)


def words_of_degree(reading: Reading) -> tuple[Degree, ...]:
    """Degrees of the sentence itself, not of the names and numbers in it."""
    return degrees(reading.text, reading.masked)


def _hinted(reading: Reading, hints: frozenset[str]) -> int | None:
    view = reading.view
    columns = [j for j in view.columns if is_numeric(view, j) and j not in view.name_columns]
    if not hints:
        return None
    fitting = {j: len(hints & {stem(t) for t in tokens(without_unit(view.shape.labels[j]))}) for j in columns}
    most = max(fitting.values(), default=0)
    return only(j for j, count in fitting.items() if count == most) if most else None


def measured_column(reading: Reading, degree: Degree | None, *, presume: bool = False) -> int | None:
    """The numeric column that a word of degree measures: named, pointed to by the word, or dated.

    With ``presume`` the table's only numeric column is meant where nothing names one, as a question takes it for
    granted that the table can answer it.
    """
    view = reading.view
    at = degree.start if degree is not None else 0
    named = min(reading.numeric_columns, key=lambda item: (not item[1].whole, abs(item[1].start - at)), default=None)
    if named is not None and degree is not None and not degree.in_time and is_dated(view, named[0]):
        # "The most expensive to build": the price, not the year under "Built".
        return next((j for j in (_hinted(reading, degree.hints),) if j is not None), named[0])
    if named is not None:
        return named[0]
    values = [j for j in view.columns if is_numeric(view, j) and j not in view.name_columns]
    hinted = _hinted(reading, pointed_at(reading.text))
    if hinted is None and degree is not None:
        hinted = _hinted(reading, degree.hints)
        if hinted is None and degree.in_time:
            hinted = only(j for j in values if is_dated(view, j))
    if hinted is None and (units := units_in_words(reading.text)):
        hinted = only(j for j in values if unit_in(view.shape.labels[j]) in units)
        if hinted is None and "years" in units:
            hinted = only(j for j in values if is_dated(view, j))
    if hinted is None and presume:
        return only(values)
    return hinted


def direction_in(view: TableView, degree: Degree, column: int) -> int:
    """Direction of a degree among the numbers of a column: the older has the greater age but the earlier year."""
    if degree.judging and lower_is_better([view.shape.labels[column]]):
        return -degree.direction
    return degree.in_time if degree.in_time and is_dated(view, column) else degree.direction


def numeric_condition(
    reading: Reading, number: CellValue, words: Sequence[Degree], *, presume: bool = False
) -> Condition | None:
    """What a number demands of rows, with the bound that a comparative before it gives: "deeper than 500"."""
    before = [word for word in words if word.kind == "comparative" and word.end <= number.start]
    led = before[-1] if before else None
    if led is not None and re.fullmatch(
        r"\s*(?:(?:\w+\s+){0,4}?than\s+)?" if led.verb or led.in_time else r"\s*(?:\w+\s+){0,5}?than\s+",
        reading.text[led.end : number.start],
    ):
        column = measured_column(reading, led, presume=presume)
        if column is None:
            return None
        sign = ">" if direction_in(reading.view, led, column) > 0 else "<"
        return Condition(column, number=replace(number, comparator=number.comparator or sign), at=number.start)
    column = reading.column_of(number)
    if column is None and number.comparator:
        column = measured_column(reading, None, presume=presume)
    return None if column is None else Condition(column, number=number, at=number.start)


def fitting_rows(view: TableView, condition: Condition) -> frozenset[int]:
    """Rows that satisfy a condition."""
    if condition.number is None:
        return frozenset(i for i in view.body if view.cell((i, condition.column)).plain in condition.texts)
    values = {i: number_at(view, (i, condition.column)) for i in view.body}
    bounds = {i: bound_at(view, (i, condition.column)) for i in view.body}
    return frozenset(
        i for i, value in values.items() if value is not None and _meets(condition.number, value, bounds[i])
    )


def _meets(wanted: CellValue, value: float, bound: str) -> bool:
    """Whether a cell's number is what is wanted; of one that the cell only bounds ("less than 1"), whether it must be."""
    if bound in _BELOW or bound in _ABOVE:
        side, sign = (_BELOW, 1) if bound in _BELOW else (_ABOVE, -1)
        strict = wanted.comparator == side[0] and bound == side[1]
        room = sign * (wanted.value - value)
        return wanted.comparator in side and (room > 0 or (room == 0 and not strict))
    if wanted.comparator == ">":
        return value > wanted.value
    if wanted.comparator == "<":
        return value < wanted.value
    return states(wanted, value)


_BELOW, _ABOVE = ("<", "≤"), (">", "≥")


def count(view: TableView, conditions: Sequence[Condition]) -> Outcome:
    """How many rows satisfy all conditions."""
    rows = set(view.body)
    for condition in conditions:
        rows &= fitting_rows(view, condition)
    columns = dict.fromkeys(condition.column for condition in conditions)
    # The cells that satisfy are the proof of the count; that none does is proved by all.
    shown = sorted(rows) or view.body
    cells = tuple((i, j) for i in shown for j in columns if view.cell((i, j)).plain)
    said = f"{len(rows)} of {len(view.body)} rows satisfy " + " and ".join(_told(view, c) for c in conditions) + "."
    support = tuple((i, 1.0) for i in sorted(rows))
    return Outcome("count", said, cells, number=float(len(rows)), rows=support)


def _told(view: TableView, condition: Condition) -> str:
    if condition.number is None:
        return f"“{label_of(view, condition.column)}” = “{min(condition.texts, default='')}”"
    sign = condition.number.comparator or "="
    return f"“{label_of(view, condition.column)}” {sign} {condition.number.value:g}"


def pair_number(view: TableView, column: int, first: int, second: int, operation: str) -> Outcome | None:
    """Difference or ratio of two rows in one column."""
    a, b = number_at(view, (first, column)), number_at(view, (second, column))
    if a is None or b is None or first == second:
        return None
    cells = ((first, column), (second, column))
    texts = [view.cell(place).plain for place in cells]
    if operation == "difference":
        gap = abs(a - b)
        return Outcome("difference", f"“{texts[0]}” and “{texts[1]}” differ by {gap:.6g}.", cells, gap, column=column)
    if b == 0:
        return None
    return Outcome("ratio", f"“{texts[0]}” divided by “{texts[1]}” is {a / b:.4g}.", cells, a / b, column=column)


def compared_order(reading: Reading) -> list[int]:
    """Rows named, the one that "as", "than" or "that of" leads to behind the one set against it."""
    led = {
        row
        for row, mention in reading.rows
        if re.search(r"\b(?:as|than|that of|those of)(?: the)?\s*$", reading.text[: mention.start], re.IGNORECASE)
    }
    rows = [row for row, _ in reading.rows]
    if GO_INTO.search(reading.text):
        return rows[::-1]
    return sorted(rows, key=lambda row: row in led)


def yes_conditions(reading: Reading) -> list[Condition]:
    """Columns of yes and no that are named without either: "how many lakes have salt water" asks for yes."""
    stated = {condition.column for condition in reading.conditions}
    found = []
    for column, mention in reading.columns:
        texts = {reading.view.cell((i, column)).plain for i in reading.view.body}
        yes = {text for text in texts if text.lower() in _YES}
        if column not in stated and yes and len({text for text in texts if text}) <= 2:
            texts = texts - yes if denied_at(reading, mention) else yes
            found.append(Condition(column, frozenset(texts), at=mention.start))
    return found


_YES = frozenset({"yes", "true", "y", "✓"})


def denied_at(reading: Reading, mention: Mention) -> bool:
    """Whether a word for lacking stands directly before a mention: "has no metro", "lacks a metro"."""
    return bool(LACKS.search(reading.text[: mention.start]))


def left_out(reading: Reading) -> frozenset[int]:
    """Rows that a text leaves out of a comparison: "apart from Lima"."""
    return frozenset(row for row, mention in reading.rows if EXCEPT.search(reading.text[: mention.start]))


def span(view: TableView, column: int, rows: Sequence[int]) -> Outcome | None:
    """How far the greatest and the smallest number of a column lie apart."""
    order = ranking(view, column, rows, 1)
    if len(order) < 2:
        return None
    (high, first), (low, last) = order[0], order[-1]
    texts = [view.cell((row, column)).plain for row in (first, last)]
    said = f"The greatest and the smallest under “{label_of(view, column)}” are “{texts[0]}” and “{texts[1]}”, {high - low:.6g} apart."
    return Outcome("difference", said, ((first, column), (last, column)), high - low, column=column)


def alike(view: TableView, column: int, row: int) -> Outcome | None:
    """Other rows with the same cell in a column."""
    text = view.cell((row, column)).plain
    rows = [i for i in view.body if i != row and text and view.cell((i, column)).plain == text]
    if not rows:
        return None
    said = f"Under “{label_of(view, column)}”, {' and '.join(row_name(view, i) for i in rows)} and {row_name(view, row)} have “{text}”."
    cells = ((row, column), *((i, column) for i in rows))
    return Outcome("comparison", said, cells, rows=tuple((i, 1.0) for i in rows), column=column)


def aggregate(view: TableView, column: int, rows: Sequence[int], operation: str) -> Outcome | None:
    """Sum or mean of a column over rows."""
    values = [(i, value) for i in rows if (value := number_at(view, (i, column))) is not None]
    if not values:
        return None
    total = sum(value for _, value in values)
    result = total / len(values) if operation == "mean" else total
    cells = tuple((i, column) for i, _ in values)
    said = f"The {operation} of {len(values)} cells under “{label_of(view, column)}” is {result:.6g}."
    return Outcome(operation, said, cells, result, column=column)


def ranking(view: TableView, column: int, rows: Sequence[int], direction: int) -> list[tuple[float, int]]:
    """(value, row) from the one that the direction calls for first."""
    values = [(value, i) for i in rows if (value := number_at(view, (i, column))) is not None]
    return sorted(values, key=lambda item: (-direction * item[0], item[1]))


def extreme(view: TableView, column: int, rows: Sequence[int], direction: int, rank: int) -> Outcome | None:
    """The row of a rank ("second largest"); others count the less, the farther they are from it."""
    order = ranking(view, column, rows, direction)
    if len(order) < max(2, rank):
        return None
    values = list(dict.fromkeys(value for value, _ in order))
    if rank > len(values):
        return None
    wanted = values[rank - 1]
    away = {i: abs(values.index(value) - (rank - 1)) for value, i in order}
    support = tuple((i, 1.0 if not away[i] else 0.5 / (1 + away[i])) for _, i in order)
    best = [i for value, i in order if value == wanted]
    which = f"{rank}. " if rank > 1 else ""
    said = (
        f"Of {len(order)} cells under “{label_of(view, column)}” the {which}{'greatest' if direction > 0 else 'smallest'} "
        f"is “{view.cell((best[0], column)).plain}”, of {' and '.join(row_name(view, i) for i in best)}."
    )
    cells = (*((i, column) for _, i in order if i not in best), *((i, column) for i in best))
    return Outcome("superlative", said, cells, rows=support, column=column, number=wanted)


def series_pattern(view: TableView, column: int, order: int | None, direction: int) -> Outcome | None:
    """How a column moves while the rows go up (or down) in another, or as they stand."""
    if order is None:
        rows = [(float(k), i) for k, i in enumerate(view.body)]
    else:
        rows = [(value, i) for value, i in ranking(view, order, view.body, -direction)]
    line = [(step, value, i) for step, i in rows if (value := number_at(view, (i, column))) is not None]
    if len(line) < 2:
        return None
    signs = [(b[1] > a[1]) - (b[1] < a[1]) for a, b in pairwise(line) if a[0] != b[0]]
    if not signs:
        return None
    moving = squeezed([sign for sign in signs if sign]) or (0,)
    pattern = moving if len(moving) <= 2 else MIXED
    names = {1: "rises", -1: "falls", 0: "stays the same"}
    told = "moves up and down" if pattern == MIXED else " and then ".join(names[sign] for sign in pattern)
    along = f"“{label_of(view, order)}” {'grows' if direction > 0 else 'falls'}" if order is not None else "rows go on"
    ups = sum(sign > 0 for sign in signs)
    said = f"As {along}, “{label_of(view, column)}” {told} ({ups} of {len(signs)} steps go up)."
    columns = [column] if order is None else [order, column]
    cells = tuple((i, j) for _, _, i in line for j in columns)
    return Outcome("trend", said, cells, pattern=pattern, number=ups / len(signs), column=column)


def trend_clause(
    reading: Reading, columns: Sequence[tuple[int, Mention]], cue: Callable[[str], re.Match[str] | None]
) -> tuple[int, int, int, int, int] | None:
    """``(column, order, direction, clause start, clause end)``: what moves, and along what, which way.

    The clause that begins with "as", "sorted by" and the like names what the rows are ordered by.
    """
    found = cue(reading.text)
    if found is None or len(columns) < 2:
        return None
    inside = [(c, m) for c, m in columns if m.start >= found.end()]
    if not inside:
        return None
    order, mention = min(inside, key=lambda item: item[1].start)
    others = [(c, m) for c, m in columns if c != order]
    after = [m.start for c, m in others if m.start > mention.end]
    end = min([len(reading.text), *after])
    comma = reading.text.find(",", mention.end)
    end = min(end, comma) if comma >= 0 else end
    falling = [sign for at, sign in moves(reading.text) if found.start() <= at < end and not reading.masked(at)]
    descending = re.search(r"\bdescending\b|\bfrom (?:high|large|great)\w* to\b", reading.text[found.start() : end])
    direction = -1 if (falling and falling[0] < 0) or descending else 1
    return others[0][0], order, direction, found.start(), end


def pair_operation(text: str) -> str | None:
    """``ratio``, ``sum`` or ``mean`` if the words call for it."""
    if RATIO.search(text):
        return "ratio"
    if MEAN.search(text):
        return "mean"
    return "sum" if SUM.search(text) else None


_BOUND = re.compile(
    r"\b(?:(?P<above>more than|over)|(?P<below>less than|under|not (?:quite|even))|(?P<least>at least)|(?P<most>at most))\s+$",
    re.IGNORECASE,
)
_BOUND_SIGNS = {"above": ">", "below": "<", "least": "≥", "most": "≤"}


def fixed_ratio(text: str) -> CellValue | None:
    """The number that "twice" or "half" states."""
    for word, value in FIXED_RATIOS.items():
        if match := re.search(rf"\b{word}\b", text, re.IGNORECASE):
            bound = _BOUND.search(text[: match.start()])
            sign = _BOUND_SIGNS[bound.lastgroup or ""] if bound else "≈"
            return CellValue("number", value, f"{value:g}.0", match.start(), match.end(), comparator=sign)
    return None
