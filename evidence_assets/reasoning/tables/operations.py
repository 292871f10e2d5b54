"""The operations that claims and questions are read into, each None where the cells that it needs hold no numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from evidence_assets.reasoning.tables.cells import CellValue
from evidence_assets.reasoning.tables.lexicon import moves, pattern, squeezed
from evidence_assets.reasoning.tables.reading import Condition, Reading, rows_with
from evidence_assets.reasoning.tables.table import Place, TableStep, TableView
from evidence_assets.reasoning.tables.text import unit_in

# Of a working over many rows only so many are named in the sentence; all are cited.
_ROWS_NAMED = 3


@dataclass(frozen=True)
class Outcome:
    """The value of an operation and the cells that prove it; which field holds it depends on the operation."""

    operation: str
    text: str
    cells: tuple[Place, ...]
    number: float  # a computed number; of an order or a trend the share of cases in which it holds
    rows: tuple[int, ...] = ()  # the rows asked for
    pattern: tuple[int, ...] = ()  # movements of a series in turn: 1 up, -1 down, 0 level; of more than two only 2
    holds: bool | None = None  # whether it is as a claim says; None where the claim says nothing of it

    def shown_for(self, row: int | None) -> tuple[Place, ...]:
        """The cells that show how one row stands to the outcome: its own, and those it is held against."""
        if row is None or (self.operation == "superlative" and row in self.rows):
            return self.cells
        if self.operation == "superlative":
            return tuple(place for place in self.cells if place[0] in {row, *self.rows})
        beside = [place for place in self.cells if place[0] not in self.rows]
        return tuple(dict.fromkeys([*beside, *((row, j) for i, j in self.cells if i in self.rows)]))


def work_out(reading: Reading) -> Outcome | None:
    """The first operation that gives a value, of a claim one of which it says something."""
    outcomes = (rule(reading) for rule in (_trend, _count, _pair, _extreme, _comparison, _together))
    return next((found for found in outcomes if found and (reading.presumes or found.holds is not None)), None)


def whose_cells(view: TableView, cells: Sequence[Place]) -> tuple[TableStep, ...]:
    """The step that cites the names and headers of cells: a value without its row's name proves nothing."""
    rows = [i for i in dict.fromkeys(i for i, _ in cells) if i in view.body]
    names = [(i, j) for i in rows for j in view.telling_columns if view.said((i, j))]
    heads = [place for j in dict.fromkeys(j for _, j in cells) for place in view.heads(j)]
    cited = [place for place in (*names, *heads) if place not in set(cells)]
    if not cited:
        return ()
    named = ", ".join(f"{view.row_number(i)} is that of “{view.row_name(i)}”" for i in rows[:_ROWS_NAMED])
    more = f", and so on for {len(rows)} rows" if len(rows) > _ROWS_NAMED else ""
    return (TableStep("find_row", f"{named}{more}." if named else "The column is headed so.", tuple(cited)),)


def _ranking(view: TableView, column: int, rows: Iterable[int], direction: int) -> list[tuple[float, int]]:
    """(value, row) from the one that the direction calls for first."""
    values = [(value, i) for i in rows if (value := view.number((i, column))) is not None]
    return sorted(values, key=lambda item: (-direction * item[0], item[1]))


def trend(view: TableView, column: int, along: int, direction: int = 1) -> Outcome | None:
    """How a column moves while the rows go up (direction 1) or down in another."""
    steps = _ranking(view, along, view.body, -direction)
    series = [(step, value, i) for step, i in steps if (value := view.number((i, column))) is not None]
    signs = [(b[1] > a[1]) - (b[1] < a[1]) for a, b in pairwise(series) if a[0] != b[0]]
    if not signs:
        return None
    moving = squeezed(sign for sign in signs if sign) or (0,)
    movement = moving if len(moving) <= 2 else (2,)
    how = {1: "rises", -1: "falls", 0: "stays the same", 2: "moves up and down"}
    ups = sum(sign > 0 for sign in signs)
    moved = " and then ".join(how[sign] for sign in movement)
    grows = "grows" if direction > 0 else "falls"
    text = f"As “{view.label(along)}” {grows}, “{view.label(column)}” {moved} ({ups} of {len(signs)} steps go up)."
    cells = tuple((i, j) for _, _, i in series for j in (along, column))
    return Outcome("trend", text, cells, ups / len(signs), pattern=movement)


