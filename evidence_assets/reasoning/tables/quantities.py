"""The quantities of a table: what number or date a cell states, and which columns hold them.

What belongs here: facts of cells and columns as numbers, whatever is asked of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from evidence_assets.reasoning.tables.degrees import names_a_date
from evidence_assets.reasoning.tables.text import unit_in
from evidence_assets.reasoning.tables.view import Place, TableView

VERSION = "1"

# Shares of the filled cells that make a column one of numbers, or of years.
_NUMERIC, _FIRST_YEAR, _LAST_YEAR = 0.8, 1000, 2100
# Columns whose kind is kept: the questions of a table mostly come together.
_COLUMNS_KEPT = 256


def only(items: Iterable[int]) -> int | None:
    """The one item there is, or None."""
    found = list(items)
    return found[0] if len(found) == 1 else None


def number_at(view: TableView, place: Place) -> float | None:
    """The quantity or date that a cell states."""
    cell = view.cell(place)
    if cell.number is not None:
        return cell.number
    return next((value.value for value in cell.values if value.kind == "date"), None)


def bound_at(view: TableView, place: Place) -> str:
    """The sign by which a cell only bounds the quantity that it states: "<" of "less than 1"."""
    quantity = view.cell(place).quantity
    return "" if quantity is None else quantity.comparator


@lru_cache(maxsize=_COLUMNS_KEPT)
def is_numeric(view: TableView, column: int) -> bool:
    """Whether nearly all filled cells of a column are little more than a number."""
    filled = [i for i in view.body if view.cell((i, column)).plain]
    plain = [i for i in filled if number_at(view, (i, column)) is not None and _mostly_value(view, (i, column))]
    return bool(filled) and len(plain) >= _NUMERIC * len(filled)


def _mostly_value(view: TableView, place: Place) -> bool:
    cell = view.cell(place)
    letters = sum(c.isalpha() for c in cell.plain) - sum(c.isalpha() for v in cell.values for c in v.text)
    return letters <= 3


@lru_cache(maxsize=_COLUMNS_KEPT)
def is_dated(view: TableView, column: int) -> bool:
    """Whether a column holds years or dates."""
    if unit_in(view.shape.labels[column]) or not is_numeric(view, column):
        return False
    cells = [view.cell((i, column)) for i in view.body if view.cell((i, column)).plain]
    if all(any(value.kind == "date" for value in cell.values) for cell in cells):
        return True
    numbers = [cell.number for cell in cells]
    first = 0 if names_a_date(view.shape.labels[column]) else _FIRST_YEAR
    return all(n is not None and n == int(n) and first <= n <= _LAST_YEAR for n in numbers)
