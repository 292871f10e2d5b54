"""From words to what an expression needs: which column is measured, which way, which conditions, in which order.

What belongs here: the parts of an expression. Which expression a text is read into is worked out in `reader`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from evidence_assets.reasoning.tables.algebra import Condition, Filter, Trend
from evidence_assets.reasoning.tables.cells import CellValue
from evidence_assets.reasoning.tables.lexicon import (
    Degree,
    less_is_better,
    moves,
    pattern,
    stems,
)
from evidence_assets.reasoning.tables.mentions import Reading, rows_named_with
from evidence_assets.reasoning.tables.quantities import is_dated, is_numeric, only
from evidence_assets.reasoning.tables.text import STOP_WORDS, stem, tokens, without_unit
from evidence_assets.reasoning.tables.view import TableView

_YES = frozenset({"yes", "true", "y", "✓"})
_ARTICLES, _LONGEST_NAME = frozenset({"a", "an", "the"}), 3


def _hinted(view: TableView, hints: frozenset[str]) -> int | None:
    """The numeric column whose header alone holds most of the hints."""
    columns = [j for j in view.columns if is_numeric(view, j) and j not in view.name_columns]
    fitting = {j: len(hints & {stem(t) for t in tokens(without_unit(view.shape.labels[j]))}) for j in columns}
    most = max(fitting.values(), default=0)
    return only(j for j, count in fitting.items() if count == most) if most else None


def measured_column(reading: Reading, degree: Degree | None) -> int | None:
    """The numeric column that a word of degree measures: named, pointed to by the word, or dated.

    A question means the table's only numeric column where nothing names one.
    """
    view = reading.view
    at = degree.start if degree is not None else 0
    named = min(reading.numeric_columns, key=lambda item: (not item[1].whole, abs(item[1].start - at)), default=None)
    if named is not None and degree is not None and not degree.in_time and is_dated(view, named[0]):
        # "The most expensive to build": the price, not the year under "Built".
        pointed = _hinted(view, degree.headers)
        return named[0] if pointed is None else pointed
    if named is not None:
        return named[0]
    values = [j for j in view.columns if is_numeric(view, j) and j not in view.name_columns]
    dated = [j for j in values if is_dated(view, j)]
    hinted = _hinted(view, degree.headers) if degree is not None else None
    if hinted is None and degree is not None and degree.in_time:
        hinted = only(dated)
    return only(values) if hinted is None and reading.presumes else hinted


def direction_in(view: TableView, degree: Degree, column: int) -> int:
    """Direction of a degree among the numbers of a column: the older has the greater age but the earlier year."""
    if degree.judging and less_is_better(view.shape.labels[column]):
        return -degree.direction
    return degree.in_time if degree.in_time and is_dated(view, column) else degree.direction


def numeric_condition(reading: Reading, number: CellValue) -> Condition | None:
    """What a number demands of rows, with the bound that a comparative before it gives: "deeper than 500"."""
    led = next((d for d in reversed(reading.degrees) if d.kind == "comparative" and d.end <= number.start), None)
    than = r"\s*(?:(?:\w+\s+){0,4}?than\s+)?" if led and (led.verb or led.in_time) else r"\s*(?:\w+\s+){0,5}?than\s+"
    if led is not None and re.fullmatch(than, reading.text[led.end : number.start]):
        column = measured_column(reading, led)
        if column is None:
            return None
        sign = ">" if direction_in(reading.view, led, column) > 0 else "<"
        return Condition(column, number=replace(number, comparator=number.comparator or sign), at=number.start)
    column = reading.column_of(number)
    if column is None and number.comparator:
        column = measured_column(reading, None)
    return None if column is None else Condition(column, number=number, at=number.start)


def conditions_of(reading: Reading, without: CellValue | None = None) -> list[Condition]:
    """What a text demands of rows, in the order in which it says so."""
    numbers = [number for number in reading.numbers if number is not without]
    numeric = [numeric_condition(reading, number) for number in numbers]
    return sorted([*reading.conditions, *filter(None, numeric)], key=lambda condition: condition.at)


def rows_meant(reading: Reading, conditions: Sequence[Condition]) -> tuple[int, ...]:
    """Rows that satisfy some conditions; all where there are none."""
    return tuple(Filter(tuple(conditions)).rows(reading.view))


def trend_of(reading: Reading) -> tuple[Trend, int, int] | None:
    """What moves along what, and where the text says along what: the clause that begins with "as", "sorted by" …"""
    columns = reading.numeric_columns
    cue = pattern("ordered").search(reading.text)
    inside = [(c, m) for c, m in columns if cue and m.start >= cue.end()]
    if cue is None or len(columns) < 2 or not inside:
        return None
    order, mention = min(inside, key=lambda item: item[1].start)
    others = [(c, m) for c, m in columns if c != order]
    comma = reading.text.find(",", mention.end)
    after = [m.start for c, m in others if m.start > mention.end] + ([comma] if comma >= 0 else [])
    end = min([len(reading.text), *after])
    falling = [sign for at, sign in moves(reading.text) if cue.start() <= at < end and not reading.masked(at)]
    descending = re.search(r"\bdescending\b|\bfrom (?:high|large|great)\w* to\b", reading.text[cue.start() : end])
    direction = -1 if (falling and falling[0] < 0) or descending else 1
    return Trend(others[0][0], order, direction), cue.start(), end


def further_words(reading: Reading) -> frozenset[str]:
    """Content words that are neither the table's nor words of degree, operation or frame."""
    spans = [(word.start, word.end) for word in reading.degrees]
    # "The most expensive bridge": the noun behind a superlative says what the rows are, not what is said of them.
    ends = [word.end for word in reading.degrees if word.kind == "superlative"]
    spans += [(end, end + noun.end()) for end in ends if (noun := re.match(r"\s+\w+", reading.text[end:]))]
    spans += [(m.start, m.end) for m in reading.mentions] + [(n.start, n.end) for n in reading.numbers]
    return frozenset(
        word.stem
        for word in reading.words
        if word.raw not in STOP_WORDS
        and word.stem not in stems("frame")
        and not any(start <= word.start < end for start, end in spans)
    )


def denied(reading: Reading) -> bool:
    """Whether a text denies what it says; "not as deep as" is a comparison and denies nothing."""
    return any(
        not reading.masked(match.start()) and not any(d.start <= match.start() < d.end for d in reading.degrees)
        for match in pattern("not").finditer(reading.text)
    )


def names_something_else(reading: Reading) -> bool:
    """Whether one thing is meant whose name was not read: "of a red squirel" wants no mean of all animals.

    Behind an article a word, in the singular, that stands in some rows' names says so; "of the cities" and "per city" mean them all.
    """
    words, rows = reading.words, len(reading.view.body)
    for k, word in enumerate(words):
        led = any(before.raw in _ARTICLES for before in words[max(0, k - _LONGEST_NAME) : k])
        each = k > 0 and words[k - 1].raw in {"per", "each", "every"}
        if not led or each or word.raw.endswith("s") or word.raw in STOP_WORDS or reading.masked(word.start):
            continue
        if 0 < len(rows_named_with(reading.view, word)) <= rows / 2:
            return True
    return False
