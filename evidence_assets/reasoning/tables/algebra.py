"""The algebra that claims and questions are read into, and its evaluation.

An expression names rows, columns or cells; evaluated, it gives its value with the cells that prove it and a sentence that
says what was done. Sums are exact up to the last rounding, and nothing depends on the order of a set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum
from typing import Literal, Protocol

from evidence_assets.reasoning.tables.cells import CellValue
from evidence_assets.reasoning.tables.lexicon import squeezed
from evidence_assets.reasoning.tables.view import Place, TableStep, TableView

MIXED = (2,)
# Of a working over many rows only so many are named in the sentence; all are cited.
_ROWS_TOLD = 3


@dataclass(frozen=True)
class Outcome:
    """The value of an expression, and the cells that prove it; which field holds it depends on the operation.

    ``number``: A number worked out; of an order or a trend the share of cases in which it holds.
    ``rows``: Rows with how far each is what was asked for, in [0, 1].
    ``pattern``: Movements of a series in turn: 1 up, -1 down, 0 level, 2 no order.
    """

    operation: str
    text: str
    cells: tuple[Place, ...]
    number: float | None = None
    rows: tuple[tuple[int, float], ...] = ()
    pattern: tuple[int, ...] | None = None

    def shown_for(self, row: int | None) -> tuple[Place, ...]:
        """The cells that show how one row stands to the outcome, or those of the whole outcome.

        Whether a row is among those found is read in its own cells. That one is the greatest shows only beside all
        others; that it is not, beside one that is greater.
        """
        if row is None or not self.rows:
            return self.cells
        extreme = self.operation == "superlative"
        best = {i for i, share in self.rows if share == 1.0 or not extreme}
        if extreme:
            return self.cells if row in best else tuple(place for place in self.cells if place[0] in {row, *best})
        columns = dict.fromkeys(j for i, j in self.cells if i in best)
        beside = tuple(place for place in self.cells if place[0] not in best)
        return tuple(dict.fromkeys((*beside, *((row, j) for j in columns))))


class Expression(Protocol):
    """What a text asks of a table."""

    def evaluate(self, view: TableView) -> Outcome | None:
        """The value with its proof; None where the cells that it needs hold no numbers."""


def whose_cells(view: TableView, cells: Sequence[Place]) -> tuple[TableStep, ...]:
    """The step that cites whose cells these are and what they hold: a value without its row's name proves nothing."""
    body, held = set(view.body), set(cells)
    rows = list(dict.fromkeys(i for i, _ in cells if i in body))
    names = [(i, j) for i in rows for j in view.telling_columns if view.said((i, j))]
    heads = [place for j in dict.fromkeys(j for _, j in cells) for place in view.heads(j)]
    cited = tuple(place for place in (*names, *heads) if place not in held)
    if not cited:
        return ()
    told = [f"{view.line(i)} is that of “{view.row_name(i)}”" for i in rows[:_ROWS_TOLD]]
    more = f", and so on for {len(rows)} rows" if len(rows) > _ROWS_TOLD else ""
    return (view.step("find_row", f"{', '.join(told)}{more}." if told else "The column is headed so.", cited),)


@dataclass(frozen=True)
class Condition:
    """What a row must satisfy: its cell in ``column`` is one of ``texts``, or compares with ``number`` as stated.

    ``at`` is where the text says so.
    """

    column: int
    texts: frozenset[str] = frozenset()
    number: CellValue | None = None
    at: int = 0

    def met(self, view: TableView) -> frozenset[int]:
        """Rows that satisfy it."""
        return frozenset(i for i in view.body if self._holds_in(view, i))

    def _holds_in(self, view: TableView, row: int) -> bool:
        place = (row, self.column)
        if self.number is None:
            return view.said(place) in self.texts
        value, quantity = view.number(place), view.cell(place).quantity
        return value is not None and self.number.is_met(value, quantity.comparator if quantity else "")

    def told(self, view: TableView) -> str:
        if self.number is None:
            return f"“{view.label(self.column)}” = “{min(self.texts, default='')}”"
        return f"“{view.label(self.column)}” {self.number.comparator or '='} {self.number.value:g}"


