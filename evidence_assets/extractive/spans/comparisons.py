"""Comparisons of two things by what two statements say of them: "Which is longer, the north path or the mill path?".

Each side needs a clause about it with one value: an amount of the measure that is asked for, a year, or a number of
what is counted. Without one, or if clauses give different values, the comparison has no answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from evidence_assets.extractive.spans.frequent_questions import CitedAnswer
from evidence_assets.extractive.spans.matching_sentences import agrees, content_stems
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
from evidence_assets.text.tokens import LISTS, Word, asks_yes_or_no, split_tokens

_ALTERNATIVES = re.compile(r"(?P<frame>[^,:]+)[,:] *(?P<first>[^,:]+?) or (?P<second>[^,:]+?)\W*$")
_CLAUSE_MARK = re.compile(r"[,;] +(?:and |but |while |whereas )?| (?:and|but|while|whereas) ")
_YEAR = "year"
"""Header of degree words that compare years."""
_DATE = "date"
"""The unit of a year."""
_NAMED_MEASURES = frozenset(("length", "duration"))
"""Measures whose unit does not say what is measured: 14 metres may be a height or a width."""

_BOUNDS = frozenset(("before", "after", "until", "by", "over", "under", "than", "least", "most", "to"))
"""Before a number, these say that the value is another one."""
_RATE_MARKS = frozenset(("per", "a", "an", "each", "every", "for"))


class _Amount(NamedTuple):
    """A number and its unit, or what it counts; ``rate`` is what it is for, such as "night" in "20 euros per night"."""

    value: float
    unit: str
    rate: str = ""


class _Comparison(NamedTuple):
    question: str
    degree: DegreeWord
    sides: tuple[str, str]
    shared: frozenset[str]
    """Stems that the clauses of both sides must have."""
    optional: frozenset[str]
    """Stems of the noun that the sides are of: "honey" of "which honey"."""
    counted: str
    """The stem of the noun after "more" or "fewer"; else empty."""


def compare_statements(question: str, passages: Sequence[Passage]) -> CitedAnswer | None:
    """The answer to a comparison of two things; None if the passages do not settle it."""
    comparison = _parse_comparison(question)
    if comparison is None or not _can_compare(comparison):
        return None
    first = _find_value(comparison, 0, passages)
    second = _find_value(comparison, 1, passages)
    if first is None or second is None:
        return None
    difference = _subtract(first[0], second[0])
    if not difference:
        return None
    is_reversed = comparison.degree.is_age and first[0].unit == _DATE
    is_first = ((difference > 0) == (comparison.degree.direction > 0)) != is_reversed
    answer = ("yes" if is_first else "no") if asks_yes_or_no(question) else comparison.sides[not is_first]
    evidence_ids = dict.fromkeys(passage.item.evidence_id for _, passage in (first, second))
    return CitedAnswer(answer, tuple(evidence_ids), (first[1].text, second[1].text))


def _subtract(first: _Amount, second: _Amount) -> float:
    """The difference of two amounts in the same unit; 0 if their units have none in common, or their rates differ."""
    if first.rate != second.rate:
        return 0
    if stem(first.unit) == stem(second.unit):
        return first.value - second.value
    units = {first.unit, second.unit}
    factors: dict[str, float] = next((kind for kind in load_lexicon()["units"] if kind.keys() >= units), {})
    return first.value * factors.get(first.unit, 0) - second.value * factors.get(second.unit, 0)


def _parse_comparison(question: str) -> _Comparison | None:
    """What a question with one degree word compares: "Which is longer, A or B?", "Is A longer than B?"."""
    match = _ALTERNATIVES.match(question)
    frame = match["frame"] if match else question
    degree = next(iter(find_degree_words(frame)), None)
    if degree is None or len(find_degree_words(frame)) > 1:
        return None
    before = frame[: degree.start]
    after, *rivals = pattern("than_marker").split(frame[degree.end :])
    if match is not None and not rivals:
        sides = (match["first"].strip(), match["second"].strip())
    elif asks_yes_or_no(question) and len(rivals) == 1:
        sides = (before.partition(" ")[2].strip(), rivals[0].strip(" ?"))
        before = ""
    else:
        return None
    focus = analyze_question(before)
    optional = frozenset(focus.words[n].stem for n in focus.head)
    shared = frozenset(content_stems(split_tokens(f"{before} {after}"))) - optional
    counted = "" if degree.headers else next(iter(content_stems(split_tokens(after))), "")
    return _Comparison(question, degree, sides, shared, optional, counted)


def _can_compare(comparison: _Comparison) -> bool:
    """Whether a comparison says what it measures, and has two sides with names."""
    if comparison.degree.kind == "superlative" and _YEAR not in comparison.degree.headers:
        return False
    has_names = all(content_stems(split_tokens(side)) and not re.search(r"\d", side) for side in comparison.sides)
    is_measured = bool(comparison.degree.headers or comparison.counted)
    return is_measured and has_names and len({*map(str.casefold, comparison.sides)}) == 2


def _find_value(comparison: _Comparison, n: int, passages: Sequence[Passage]) -> tuple[_Amount, Passage] | None:
    """The one value that clauses about a side give, and its passage; None without one or if they differ."""
    values = dict[_Amount, Passage]()
    for passage in passages:
        for clause in _CLAUSE_MARK.split(passage.text):
            words = split_tokens(clause)
            if _is_about(words, n, comparison) and agrees(comparison.question, clause):
                amounts = list(_read_amounts(words, comparison))
                values |= {amounts[0]: passage} if len(amounts) == 1 else {}
    return next(iter(values.items())) if len(values) == 1 else None


def _is_about(words: Sequence[Word], n: int, comparison: _Comparison) -> bool:
    """Whether a clause begins with a side and has the other words of the question, but not the other side."""
    side, other = (frozenset(content_stems(split_tokens(comparison.sides[m]))) for m in (n, 1 - n))
    stems = [word.stem for word in words]
    if not side | comparison.shared <= {*stems} or (other - side and other <= {*stems}):
        return False
    end = max(stems.index(each) for each in side)
    before = content_stems([word for word in words[: end + 1] if not word.is_number])
    return {*before} <= side | comparison.shared | comparison.optional


def _read_amounts(words: Sequence[Word], comparison: _Comparison) -> Iterator[_Amount]:
    """Amounts of a clause that the comparison may measure."""
    for n, word in enumerate(words):
        if word.is_number and not word.is_ordinal and (n == 0 or words[n - 1].lower not in _BOUNDS):
            unit = _find_unit(words, n, comparison)
            values = parse_values(word.text if word.text[0].isdigit() else stem(word.lower))
            if unit and values:
                rate = "" if unit == _DATE else _find_rate(words[n + 1 :])
                yield _Amount(values[0].value, unit, rate)


def _find_rate(after: Sequence[Word]) -> str:
    """The stems of what the amount before these words is for, such as a night; empty if they name nothing."""
    marks = [n for n, word in enumerate(after[:2]) if word.lower in _RATE_MARKS]
    if not marks:
        return ""
    nouns = [word.stem for word in after[marks[0] + 1 :] if word.is_content]
    return " ".join(nouns[:2])


def _find_unit(words: Sequence[Word], n: int, comparison: _Comparison) -> str:
    """The unit of a number in a clause, or what it counts; empty if the question compares something else."""
    if comparison.counted:
        return comparison.counted if comparison.counted in [word.stem for word in words[n + 1 : n + 3]] else ""
    headers = comparison.degree.headers
    is_named = bool(comparison.shared) or any(_names_measure(word, headers) for word in words)
    unit = next(filter(measures_of_unit, (*words[n + 1 : n + 2], *words[max(0, n - 1) : n])), None)
    if unit is None:
        return _DATE if words[n].is_year and _YEAR in headers and is_named else ""
    measures = {name for name in MEASURES if headers & {*map(stem, LISTS[f"{name}_measures"])}}
    common = measures_of_unit(unit) & measures
    return unit.lower if common - _NAMED_MEASURES or (common and is_named) else ""


def _names_measure(word: Word, headers: frozenset[str]) -> bool:
    """Whether a word names what is compared: "wide" or "width" for "wider", "takes" for "longer"."""
    if measures_of_unit(word):
        return False  # "for 31 years" states no age
    marks = load_adjectives().get(word.lower, (0, ""))[1]
    if marks:  # "long" may be a height, but "30 metres long" states none
        return frozenset(map(stem, filter(str.islower, marks.split()))) == headers
    return not headers.isdisjoint((stem(word.lower), *related_headers(word.lower)))
