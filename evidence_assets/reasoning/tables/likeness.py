"""How far an option says what a cell says, by their words or their number; where the cell stands is the callers'
matter."""

from __future__ import annotations

from functools import lru_cache

from rapidfuzz import fuzz

from evidence_assets.reasoning.tables.cells import CellValue, parse_values
from evidence_assets.reasoning.tables.lexicon import words
from evidence_assets.reasoning.tables.text import alternatives, letter_runs, plain_text, stem, tokens, word_set

_SIMILAR_SPELLING = 80.0
# An option that is the cell's number but for "less than" or "over".
_OTHERWISE_BOUNDED = 0.5


@lru_cache(maxsize=65536)
def same_word(left: str, right: str) -> bool:
    """Whether two words differ at most by a slip of the pen; numbers never do."""
    if left[0] != right[0] or min(len(left), len(right)) < 4 or left[0].isdigit():
        return False
    return fuzz.ratio(left, right) >= _SIMILAR_SPELLING


@lru_cache(maxsize=65536)
def option_match(option: str, cell: str) -> float:
    """How far an option is a cell, or the closest of the alternatives that the cell lists.

    Where both are one number with at most a unit, whether it is the same number; else the Dice overlap of their words.

    >>> option_match("stars", "planets; stars"), option_match("nine", "9"), option_match("moon", "sun")
    (1.0, 1.0, 0.0)
    >>> option_match("12Kg", "12"), option_match("2 kg", "12 kg"), option_match("1 kg", "less than 1 kg")
    (1.0, 0.0, 0.5)
    """
    return max((_part_match(option, part) for part in alternatives(cell)), default=0.0)


def _part_match(option: str, part: str) -> float:
    left, right = amount_in(option), amount_in(part)
    if left and right and _comparable(left, right):
        bounds = {amount.comparator.replace("≈", "") for amount in (left, right)}
        return float(left.value == right.value) * (1.0 if len(bounds) == 1 else _OTHERWISE_BOUNDED)
    held, wanted = word_set(part), word_set(option)
    rest = held - wanted
    shared = len(held & wanted) + sum(any(same_word(a, b) for b in rest) for a in wanted - held)
    return 2 * min(shared, len(held), len(wanted)) / (len(held) + len(wanted)) if held and wanted else 0.0


def _comparable(left: CellValue, right: CellValue) -> bool:
    """Whether two amounts can be told to be the same or not: nothing is converted."""
    units = {stem(amount.unit.casefold()) for amount in (left, right) if amount.unit}
    return len(units) < 2 and (left.value == right.value or left.scale == right.scale)


@lru_cache(maxsize=65536)
def amount_in(text: str) -> CellValue | None:
    """The number that a text is, if it is no more than one, with a unit of more than one letter or without."""
    copy = plain_text(text)
    values = parse_values(copy)
    if len(values) != 1 or tokens(copy[: values[0].start] + " " + copy[values[0].end :]):
        return None
    value = values[0]
    glued = value.text[-2:-1].isdigit() and value.text[-1:].isalpha()
    plain = value.kind in {"number", "count", "percentage"} and value.low is None and value.deviation is None
    return value if plain and not glued and value.unit.casefold() not in words("no_units") else None


def is_cell(option: str, text: str) -> bool:
    """Whether an option is a cell, by its words or by its number."""
    left, right = parse_values(plain_text(option)), parse_values(plain_text(text))
    if option_match(option, text) == 1.0 or len(left) != 1 or len(right) != 1:
        return option_match(option, text) == 1.0
    bounded = left[0].comparator in {"<", ">"} or right[0].comparator not in {"", "≈"}
    return left[0].value == right[0].value and not bounded


@lru_cache(maxsize=65536)
def spelled_like(option: str, cell: str) -> float:
    """Dice overlap of an option and a cell in runs of letters."""
    left, right = letter_runs(option), letter_runs(cell)
    return 2 * len(left & right) / (len(left) + len(right)) if left or right else 0.0