@dataclass(frozen=True)
class Filter:
    """The rows that satisfy all conditions; their number is its number. Cells ``beside`` are what they are held against."""

    conditions: tuple[Condition, ...]
    beside: tuple[Place, ...] = ()

    def rows(self, view: TableView) -> list[int]:
        kept = [condition.met(view) for condition in self.conditions]
        return [i for i in view.body if all(i in rows for rows in kept)]

    def evaluate(self, view: TableView) -> Outcome:
        rows = self.rows(view)
        columns = dict.fromkeys(condition.column for condition in self.conditions)
        # The cells that satisfy are the proof of the count; that none does is proved by all.
        cells = tuple((i, j) for i in rows or view.body for j in columns if view.said((i, j)))
        told = " and ".join(condition.told(view) for condition in self.conditions)
        text = f"{len(rows)} of {len(view.body)} rows satisfy {told}."
        return Outcome("count", text, (*self.beside, *cells), float(len(rows)), tuple((i, 1.0) for i in rows))


def ranking(view: TableView, column: int, rows: Iterable[int], direction: int) -> list[tuple[float, int]]:
    """(value, row) from the one that the direction calls for first."""
    values = [(value, i) for i in rows if (value := view.number((i, column))) is not None]
    return sorted(values, key=lambda item: (-direction * item[0], item[1]))


@dataclass(frozen=True)
class Extreme:
    """The row of a rank among some in a column ("second largest"); others count the less, the farther they are from it."""

    column: int
    among: tuple[int, ...]
    direction: int
    rank: int = 1

    def evaluate(self, view: TableView) -> Outcome | None:
        order = ranking(view, self.column, self.among, self.direction)
        values = list(dict.fromkeys(value for value, _ in order))
        if len(order) < 2 or self.rank > len(values):
            return None
        away = {i: abs(values.index(value) - (self.rank - 1)) for value, i in order}
        best = [i for _, i in order if not away[i]]
        which = (f"{self.rank}. " if self.rank > 1 else "") + ("greatest" if self.direction > 0 else "smallest")
        text = (
            f"Of {len(order)} cells under “{view.label(self.column)}” the {which} is "
            f"“{view.said((best[0], self.column))}”, of {' and '.join(map(view.row_name, best))}."
        )
        cells = tuple((i, self.column) for i in (*(i for _, i in order if away[i]), *best))
        rows = tuple((i, 0.5 / (1 + away[i]) if away[i] else 1.0) for _, i in order)
        return Outcome("superlative", text, cells, values[self.rank - 1], rows)


@dataclass(frozen=True)
class Aggregate:
    """Sum, mean or span (greatest less smallest) of a column over rows."""

    kind: Literal["sum", "mean", "span"]
    column: int
    rows: tuple[int, ...]

    def evaluate(self, view: TableView) -> Outcome | None:
        order = ranking(view, self.column, sorted(self.rows), 1)
        if len(order) < (2 if self.kind == "span" else 1):
            return None
        if self.kind == "span":
            return Pair("difference", (order[0][1], self.column), (order[-1][1], self.column)).evaluate(view)
        total = fsum(value for value, _ in order)
        result = total / len(order) if self.kind == "mean" else total
        text = f"The {self.kind} of {len(order)} cells under “{view.label(self.column)}” is {result:.6g}."
        return Outcome(self.kind, text, tuple((i, self.column) for i in sorted(i for _, i in order)), result)


@dataclass(frozen=True)
class Pair:
    """How far two cells lie apart, or the first divided by the second."""

    kind: Literal["difference", "ratio"]
    first: Place
    second: Place

    def evaluate(self, view: TableView) -> Outcome | None:
        a, b = view.number(self.first), view.number(self.second)
        if a is None or b is None or self.first == self.second or (self.kind == "ratio" and not b):
            return None
        first, second = (f"“{view.said(place)}”" for place in (self.first, self.second))
        value = abs(a - b) if self.kind == "difference" else a / b
        told = f"{first} and {second} differ by" if self.kind == "difference" else f"{first} divided by {second} is"
        return Outcome(self.kind, f"{told} {value:.6g}.", (self.first, self.second), value)


