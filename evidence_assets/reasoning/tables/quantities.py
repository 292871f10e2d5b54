"""The quantities of a table and of a text: what number a cell states, which numbers a text does, when the two agree.

What belongs here: facts of cells, columns and texts as numbers, whatever is asked of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from evidence_assets.reasoning.tables.cells import CellValue, parse_values
from evidence_assets.reasoning.tables.lexicon import mapping, stems
from evidence_assets.reasoning.tables.text import stem, tokens, unit_in
from evidence_assets.reasoning.tables.view import Place, TableView

# Shares of the filled cells that make a column one of numbers; numbers that are years.
_NUMERIC, _FIRST_YEAR, _LAST_YEAR = 0.8, 1000, 2100
_NOT_A_NUMBER_AFTER = frozenset({"which", "this", "that", "no", "any", "the", "other", "another", "each"})


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


@lru_cache(maxsize=256)  # the questions of a table mostly come together
def is_numeric(view: TableView, column: int) -> bool:
    """Whether nearly all filled cells of a column are little more than a number."""
    filled = [i for i in view.body if view.cell((i, column)).plain]
    plain = [i for i in filled if number_at(view, (i, column)) is not None and view.cell((i, column)).mostly_value]
    return bool(filled) and len(plain) >= _NUMERIC * len(filled)


@lru_cache(maxsize=256)
def is_dated(view: TableView, column: int) -> bool:
    """Whether a column holds years or dates."""
    header = view.shape.labels[column]
    if unit_in(header) or not is_numeric(view, column):
        return False
    cells = [view.cell((i, column)) for i in view.body if view.cell((i, column)).plain]
    if all(any(value.kind == "date" for value in cell.values) for cell in cells):
        return True
    first = 0 if stems("dated") & {stem(token) for token in tokens(header)} else _FIRST_YEAR
    return all(c.number is not None and c.number == int(c.number) and first <= c.number <= _LAST_YEAR for c in cells)


def numbers_in(plain: str, taken: Sequence[tuple[int, int]]) -> list[CellValue]:
    """Numbers of a text in figures or words that lie in no stretch already read, with the words that bound them."""
    ends: dict[int, int] = {}

    def in_figures(match: re.Match[str]) -> str:
        before = re.search(r"(\w+)\W*$", plain[: match.start()])
        if match[0].lower() == "one" and before and before[1].lower() in _NOT_A_NUMBER_AFTER:
            return match[0]
        figures = str(mapping("numbers")[match[0].lower()])
        ends[match.start() + len(figures)] = match.end()
        return figures.ljust(len(match[0]), "\n")

    copy = re.sub(rf"\b(?:{'|'.join(mapping('numbers'))})\b", in_figures, plain, flags=re.IGNORECASE)
    found = []
    for value in parse_values(copy):
        figures = value.start + re.search(r"\d|$", value.text).start()  # type: ignore[union-attr]
        if value.kind == "p_value" or any(start <= figures < end for start, end in taken):
            continue
        if value.comparator in {"<", ">"} and re.search(r"\bno\s*$", plain[: value.start], re.IGNORECASE):
            value = replace(value, comparator="≤" if value.comparator == ">" else "≥")
        found.append(replace(value, end=ends.get(value.end, value.end)))
    for k in range(len(found) - 1):
        low, high = found[k], found[k + 1]
        joined = re.fullmatch(r"\s*\S{0,12}?\s*and\s*", plain[low.end : high.start])
        if joined and re.search(r"\bbetween\s+$", plain[: low.start], re.IGNORECASE) and low.value < high.value:
            found[k : k + 2] = [replace(low, comparator="≥"), replace(high, comparator="≤")]
    return found


def bounds(claimed: CellValue) -> bool:
    """Whether a text bounds the value; "up to 97" names the value that is reached."""
    return claimed.comparator in {">", "≥", "<", "≤"} and not claimed.text.lower().startswith("up to")


def states(claimed: CellValue, value: float) -> bool:
    """Whether a value is what is claimed, at the claim's own precision and within its bound."""
    if bounds(claimed):
        return value >= claimed.value if claimed.comparator in {">", "≥"} else value <= claimed.value
    decimals = re.search(r"\.(\d+)", claimed.text)
    half_a_digit = 0.5 * 10.0 ** -(len(decimals[1]) if decimals else 0)
    allowed = max(0.03 * abs(claimed.value), half_a_digit) if claimed.comparator == "≈" else half_a_digit
    return abs(value - claimed.value) <= allowed + 1e-9


def meets(wanted: CellValue, value: float, bound: str) -> bool:
    """Whether a cell's number is what is wanted; of one that the cell only bounds ("less than 1"), whether it must be."""
    for side, sign in (("<≤", 1), (">≥", -1)):
        if bound and bound in side:
            room = sign * (wanted.value - value)
            inclusive = wanted.comparator != side[0] or bound != side[1]
            return bool(wanted.comparator) and wanted.comparator in side and (room > 0 or (room == 0 and inclusive))
    if wanted.comparator in {">", "<"}:
        return value > wanted.value if wanted.comparator == ">" else value < wanted.value
    return states(wanted, value)
