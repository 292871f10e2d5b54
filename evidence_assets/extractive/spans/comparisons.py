"""Comparisons of two things by what two statements say of them: "Which is longer, the north path or the mill path?".

Each side needs a clause about it with one value: an amount of the measure that is asked for, a year, or a number of
what is counted. Without one, or if clauses give different values, the comparison has no answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evidence_assets.extractive.spans.matching_sentences import content_stems
from evidence_assets.extractive.spans.passages import Passage
from evidence_assets.extractive.spans.questions import MEASURES, analyze_question, measures_of_unit
from evidence_assets.reasoning.tables.cell_text import stem
from evidence_assets.reasoning.tables.cells import parse_values
from evidence_assets.reasoning.tables.lexicon import (
    DegreeWord,
    find_degree_words,
    load_adjectives,
    load_lexicon,
    pattern,
    related_headers,
)
from evidence_assets.text.negation import is_denial
from evidence_assets.text.tokens import LISTS, Word, asks_yes_or_no, split_tokens

_ALTERNATIVES = re.compile(r"(?P<frame>[^,:]+)[,:] *(?P<first>[^,:]+?) or (?P<second>[^,:]+?)\W*$")
_CLAUSE_MARK = re.compile(r"[,;] +(?:and |but |while |whereas )?| (?:and|but|while|whereas) ")
_YEAR = "year"
"""Header of degree words that compare years."""
_NAMED_MEASURES = frozenset(("length", "duration"))
"""Measures whose unit does not say what is measured: 14 metres may be a height or a width."""


@dataclass(frozen=True)
class ComparisonAnswer:
    """The side that is compared as asked for, or yes or no, and the evidence of both sides."""

    text: str
    evidence_ids: tuple[str, ...]


class _Comparison(NamedTuple):
    degree: DegreeWord
    sides: tuple[str, str]
    shared: frozenset[str]
    """Stems that the clauses of both sides must have."""
    optional: frozenset[str]
    """Stems of the noun that the sides are of: "honey" of "which honey"."""
    counted: str
    """The stem of the noun after "more" or "fewer"; else empty."""
    is_yes_no: bool


class _Value(NamedTuple):
    amount: float
    unit: str
    evidence_id: str


def compare_statements(question: str, passages: Sequence[Passage]) -> ComparisonAnswer | None:
    """The answer to a comparison of two things; None if the passages do not settle it."""
    comparison = _parse_comparison(question)
    if comparison is None:
        return None
    first, second = (_find_value(comparison, n, passages) for n in (0, 1))
    if first is None or second is None:
        return None
    factors = [_find_factor(value.unit, (first.unit, second.unit)) for value in (first, second)]
    difference = first.amount * factors[0] - second.amount * factors[1]
    degree = comparison.degree
    direction = -degree.direction if degree.is_age and first.unit == _YEAR else degree.direction
    if not difference or difference != difference or (first.unit == _YEAR) != (second.unit == _YEAR):
        return None
    is_first = direction * difference > 0
    answer = ("yes" if is_first else "no") if comparison.is_yes_no else comparison.sides[not is_first]
    return ComparisonAnswer(answer, tuple(dict.fromkeys((first.evidence_id, second.evidence_id))))


def _find_factor(unit: str, units: tuple[str, str]) -> float:
    """What makes amounts of two units comparable; NaN if nothing does."""
    if stem(units[0]) == stem(units[1]):
        return 1.0
    kind: dict[str, float] = next((kind for kind in load_lexicon()["units"] if kind.keys() >= {*units}), {})
    return kind.get(unit, float("nan"))


def _parse_comparison(question: str) -> _Comparison | None:
    is_yes_no = asks_yes_or_no(question)
    match = None if is_yes_no else _ALTERNATIVES.match(question)
    frame = question if match is None else match["frame"]
    degree = next(iter(find_degree_words(frame)), None)
    than = pattern("than_marker").search(frame)
    if degree is None or len(find_degree_words(frame)) > 1 or (match is None) != (than is not None):
        return None
    if match is not None:
        focus = analyze_question(frame)
        optional = frozenset(focus.words[n].stem for n in focus.head)
        shared = content_stems(split_tokens(f"{frame[: degree.start]} {frame[degree.end :]}"))
        sides = match["first"].strip(), match["second"].strip()
    elif is_yes_no and than is not None and degree.end <= than.start():
        optional = frozenset[str]()
        shared = content_stems(split_tokens(frame[degree.end : than.start()]))
        sides = frame[: degree.start].partition(" ")[2].strip(), frame[than.end() :].strip(" ?")
    else:
        return None
    if degree.kind == "superlative" and not degree.headers & {_YEAR}:
        return None
    counted = "" if degree.headers else next(iter(content_stems(split_tokens(frame[degree.end :]))), "")
    is_measured = degree.headers or counted
    has_names = all(content_stems(split_tokens(side)) and not re.search(r"\d", side) for side in sides)
    comparison = _Comparison(degree, sides, frozenset(shared) - optional, optional, counted, is_yes_no)
    return comparison if is_measured and has_names and len({*map(str.casefold, sides)}) == 2 else None


def _find_value(comparison: _Comparison, n: int, passages: Sequence[Passage]) -> _Value | None:
    """The one value that clauses about a side give; None without one or if they differ."""
    values = {(value.amount, value.unit): value for value in _list_values(comparison, n, passages)}
    return next(iter(values.values())) if len(values) == 1 else None


def _list_values(comparison: _Comparison, n: int, passages: Sequence[Passage]) -> Iterator[_Value]:
    side, other = (frozenset(content_stems(split_tokens(comparison.sides[m]))) for m in (n, 1 - n))
    for passage in passages:
        for clause in _CLAUSE_MARK.split(passage.text):
            words = split_tokens(clause)
            if not _is_about(words, side, other, comparison) or is_denial(clause):
                continue
            values = list(_read_values(words, comparison))
            if len(values) == 1:
                yield _Value(*values[0], passage.item.evidence_id)


def _is_about(words: Sequence[Word], side: frozenset[str], other: frozenset[str], comparison: _Comparison) -> bool:
    """Whether a clause begins with a side, has the other words of the question, and is no conjecture."""
    stems = [word.stem for word in words]
    if not side | comparison.shared <= {*stems} or (other - side and other <= {*stems}):
        return False
    if any(word.lower in LISTS["hedges"] | LISTS["restrictions"] for word in words):
        return False
    end = max(stems.index(each) for each in side)
    before = content_stems([word for word in words[: end + 1] if not word.is_number])
    return {*before} <= side | comparison.shared | comparison.optional


def _read_values(words: Sequence[Word], comparison: _Comparison) -> Iterator[tuple[float, str]]:
    """Amounts of a clause that the comparison may measure, with their units."""
    degree = comparison.degree
    measures = {name for name in MEASURES if degree.headers & {*map(stem, LISTS[f"{name}_measures"])}}
    is_named = bool(comparison.shared) or any(_names_measure(word, degree) for word in words)
    for n, word in enumerate(words):
        if not word.is_number or word.is_ordinal:
            continue
        units = [each for each in (*words[n + 1 : n + 2], *words[max(0, n - 1) : n]) if measures_of_unit(each)]
        unit = units[0] if units else None
        if comparison.counted:
            if comparison.counted in [each.stem for each in words[n + 1 : n + 3]]:
                yield _read_number(word), comparison.counted
        elif word.is_year and unit is None:
            if degree.headers & {_YEAR} and is_named:
                yield _read_number(word), _YEAR
        elif unit is not None:
            common = measures_of_unit(unit) & measures
            if common - _NAMED_MEASURES or (common and is_named):
                yield _read_number(word), unit.lower


def _read_number(word: Word) -> float:
    values = parse_values(word.text if word.text[0].isdigit() else stem(word.lower))
    return values[0].value if values else float("nan")


def _names_measure(word: Word, degree: DegreeWord) -> bool:
    """Whether a word names what is compared: "wide" or "width" for "wider", "takes" for "longer"."""
    if measures_of_unit(word):
        return False  # "for 31 years" states no age
    marks = load_adjectives().get(word.lower, (0, ""))[1]
    if marks:
        return frozenset(map(stem, filter(str.islower, marks.split()))) == degree.headers
    return not degree.headers.isdisjoint((stem(word.lower), *related_headers(word.lower)))