@dataclass(frozen=True)
class Order:
    """Of pairs of cells the first is greater (direction 1) or smaller (-1): the share of pairs in which it is.

    Equal cells count as ``ties`` says: they neither show a comparison nor speak against it, but two may be the greatest.
    """

    pairs: tuple[tuple[Place, Place, int], ...]
    ties: float = 0.5
    operation: str = "comparison"

    def evaluate(self, view: TableView) -> Outcome | None:
        numbers = [(view.number(a), view.number(b), direction) for a, b, direction in self.pairs]
        held = [
            self.ties if a == b else float((a > b) == (direction > 0))
            for a, b, direction in numbers
            if a is not None and b is not None
        ]
        if not held or len(held) < len(numbers):
            return None
        (a, b, direction), (x, y, _) = self.pairs[0], numbers[0]
        sign = "=" if x == y else ">" if (x or 0.0) > (y or 0.0) else "<"
        text = f"“{view.said(a)}” {sign} “{view.said(b)}”."
        if len(held) > 1:
            how = "greater" if direction > 0 else "smaller"
            text = f"In {fsum(held):g} of {len(held)} comparisons the first is {how}: {text}"
        cells = tuple(dict.fromkeys(place for a, b, _ in self.pairs for place in (a, b)))
        return Outcome(self.operation, text, cells, fsum(held) / len(held))


@dataclass(frozen=True)
class Same:
    """Whether cells say the same."""

    cells: tuple[Place, ...]

    def evaluate(self, view: TableView) -> Outcome:
        texts = [view.said(place) for place in self.cells]
        text = "The cells say " + ", ".join(f"“{text}”" for text in texts) + "."
        return Outcome("comparison", text, self.cells, float(len(set(texts)) == 1 and all(texts)))


@dataclass(frozen=True)
class Together:
    """Whether one row holds all that is said: for each thing its column, if it has one, and the cells that say it."""

    said: tuple[tuple[int | None, frozenset[Place]], ...]

    def evaluate(self, view: TableView) -> Outcome | None:
        rows = [frozenset(i for i, _ in places) for _, places in self.said]
        held = {i: sum(i in found for found in rows) for i in view.body}
        most = max(held.values(), default=0)
        best = [i for i in view.body if held[i] == most]
        known = [column for column, _ in self.said if column is not None]
        if not most or (most < len(self.said) and not all(view.said((i, column)) for i in best for column in known)):
            return None  # an empty cell gainsays nothing
        cells = dict.fromkeys(
            place
            for i in best
            for column, places in self.said
            for place in sorted(p for p in {*places, (i, column if column is not None else -1)} if p[0] == i)
            if place[1] >= 0 and view.said(place)
        )
        cells |= dict.fromkeys(min(places) for _, places in self.said if not places & cells.keys())
        names = " and ".join(map(view.row_name, best[:_ROWS_TOLD]))
        text = f"Of {len(self.said)} things said {most} stand together, in the row of {names}."
        return Outcome("look_up", text, tuple(cells), float(most == len(self.said)), tuple((i, 1.0) for i in best))


@dataclass(frozen=True)
class Trend:
    """How a column moves while the rows go up (direction 1) or down in another, or as they stand."""

    column: int
    order: int | None = None
    direction: int = 1

    def evaluate(self, view: TableView) -> Outcome | None:
        steps = [(float(k), i) for k, i in enumerate(view.body)]
        if self.order is not None:
            steps = ranking(view, self.order, view.body, -self.direction)
        line = [(step, value, i) for step, i in steps if (value := view.number((i, self.column))) is not None]
        signs = [(b[1] > a[1]) - (b[1] < a[1]) for a, b in pairwise(line) if a[0] != b[0]]
        if not signs:
            return None
        moving = squeezed([sign for sign in signs if sign]) or (0,)
        pattern = moving if len(moving) <= 2 else MIXED
        how = {1: "rises", -1: "falls", 0: "stays the same", 2: "moves up and down"}
        along = "rows go on"
        if self.order is not None:
            along = f"“{view.label(self.order)}” {'grows' if self.direction > 0 else 'falls'}"
        ups = sum(sign > 0 for sign in signs)
        told = " and then ".join(how[sign] for sign in pattern)
        text = f"As {along}, “{view.label(self.column)}” {told} ({ups} of {len(signs)} steps go up)."
        columns = [self.column] if self.order is None else [self.order, self.column]
        cells = tuple((i, j) for _, _, i in line for j in columns)
        return Outcome("trend", text, cells, ups / len(signs), pattern=pattern)
