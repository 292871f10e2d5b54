"""The operations that claims and questions are read into, each worked out on the cells of a table.

An operation gives its value with the cells that prove it and a sentence that says what was done, or None where the
cells that it needs hold no numbers. Sums are exact up to the last rounding; nothing depends on the order of a set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum
from typing import Literal

from evidence_assets.reasoning.tables.cells import CellValue
from evidence_assets.reasoning.tables.lexicon import squeezed
from evidence_assets.reasoning.tables.view import Place, TableStep, TableView

MIXED = (2,)
# Of a working over many rows only so many are named in the sentence; all are cited.
_ROWS_NAMED = 3


@dataclass(frozen=True)
class Outcome:
    """The value of an operation and the cells that prove it; which field holds it depends on the operation.

    ``number``: A computed number; of an order or a trend the share of cases in which it holds.
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

        A row's own cells show whether it is among those found. The greatest needs all others beside it; any other row
        only a greater one.
        """
        if row is None or not self.rows:
            return self.cells
        extreme = self.operation == "superlative"
        best = {i for i, share in self.rows if share == 1.0 or not extreme}
        if extreme:
            return self.cells if row in best else tuple(place for place in self.cells if place[0] in {row, *best})
        columns = [j for i, j in self.cells if i in best]
        beside = [place for place in self.cells if place[0] not in best]
        return tuple(dict.fromkeys([*beside, *((row, j) for j in columns)]))


def whose_cells(view: TableView, cells: Sequence[Place]) -> tuple[TableStep, ...]:
    """The step that cites the names and headers of cells: a value without its row's name proves nothing."""
    rows = [i for i in dict.fromkeys(i for i, _ in cells) if i in view.body]
    names = [(i, j) for i in rows for j in view.telling_columns if view.said((i, j))]
    heads = [place for j in dict.fromkeys(j for _, j in cells) for place in view.heads(j)]
    cited = [place for place in (*names, *heads) if place not in set(cells)]
    if not cited:
        return ()
    named = ", ".join(f"{view.line(i)} is that of “{view.row_name(i)}”" for i in rows[:_ROWS_NAMED])
    more = f", and so on for {len(rows)} rows" if len(rows) > _ROWS_NAMED else ""
    return (view.step("find_row", f"{named}{more}." if named else "The column is headed so.", cited),)


@dataclass(frozen=True)
class Condition:
    """What a row must satisfy: its cell in ``column`` is one of ``texts``, or compares with ``number`` as stated.

    ``at`` is where the text says so.
    """

    column: int
    texts: frozenset[str] = frozenset()
    number: CellValue | None = None
    at: int = 0

    def is_met(self, view: TableView, row: int) -> bool:
        """Whether a row satisfies it."""
        place = (row, self.column)
        if self.number is None:
            return view.said(place) in self.texts
        value, quantity = view.number(place), view.cell(place).quantity
        return value is not None and self.number.is_met(value, quantity.comparator if quantity else "")

    def describe(self, view: TableView) -> str:
        """The condition in words."""
        label = view.label(self.column)
        if self.number is None:
            return f"“{label}” = “{min(self.texts, default='')}”"
        return f"“{label}” {self.number.comparator or '='} {self.number.value:g}"


def rows_with(view: TableView, conditions: Sequence[Condition]) -> tuple[int, ...]:
    """Rows that satisfy all conditions; all rows where there are none."""
    return tuple(i for i in view.body if all(condition.is_met(view, i) for condition in conditions))


def count(view: TableView, conditions: Sequence[Condition], beside: Sequence[Place] = ()) -> Outcome:
    """The rows that satisfy all conditions, and their number; ``beside`` are cells that they are compared with."""
    rows = rows_with(view, conditions)
    columns = dict.fromkeys(condition.column for condition in conditions)
    # The cells that satisfy are the proof of the count; that none does is proved by all.
    cells = [(i, j) for i in rows or view.body for j in columns if view.said((i, j))]
    described = " and ".join(condition.describe(view) for condition in conditions)
    text = f"{len(rows)} of {len(view.body)} rows satisfy {described}."
    return Outcome("count", text, (*beside, *cells), float(len(rows)), tuple((i, 1.0) for i in rows))


def ranking(view: TableView, column: int, rows: Iterable[int], direction: int) -> list[tuple[float, int]]:
    """(value, row) from the one that the direction calls for first."""
    values = [(value, i) for i in rows if (value := view.number((i, column))) is not None]
    return sorted(values, key=lambda item: (-direction * item[0], item[1]))


