"""The solver's vocabulary from ``lexicon.yaml``: word lists, phrase patterns, comparatives and superlatives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

import yaml

from evidence_assets.reasoning.tables.cell_text import collect_words, stem
from evidence_assets.text.words import words_with_offsets

DegreeKind = Literal["comparative", "superlative"]


@lru_cache(maxsize=1)
def load_lexicon() -> dict[str, Any]:
    """All entries by key."""
    entries: dict[str, Any] = yaml.safe_load(files(__package__).joinpath("lexicon.yaml").read_text(encoding="utf-8"))
    return entries


@lru_cache(maxsize=64)
def word_list(key: str) -> frozenset[str]:
    """The words of an entry."""
    return frozenset(load_lexicon()[key].split())


def _compile_phrases(phrases: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(phrases)})\b", re.IGNORECASE)


@lru_cache(maxsize=128)
def pattern(key: str) -> re.Pattern[str]:
    """A pattern that matches any phrase of an entry as whole words."""
    return _compile_phrases(load_lexicon()[key])


@dataclass(frozen=True)
class DegreeWord:
    """A comparative or superlative; its offsets are 0 until it is found in a text."""

    kind: DegreeKind
    direction: int  # 1 for greater numbers, -1 for smaller ones
    start: int = 0
    end: int = 0
    rank: int = 1  # 2 in "second largest"
    headers: frozenset[str] = frozenset()  # stems in the headers of columns that it measures
    is_age: bool = False  # reversed among dates: the oldest has the earliest date
    is_verb: bool = False  # a verb needs no "than" before the rival
    is_evaluative: bool = False  # reversed where lower is better: the best time is the shortest


def _degree_word(kind: DegreeKind, direction: int, marks: str) -> DegreeWord:
    """A degree word from the marks of a lexicon entry."""
    flags = set(marks.split())
    return DegreeWord(
        kind,
        direction,
        rank=next((int(mark) for mark in flags if mark.isdigit()), 1),
        headers=frozenset(stem(mark) for mark in flags if mark.islower()),
        is_age="AGE" in flags,
        is_verb="VERB" in flags,
        is_evaluative="EVALUATIVE" in flags,
    )


@lru_cache(maxsize=1)
def load_adjectives() -> dict[str, tuple[int, str]]:
    """Direction and marks of each adjective."""
    entries = load_lexicon()["adjectives"]
    greater = {word: (1, marks) for marks, adjectives, _ in entries for word in adjectives.split()}
    return greater | {word: (-1, marks) for marks, _, adjectives in entries for word in adjectives.split()}


def _list_same_columns() -> list[list[str]]:
    """Words that ask for the same column."""
    return [group.split() for line in load_lexicon()["same_columns"] for group in line.split("/")]


@lru_cache(maxsize=4096)
def related_headers(word: str) -> tuple[str, ...]:
    """Stems in headers of columns that a word asks for, the closest first: "cost" asks for "price", "long" "length"."""
    same = [name for group in _list_same_columns() if stem(word) in map(stem, group) for name in group]
    marks = load_adjectives().get(word, (0, ""))[1].split()
    headers = " ".join(names for words, names in load_lexicon()["asks_for"].items() if word in words.split()).split()
    return tuple(dict.fromkeys(stem(name) for name in [*same, *headers, *filter(str.islower, marks)]))


@lru_cache(maxsize=4096)
def normalize_header(header: str) -> frozenset[str]:
    """The stems of a header, of words that ask for the same column those of the first one: "price" for "cost"."""
    first = {stem(name): stem(group[0]) for group in _list_same_columns() for name in group}
    return frozenset(first.get(word, word) for word in collect_words(header))


@lru_cache(maxsize=4096)
def measures_of(unit: str) -> frozenset[str]:
    """Stems of what a unit measures: "min" a duration, "€" a price."""
    lines = load_lexicon()["measured_in"].items()
    return frozenset(stem(name) for units, names in lines if unit.casefold() in units.split() for name in names.split())


@lru_cache(maxsize=4096)
def _parse_adjective(word: str) -> DegreeWord | None:
    """The degree word for an inflected adjective; None for other words."""
    forms = [load_lexicon()["irregular_forms"].get(word, ("", "comparative"))]
    for ending, kind in (("er", "comparative"), ("est", "superlative")):
        if word.endswith(ending):
            root = word.removesuffix(ending)
            forms += [(base, kind) for base in (root, root + "e", root[:-1], root[:-1] + "y")]
    adjectives = load_adjectives()
    return next((_degree_word(kind, *adjectives[base]) for base, kind in forms if base in adjectives), None)


@lru_cache(maxsize=1)
def _load_phrases() -> tuple[tuple[re.Pattern[str], DegreeWord], ...]:
    """Comparisons that are not forms of an adjective."""
    entries = load_lexicon()["degree_phrases"]
    return tuple((_compile_phrases(phrases), _degree_word(kind, sign, marks)) for kind, sign, marks, phrases in entries)


def find_degree_words(text: str, is_masked: Callable[[int], bool] = lambda _: False) -> tuple[DegreeWord, ...]:
    """Degree words in order, except at masked offsets."""
    degrees = _find_adjectives(text, is_masked)
    for phrase, degree in _load_phrases():
        for match in phrase.finditer(text):
            is_free = not any(d.start <= match.end() and match.start() <= d.end for d in degrees)
            if is_free and not is_masked(match.start()):
                degrees.append(replace(degree, start=match.start(), end=match.end()))
    return tuple(sorted(degrees, key=lambda degree: degree.start))


def _find_adjectives(text: str, is_masked: Callable[[int], bool]) -> list[DegreeWord]:
    """Inflected adjectives and those after "more", "most", "less" or "least", with the rank before them."""
    degrees: list[DegreeWord] = []
    words = [(word.lower(), start, end) for word, start, end in words_with_offsets(text) if not is_masked(start)]
    for (before, _, _), (word, start, end), (after, _, end_after) in zip(
        [("", 0, 0), *words], words, [*words[1:], ("", 0, 0)], strict=False
    ):
        degree = _parse_adjective(word)
        if degree is None or (degrees and start < degrees[-1].end) or text[:start].endswith("at "):
            continue  # "at most one hour"
        if word in {"more", "most", "less", "least"} and after in load_adjectives():
            direction, marks = load_adjectives()[after]
            degree = _degree_word(degree.kind, degree.direction * direction, marks)
            end = end_after
        degrees.append(replace(degree, start=start, end=end, rank=load_lexicon()["ordinals"].get(before, 1)))
    return degrees


def is_lower_better(*names: str) -> bool:
    """Whether the names of a row or column denote an error, a cost or a time."""
    return any("↓" in name or pattern("lower_is_better").search(name) for name in names)
