"""How far an option says what a cell says.

What belongs here: one option beside one cell, by their words, their number or their letters. Where the cell stands and
what the question asks is weighed by the callers.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rapidfuzz import fuzz

from evidence_assets.reasoning.tables.cells import CellValue, parse_values
from evidence_assets.reasoning.tables.text import alternatives, letter_runs, plain_text, stem, tokens, word_set

_SIMILAR_SPELLING = 80.0
# An option that is the cell's number but for "less than" or "over".
_OTHERWISE_BOUNDED = 0.5


@lru_cache(maxsize=65536)
def words_of(text: str) -> tuple[frozenset[str], ...]:
    """Words of a cell, and of each of its parts where a semicolon lists alternatives."""
    sets = [word_set(part) for part in alternatives(text)]
    return tuple(dict.fromkeys(words for words in sets if words))


@lru_cache(maxsize=65536)
def same_word(left: str, right: str) -> bool:
    """Equal up to a slip of the pen; numbers never are."""
    if left[0] != right[0] or min(len(left), len(right)) < 4 or left[0].isdigit():
        return False
    return fuzz.ratio(left, right) >= _SIMILAR_SPELLING


def shared(left: frozenset[str], right: frozenset[str]) -> int:
    """How many words two sets have in common, those with a slip of the pen included."""
    count = len(left & right)
    if count == min(len(left), len(right)):
        return count
    rest = right - left
    return min(count + sum(any(same_word(a, b) for b in rest) for a in left - right), len(left), len(right))


@lru_cache(maxsize=65536)
def option_match(option: str, cell: str) -> float:
    """How far an option is a cell, or the closest of the alternatives that the cell lists.

    Where both are one number with at most a unit, whether it is the same number; else the Dice overlap of their words.

    >>> option_match("stars", "planets; stars"), option_match("nine", "9"), option_match("moon", "sun")
    (1.0, 1.0, 0.0)
    >>> option_match("12Kg", "12"), option_match("2 kg", "12 kg"), option_match("1 kg", "less than 1 kg")
    (1.0, 0.0, 0.5)
    """
    wanted = word_set(option)
    if not wanted:
        return 0.0
    return max((_part_match(option, wanted, part) for part in alternatives(cell)), default=0.0)


def _part_match(option: str, wanted: frozenset[str], part: str) -> float:
    claimed, stated = amount_in(option), amount_in(part)
    if claimed is not None and stated is not None:
        same = _same_amount(claimed, stated)
        if same is not None:
            return same
    words = word_set(part)
    return 2 * shared(words, wanted) / (len(words) + len(wanted)) if words else 0.0


@lru_cache(maxsize=65536)
def amount_in(text: str) -> CellValue | None:
    """The number that a text is, if it is no more than one, with a unit or without.

    What is no plain amount is compared by its words: a number with its spread, and what only looks like one with a unit,
    as "1A", "3rd", "1990s", "300 BC" or "5 hundred".
    """
    copy = plain_text(text)
    values = parse_values(copy)
    if len(values) != 1 or tokens(copy[: values[0].start] + " " + copy[values[0].end :]):
        return None
    value = values[0]
    if value.kind not in {"number", "count", "percentage"} or value.low is not None or value.deviation is not None:
        return None
    glued = re.search(r"\d([^\W\d_]+)", value.text)
    if value.unit.casefold() in _NO_UNITS or (glued and len(glued[1]) == 1):
        return None
    return value


_NO_UNITS = frozenset("st nd rd th hundred dozen bc bce ad ce am pm".split())  # noqa: SIM905


def _same_amount(claimed: CellValue, stated: CellValue) -> float | None:
    """Whether two amounts are the same; None where their units differ, or one is told in millions, as the other may be
    by its header: nothing is converted."""
    units = {stem(amount.unit.casefold()) for amount in (claimed, stated) if amount.unit}
    equal = claimed.value == stated.value
    if len(units) > 1 or (not equal and claimed.scale != stated.scale):
        return None
    bounds = {amount.comparator.replace("≈", "") for amount in (claimed, stated)}
    if len(bounds) > 1:
        return _OTHERWISE_BOUNDED if equal else 0.0
    return float(equal)


@lru_cache(maxsize=65536)
def verbatim(option: str, cell: str) -> bool:
    """Whether an option has the words of a cell, or of an alternative, in their order, small ones and endings too."""
    wanted = tokens(option)
    return any(tokens(part) == wanted for part in alternatives(cell))


def fullness(option: str, cell: str) -> tuple[bool, bool]:
    """Whether an option says all that a cell lists, and whether it is written as the cell or one of its alternatives.

    What settles a tie: of "sound" and "sound and light" beside a cell "sound; light" the second is meant.
    """
    return word_set(option) == word_set(cell), option.strip() in alternatives(cell)


@lru_cache(maxsize=65536)
def spelled_like(option: str, cell: str) -> float:
    """Dice overlap of an option and a cell in runs of letters."""
    left, right = letter_runs(option), letter_runs(cell)
    return 2 * len(left & right) / (len(left) + len(right)) if left or right else 0.0
