"""The words of the reader, loaded from ``lexicon.yaml``: sets of words, patterns, and words of degree in a text.

What belongs here: general English, the same for every table. Which cells a word is about is worked out in `reading`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

import yaml

from evidence_assets.reasoning.tables.text import stem

Kind = Literal["comparative", "superlative"]
_WORD = re.compile(r"[^\W_]+")


@lru_cache(maxsize=1)
def _lexicon() -> dict[str, Any]:
    text = files(__package__).joinpath("lexicon.yaml").read_text(encoding="utf-8")
    lexicon: dict[str, Any] = yaml.safe_load(text)
    return lexicon


def mapping(name: str) -> dict[str, Any]:
    """An entry of the lexicon that leads from words to something; several words of one line are told apart."""
    entry: dict[str, Any] = _lexicon()[name]
    return entry


@lru_cache(maxsize=64)
def words(name: str) -> frozenset[str]:
    return frozenset(_lexicon()[name].split())


def _compiled(alternatives: list[str]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(alternatives)})\b", re.IGNORECASE)


@lru_cache(maxsize=128)
def pattern(name: str) -> re.Pattern[str]:
    """Any of the alternatives of an entry, as whole words."""
    return _compiled(_lexicon()[name])


def says(name: str, text: str) -> bool:
    """Whether a text holds any of the alternatives of an entry."""
    return pattern(name).search(text) is not None


@dataclass(frozen=True)
class Degree:
    """A word of degree.

    ``direction``: 1 where it asks for greater numbers, -1 for smaller ones; ``in_time`` among dates, 0 where it does not
        speak of time.
    ``headers``: Stems that headers of the columns which it measures tend to hold.
    ``judging``: Whether it turns round where less is better: the best time is the shortest.
    ``sure``: False for the words by which papers speak of results, which do not always compare.
    """

    kind: Kind
    direction: int
    start: int = 0
    end: int = 0
    in_time: int = 0
    headers: frozenset[str] = frozenset()
    judging: bool = False
    sure: bool = True


@lru_cache(maxsize=1)
def _adjectives() -> tuple[dict[str, Degree], dict[str, Degree]]:
    """Comparatives and superlatives, and adjectives as they stand behind "more"."""
    forms: dict[str, Degree] = {}
    bare: dict[str, Degree] = {}
    for direction, name in ((1, "greater"), (-1, "smaller")):
        for base in words(name):
            in_time = direction * (-1 if base in words("turned_in_time") else 1) if base in words("timed") else 0
            measured = (marks for adjectives, marks in mapping("measured_in").items() if base in adjectives.split())
            headers = frozenset(stem(word) for marks in measured for word in marks.split())
            more = Degree("comparative", direction, 0, 0, in_time, headers, base in words("judging"))
            bare[base] = more
            if base in words("periphrastic"):
                continue
            root = base[:-1] + "i" if base.endswith("y") else base.removesuffix("e")
            root += base[-1] if base in words("doubled") else ""
            comparative, superlative = mapping("irregular").get(base, (root + "er", root + "est"))
            forms[comparative] = more
            forms[superlative] = replace(more, kind="superlative")
    for word, direction in mapping("extremes").items():
        forms[word] = Degree("superlative", direction)
    return forms, bare


@lru_cache(maxsize=1)
def _results() -> tuple[tuple[re.Pattern[str], Degree], ...]:
    """What papers say of results, which is no form of an adjective."""
    entries = _lexicon()["results"]
    return tuple((_compiled(said), Degree(kind, d, judging=True, sure=False)) for kind, d, said in entries)


def degrees(text: str, masked: Callable[[int], bool] = lambda _: False) -> tuple[Degree, ...]:
    """Words of degree in order, those at masked positions left out.

    >>> [(d.kind, d.direction) for d in degrees("Is the deepest lake less cold than the others?")]
    [('superlative', 1), ('comparative', 1)]
    """
    found: list[Degree] = []
    said = [(match.group().lower(), match.start(), match.end()) for match in _WORD.finditer(text)]
    said = [word for word in said if not masked(word[1])] + [("", len(text), len(text))]
    forms, bare = _adjectives()
    for k, (word, start, end) in enumerate(said[:-1]):
        if found and start < found[-1].end:
            continue
        following, _, end_of_both = said[k + 1]
        if word in {"more", "most", "less", "least"} and following in bare:
            degree = replace(bare[following], kind="comparative" if word in {"more", "less"} else "superlative")
            sign = -1 if word in {"less", "least"} else 1
            signed = replace(degree, direction=sign * degree.direction, in_time=sign * degree.in_time)
            found.append(replace(signed, start=start, end=end_of_both))
        elif word in forms:
            found.append(replace(forms[word], start=start, end=end))
    for phrase, degree in _results():
        for match in phrase.finditer(text):
            free = not any(d.start <= match.end() and match.start() <= d.end for d in found)
            if free and not masked(match.start()):
                found.append(replace(degree, start=match.start(), end=match.end()))
    return tuple(sorted(found, key=lambda degree: degree.start))


def moves(text: str) -> tuple[tuple[int, int], ...]:
    """Movements that a text speaks of, as (offset, sign): 1 up, -1 down, 0 level, 2 none that can be told.

    >>> [sign for _, sign in moves("it first falls and then rises")]
    [-1, 1]
    """
    signs = {"up": 1, "down": -1, "level": 0, "mixed": 2}
    return tuple(sorted((m.start(), sign) for name, sign in signs.items() for m in pattern(name).finditer(text)))


def squeezed(signs: list[int]) -> tuple[int, ...]:
    """Signs with repeats in a row left out."""
    return tuple(sign for k, sign in enumerate(signs) if k == 0 or sign != signs[k - 1])


def less_is_better(*names: str) -> bool:
    """Whether the names of a cell say that it holds an error, a cost or a time."""
    return any("↓" in name or says("less_is_better", name) for name in names)
