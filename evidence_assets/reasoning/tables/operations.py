"""Operations on the numbers of a table: what a claim can say about them, checked cell by cell.

What belongs here: look-up, comparison, superlative, difference, ratio, count and trend, each a pure function from cells
to a `Finding` that says how far the statement holds and which cells show it. Which cells and which operation a claim
means is worked out in `claims`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from evidence_assets.reasoning.tables.cells import CellValue
from evidence_assets.reasoning.tables.view import Place, TableView

VERSION = "1"


@dataclass(frozen=True)
class Finding:
    """Outcome of one operation.

    ``holds`` is the share of the checked cases in which the statement holds, in [0, 1]; ``weight`` how much the
    operation is to be trusted against others; ``cells`` the cells that were compared.
    """

    operation: str
    text: str
    holds: float
    weight: float
    cells: tuple[Place, ...]


@dataclass(frozen=True)
class Entry:
    """A number in the table: its place, its value and the decimals it is written with."""

    place: Place
    value: float


def entries(view: TableView, rows: Sequence[int], columns: Sequence[int]) -> list[Entry]:
    """The first number of each cell in these rows and columns, in reading order."""
    found = []
    for i in rows:
        for j in columns:
            number = view.cell((i, j)).number
            if number is not None:
                found.append(Entry((i, j), number))
    return found


def decimals(text: str) -> int:
    """Digits behind the decimal point of a written number."""
    match = re.search(r"\.(\d+)", text)
    return len(match[1]) if match else 0


def _is_bound(claimed: CellValue) -> bool:
    """Whether the claim bounds the value; "up to 97" names the value that is reached."""
    return claimed.comparator in {">", "≥", "<", "≤"} and not claimed.text.lower().startswith("up to")


def states(claimed: CellValue, value: float) -> bool:
    """Whether a cell's value is what the claim states, at the claim's own precision and within its bound."""
    if _is_bound(claimed):
        return value >= claimed.value if claimed.comparator in {">", "≥"} else value <= claimed.value
    half_a_digit = 0.5 * 10.0 ** -decimals(claimed.text)
    allowed = max(0.03 * abs(claimed.value), half_a_digit) if claimed.comparator == "≈" else half_a_digit
    return abs(value - claimed.value) <= allowed + 1e-9


def look_up(view: TableView, claimed: CellValue, among: Sequence[Entry]) -> Finding | None:
    """Find a stated value among some cells; a share may be written as 0.5 or as 50 %."""
    for scale in (1.0, 100.0, 0.01):
        if scale != 1.0 and claimed.kind != "percentage" and claimed.value > 1:
            continue
        for entry in among:
            if not _is_bound(claimed) and states(claimed, entry.value * scale):
                said = f"The cell says “{view.cell(entry.place).plain}”, as the claim does ({claimed.text})."
                return Finding("look_up", said, 1.0, 1.0, (entry.place,))
    return None


def bounds(view: TableView, claimed: CellValue, among: Sequence[Entry]) -> Finding | None:
    """Check a bound such as "all above .50" against each of some cells."""
    if not among or not _is_bound(claimed):
        return None
    fitting = [entry for entry in among if states(claimed, entry.value)]
    said = f"{len(fitting)} of {len(among)} cells are {claimed.comparator} {claimed.value:g}."
    return Finding("count", said, len(fitting) / len(among), 0.8, tuple(entry.place for entry in among))


def difference(view: TableView, claimed: CellValue, left: Sequence[Entry], right: Sequence[Entry]) -> Finding | None:
    """Find two cells, one of either side, that differ by the stated amount, in points or in per cent of the second."""
    for a in left:
        for b in right:
            # Numbers are set against each other along a row or a column, not across the table.
            if a.place == b.place or (a.place[0] != b.place[0] and a.place[1] != b.place[1]):
                continue
            gap = abs(a.value - b.value)
            said = f"“{view.cell(a.place).plain}” and “{view.cell(b.place).plain}” differ by {gap:.4g}"
            if states(claimed, gap):
                return Finding("difference", said + ".", 1.0, 0.9, (a.place, b.place))
            if claimed.kind == "percentage" and b.value and states(claimed, 100 * gap / abs(b.value)):
                share = 100 * gap / abs(b.value)
                return Finding("ratio", f"{said}, which is {share:.4g} % of the second.", 1.0, 0.9, (a.place, b.place))
    return None


def times(view: TableView, claimed: CellValue, left: Sequence[Entry], right: Sequence[Entry]) -> Finding | None:
    """Find two cells, one of either side, of which the first is the stated multiple of the second."""
    for a in left:
        for b in right:
            if a.place != b.place and b.value and states(claimed, a.value / b.value):
                said = f"“{view.cell(a.place).plain}” is {a.value / b.value:.3g} times “{view.cell(b.place).plain}”."
                return Finding("ratio", said, 1.0, 0.9, (a.place, b.place))
    return None


def comparison(pairs: Sequence[tuple[Entry, Entry, int]], weight: float = 0.7) -> Finding | None:
    """Compare pairs of cells: direction 1 says that the first is greater, -1 that it is smaller.

    Equal cells count half: they neither show the statement nor speak against it.
    """
    if not pairs:
        return None
    right = sum(
        0.5 if a.value == b.value else float((a.value > b.value) == (direction > 0)) for a, b, direction in pairs
    )
    said = f"In {right:g} of {len(pairs)} comparisons the first is {'greater' if pairs[0][2] > 0 else 'smaller'}."
    cells = tuple(dict.fromkeys(place for a, b, _ in pairs for place in (a.place, b.place)))
    return Finding("comparison", said, right / len(pairs), weight, cells)


def superlative(groups: Sequence[tuple[Entry, Sequence[Entry], int]], weight: float = 0.7) -> Finding | None:
    """Check in each group whether the first cell is the greatest (direction 1) or smallest (-1) of them all."""
    groups = [group for group in groups if group[1]]
    if not groups:
        return None
    right = 0
    cells: list[Place] = []
    for subject, others, direction in groups:
        best = max(direction * other.value for other in others)
        right += direction * subject.value >= best
        rival = next(other for other in others if direction * other.value == best)
        cells += [subject.place, rival.place]
    extreme = "greatest" if groups[0][2] > 0 else "smallest"
    said = f"It is the {extreme} in {right} of {len(groups)} rows or columns."
    return Finding("superlative", said, right / len(groups), weight, tuple(dict.fromkeys(cells)))


def trend(series: Sequence[Sequence[Entry]], direction: int, weight: float = 0.6) -> Finding | None:
    """Check whether series of cells rise (direction 1) or fall (-1): the share of steps that go this way."""
    steps = [(a, b) for line in series for a, b in pairwise(line)]
    if not steps:
        return None
    right = sum(0.5 if a.value == b.value else float((b.value > a.value) == (direction > 0)) for a, b in steps)
    said = f"{right:g} of {len(steps)} steps go {'up' if direction > 0 else 'down'}."
    cells = tuple(dict.fromkeys(place for a, b in steps for place in (a.place, b.place)))
    return Finding("trend", said, right / len(steps), weight, cells)