def extreme(view: TableView, column: int, among: Sequence[int], direction: int, rank: int = 1) -> Outcome | None:
    """The row of a rank in a column ("second largest"); other rows count the less, the farther they are from it."""
    order = ranking(view, column, among, direction)
    values = list(dict.fromkeys(value for value, _ in order))
    if len(order) < 2 or rank > len(values):
        return None
    away = {i: abs(values.index(value) - (rank - 1)) for value, i in order}
    best = [i for _, i in order if not away[i]]
    which = (f"{rank}. " if rank > 1 else "") + ("greatest" if direction > 0 else "smallest")
    names = " and ".join(map(view.row_name, best))
    said = f"“{view.said((best[0], column))}”"
    text = f"Of {len(order)} cells under “{view.label(column)}” the {which} is {said}, of {names}."
    cells = tuple((i, column) for i in (*(i for _, i in order if away[i]), *best))
    rows = tuple((i, 0.5 / (1 + away[i]) if away[i] else 1.0) for _, i in order)
    return Outcome("superlative", text, cells, values[rank - 1], rows)


def pair(view: TableView, kind: Literal["difference", "ratio"], first: Place, second: Place) -> Outcome | None:
    """How far two cells lie apart, or the first divided by the second."""
    a, b = view.number(first), view.number(second)
    if a is None or b is None or first == second or (kind == "ratio" and not b):
        return None
    said = f"“{view.said(first)}” and “{view.said(second)}” differ by"
    if kind == "ratio":
        said = f"“{view.said(first)}” divided by “{view.said(second)}” is"
    value = abs(a - b) if kind == "difference" else a / b
    return Outcome(kind, f"{said} {value:.6g}.", (first, second), value)


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
        text = f"In {fsum(shares):g} of {len(shares)} comparisons the first is {how}: {text}"
    cells = tuple(dict.fromkeys(place for a, b, _ in pairs for place in (a, b)))
    return Outcome(operation, text, cells, fsum(shares) / len(shares))


def together(view: TableView, things: Sequence[tuple[int | None, frozenset[Place]]]) -> Outcome | None:
    """Whether one row holds all things said: for each its column, if it has one, and the cells that say it."""
    rows = [frozenset(i for i, _ in places) for _, places in things]
    held = {i: sum(i in holders for holders in rows) for i in view.body}
    most = max(held.values(), default=0)
    best = [i for i in view.body if held[i] == most]
    known = [column for column, _ in things if column is not None]
    if not most or (most < len(things) and not all(view.said((i, column)) for i in best for column in known)):
        return None  # an empty cell contradicts nothing
    cells = dict.fromkeys(
        place
        for i in best
        for column, places in things
        for place in sorted(p for p in {*places, (i, -1 if column is None else column)} if p[0] == i)
        if place[1] >= 0 and view.said(place)
    )
    cells |= dict.fromkeys(min(places) for _, places in things if not places & cells.keys())
    names = " and ".join(map(view.row_name, best[:_ROWS_NAMED]))
    text = f"Of {len(things)} things said {most} stand together, in the row of {names}."
    return Outcome("look_up", text, tuple(cells), float(most == len(things)), tuple((i, 1.0) for i in best))


def trend(view: TableView, column: int, along: int | None = None, direction: int = 1) -> Outcome | None:
    """How a column moves while the rows go up (direction 1) or down in another, or as the rows stand."""
    steps = [(float(k), i) for k, i in enumerate(view.body)]
    if along is not None:
        steps = ranking(view, along, view.body, -direction)
    line = [(step, value, i) for step, i in steps if (value := view.number((i, column))) is not None]
    signs = [(b[1] > a[1]) - (b[1] < a[1]) for a, b in pairwise(line) if a[0] != b[0]]
    if not signs:
        return None
    moving = squeezed(sign for sign in signs if sign) or (0,)
    pattern = moving if len(moving) <= 2 else MIXED
    how = {1: "rises", -1: "falls", 0: "stays the same", 2: "moves up and down"}
    while_ = "rows go on"
    if along is not None:
        while_ = f"“{view.label(along)}” {'grows' if direction > 0 else 'falls'}"
    ups = sum(sign > 0 for sign in signs)
    moved = " and then ".join(how[sign] for sign in pattern)
    text = f"As {while_}, “{view.label(column)}” {moved} ({ups} of {len(signs)} steps go up)."
    cells = tuple((i, j) for _, _, i in line for j in (along, column) if j is not None)
    return Outcome("trend", text, cells, ups / len(signs), pattern=pattern)