def _trend(reading: Reading) -> Outcome | None:
    """A column moves one way while another one does."""
    text, measures, cue = reading.text, reading.measures, pattern("ordered").search(reading.text)
    behind = sorted((mention.start, j) for j, mention in measures.items() if cue and mention.start >= cue.end())
    if reading.rows or cue is None or not behind:
        return None
    start, along = behind[0]
    column = next((column for column in measures if column != along), along)
    comma = text.find(",", start)
    end = behind[1][0] if len(behind) > 1 else comma if comma >= 0 else len(text)
    moving = [(cue.start() <= at < end, sign) for at, sign in moves(text) if not reading.masked(at)]
    falls = next((sign for led, sign in moving if led), 1) == -1
    outcome = trend(reading.view, column, along, -1 if falls else 1)
    said = squeezed(sign for led, sign in moving if not led)
    return replace(outcome, holds=outcome.pattern == said) if outcome and said else outcome


def count(view: TableView, conditions: Sequence[Condition], beside: Sequence[Place] = ()) -> Outcome:
    """The rows that satisfy all conditions, and their number; ``beside`` are cells that they are compared with."""
    rows = rows_with(view, conditions)
    columns = dict.fromkeys(condition.column for condition in conditions)
    # The cells that satisfy are the proof of the count; that none does is proved by all.
    cells = [(i, j) for i in rows or view.body for j in columns if view.said((i, j))]
    described = " and ".join(condition.describe(view) for condition in conditions)
    text = f"{len(rows)} of {len(view.body)} rows satisfy {described}."
    return Outcome("count", text, (*beside, *cells), float(len(rows)), rows)


def _count(reading: Reading) -> Outcome | None:
    """How many rows satisfy something; of a claim, whether as many do as it says."""
    if reading.rows or (reading.presumes and not reading.says("count")):
        return None
    number = None if reading.presumes else _counting_number(reading)
    if not reading.presumes and (number is None or number.value % 1):
        return None
    conditions = reading.demands(number)
    named = [condition.column for condition in conditions if condition.number is None]
    if not conditions or (number and len(set(named)) < len(named)):
        return None  # no row has two names
    outcome = count(reading.view, conditions)
    return replace(outcome, holds=number.is_met(outcome.number)) if number else outcome


def _counting_number(reading: Reading) -> CellValue | None:
    """The number that says how many rows: before what the rows are called, or of "the number of"."""
    nouns = [m.start() for m in pattern("rows").finditer(reading.text)]
    between = re.compile(r"\s*(?:(?:out )?of (?:all )?(?:the|these|those|its|them)\s*)?(?:\w+\s+){0,2}?$")
    for number in reading.numbers:
        if any(number.end <= at and between.fullmatch(reading.text[number.end : at]) for at in nouns):
            return number
    return reading.numbers[-1] if reading.says("count") and reading.numbers else None


def pair(view: TableView, operation: str, first: Place, second: Place) -> Outcome | None:
    """How far two cells lie apart ("difference"), or the first divided by the second ("ratio")."""
    a, b = view.number(first), view.number(second)
    if a is None or b is None or first == second or (operation == "ratio" and not b):
        return None
    said = "and “{}” differ by" if operation == "difference" else "divided by “{}” is"
    value = abs(a - b) if operation == "difference" else a / b
    text = f"“{view.said(first)}” {said.format(view.said(second))} {value:.6g}."
    return Outcome(operation, text, (first, second), value)


def _pair(reading: Reading) -> Outcome | None:
    """Two rows differ by a number, or one is a multiple of the other."""
    if len(reading.rows) != 2 or len(reading.numbers) > 1:
        return None
    view, number = reading.view, next(iter(reading.numbers), None)
    comparative = reading.degree("comparative")
    column = reading.measured(next(iter(reading.degrees), None))
    if column is None and number is not None:
        column = reading.column_of(number)
    is_ratio = reading.says("ratio")
    more = comparative is not None and (number is not None or reading.says("how_much_more"))
    if column is None or not (is_ratio or more or reading.says("difference")):
        return None
    first, second = ((row, column) for row in reading.rows)
    outcome = pair(view, "ratio" if is_ratio else "difference", first, second)
    if outcome is None or number is None:
        return outcome
    if is_ratio:
        return replace(outcome, holds=number.states(outcome.number))
    a, b = view.number(first) or 0.0, view.number(second) or 0.0
    right = comparative is None or reading.direction(comparative, column) * (a - b) > 0
    relative = number.kind == "percentage" and b != 0.0 and unit_in(view.labels[column]) != "%"
    return replace(outcome, holds=right and number.states(abs(a / b - 1) * 100 if relative else outcome.number))


def extreme(view: TableView, column: int, among: Sequence[int], direction: int, rank: int = 1) -> Outcome | None:
    """The rows of a rank in a column ("second largest")."""
    ranking = _ranking(view, column, among, direction)
    values = list(dict.fromkeys(value for value, _ in ranking))
    if len(ranking) < 2 or rank > len(values):
        return None
    best = [i for value, i in ranking if value == values[rank - 1]]
    which = (f"{rank}. " if rank > 1 else "") + ("greatest" if direction > 0 else "smallest")
    said, names = view.said((best[0], column)), " and ".join(map(view.row_name, best))
    text = f"Of {len(ranking)} cells under “{view.label(column)}” the {which} is “{said}”, of {names}."
    others = [i for _, i in ranking if i not in best]
    return Outcome("superlative", text, tuple((i, column) for i in (*others, *best)), values[rank - 1], tuple(best))


def _extreme(reading: Reading) -> Outcome | None:
    """A row is the greatest or smallest: said so, or as "none is greater", or as "greater than any other"."""
    view, named = reading.view, list(reading.rows)
    degree = reading.degree("superlative") if reading.presumes else next(iter(reading.degrees), None)
    column = reading.measured(degree)
    if degree is None or column is None or not (reading.presumes or len(named) == 1):
        return None
    if degree.kind == "comparative":
        none = pattern("none").search(reading.text)
        none_is = none is not None and none.start() < degree.start < reading.rows[named[0]].start
        if not none_is and not reading.says("others"):
            return None
    among = rows_with(view, [condition for condition in reading.demands() if condition.column != column])
    rows = named if len(named) > 1 else among
    outcome = extreme(view, column, rows, reading.direction(degree, column), degree.rank)
    if outcome is None or len(named) != 1 or named[0] not in among:
        return outcome
    return replace(outcome, holds=view.number((named[0], column)) == outcome.number)


def order(
    view: TableView, pairs: Sequence[tuple[Place, Place, int]], ties: float = 0.5, operation: str = "comparison"
) -> Outcome | None:
    """The share of pairs of cells in which the first is greater (direction 1) or smaller (-1).

    Equal cells count as ``ties``: they neither show a comparison nor contradict it, but two may be the greatest.
    """
    numbers = [(view.number(a), view.number(b), direction) for a, b, direction in pairs]
    shares = [
        ties if a == b else float((a > b) == (direction > 0))
        for a, b, direction in numbers
        if a is not None and b is not None
    ]
    if not shares or len(shares) < len(numbers):
        return None
    (a, b, direction), (x, y, _) = pairs[0], numbers[0]
    sign = "=" if x == y else ">" if (x or 0.0) > (y or 0.0) else "<"
    text = f"“{view.said(a)}” {sign} “{view.said(b)}”."
    if len(shares) > 1:
        how = "greater" if direction > 0 else "smaller"
        text = f"In {math.fsum(shares):g} of {len(shares)} comparisons the first is {how}: {text}"
    cells = tuple(dict.fromkeys(place for a, b, _ in pairs for place in (a, b)))
    return Outcome(operation, text, cells, math.fsum(shares) / len(shares))


def _comparison(reading: Reading) -> Outcome | None:
    """One row has more than others; of a question, which rows have more than one, than a number, or the most."""
    view, rows, degree = reading.view, reading.rows, reading.degree("comparative")
    column = reading.measured(degree)
    conditions = reading.demands() if reading.presumes and reading.says("asks_for_rows") and not rows else []
    if degree is None:
        return count(view, conditions) if conditions and any(number.comparator for number in reading.numbers) else None
    if column is None:
        return None
    direction = reading.direction(degree, column)
    than = pattern("than").search(reading.text, degree.end)
    if not reading.presumes:
        border = than.start() if than else degree.start
        before = {row: mention.start < border for row, mention in rows.items()}
        pairs = [(i, j) for i in rows for j in rows if before[i] and not before[j]]
        outcome = order(view, [((i, column), (j, column), direction) for i, j in pairs], 0.0)
        return replace(outcome, holds=outcome.number == 1.0) if outcome else None
    after = [row for row, mention in rows.items() if mention.start > degree.end and (than or degree.in_time)]
    limit = view.number((after[0], column)) if len(rows) == 1 and after else None
    if limit is not None:
        bound = CellValue("number", limit, f"{limit:g}", 0, 0, comparator=">" if direction > 0 else "<")
        return count(view, [Condition(column, number=bound)], [(after[0], column)])
    if reading.numbers and conditions:
        return count(view, conditions)
    if than or (degree.verb and not rows) or len(rows) == 1:
        return None
    return extreme(view, column, tuple(rows) or view.body, direction)  # "Which working dog is lighter?"


def together(view: TableView, things: Sequence[tuple[int | None, frozenset[Place]]]) -> Outcome | None:
    """Whether one row holds all things said: for each its column, if it has one, and the cells that say it."""
    rows = [frozenset(i for i, _ in places) for _, places in things]
    held = {i: sum(i in holders for holders in rows) for i in view.body}
    most = max(held.values(), default=0)
    best = [i for i in view.body if held[i] == most]
    known = [column for column, _ in things if column is not None]
    if not most or (most < len(things) and not all(view.said((i, column)) for i in best for column in known)):
        return None  # an empty cell contradicts nothing
    said = [sorted({*places, *((i, column) for i in best if column is not None)}) for column, places in things]
    cells = dict.fromkeys(
        place for i in best for places in said for place in places if place[0] == i and view.said(place)
    )
    cells |= dict.fromkeys(min(places) for _, places in things if places and not places & cells.keys())
    names = " and ".join(map(view.row_name, best[:_ROWS_NAMED]))
    text = f"Of {len(things)} things said {most} stand together, in the row of {names}."
    return Outcome("look_up", text, tuple(cells), float(most == len(things)), tuple(best))


def _together(reading: Reading) -> Outcome | None:
    """One row holds all that the claim says, whether or not it names the row."""
    things = reading.things
    columns = [column for column, _ in things if column is not None]
    if len(things) < 2 or reading.presumes or reading.degrees or len(set(columns)) < len(columns):
        return None
    if reading.says("only") or not all(places or column is not None for column, places in things):
        return None
    if reading.numbers and not set(reading.measures) <= set(columns):
        return None  # "the precision and the recall are above 60" says so of both
    outcome = together(reading.view, things)
    return replace(outcome, holds=outcome.number == (0.0 if reading.says("neither") else 1.0)) if outcome else None
