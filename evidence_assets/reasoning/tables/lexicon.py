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
_WORD = re.compile(r"[^\W_]+(?:-[^\W\d_]+)?")


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


@lru_cache(maxsize=64)
def stems(name: str) -> frozenset[str]:
    return frozenset(stem(word) for word in words(name))


def _compiled(alternatives: list[str], end: str = "") -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(alternatives)})\b{end}", re.IGNORECASE)


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

    ``direction``: 1 where it asks for greater numbers, -1 for smaller ones.
    ``rank``: 2 in "second largest".
    ``headers``: Stems that headers of the columns which it measures tend to hold.
    ``in_time``: Its direction among dates, 0 where it does not speak of time.
    ``verb``: Whether no "than" leads to what it is set against.
    ``judging``: Whether it turns round where less is better: the best time is the shortest.
    ``sure``: False for the words by which papers speak of results, which do not always compare.
    """

    kind: Kind
    direction: int
    start: int
    end: int
    rank: int = 1
    headers: frozenset[str] = frozenset()
    in_time: int = 0
    verb: bool = False
    judging: bool = False
    sure: bool = True


# What is known of a word of degree wherever it stands; the places are filled in there.
_Forms = dict[str, Degree]


def _measuring(kind: Kind, direction: int, headers: str, *, old: bool = False, verb: bool = False) -> Degree:
    marks = headers.split()
    in_time = direction * (-1 if old else 1) if "TIME" in marks else 0
    named = frozenset(stem(word) for word in marks if word.islower())
    return Degree(kind, direction, 0, 0, 1, named, in_time, verb, "JUDGING" in marks)


@lru_cache(maxsize=1)
def _adjectives() -> tuple[_Forms, _Forms]:
    """Comparatives and superlatives, and adjectives as they stand behind "more"; "more" serves two, of which the first
    is as good."""
    forms: _Forms = {}
    bare: _Forms = {}
    for base, (direction, headers) in mapping("adjectives").items():
        more = _measuring("comparative", direction, headers, old=base in words("turned_in_time"))
        bare[base] = more
        if base in words("periphrastic"):
            continue
        root = base[:-1] + "i" if base.endswith("y") else base.removesuffix("e")
        root += base[-1] if base in words("doubled") else ""
        comparative, superlative = mapping("irregular").get(base, (root + "er", root + "est"))
        forms.setdefault(comparative, more)
        forms.setdefault(superlative, replace(more, kind="superlative"))
    for word, direction in mapping("extremes").items():
        forms.setdefault(word, Degree("superlative", direction, 0, 0))
    return forms, bare


@lru_cache(maxsize=1)
def _phrases() -> tuple[tuple[re.Pattern[str], Degree], ...]:
    """Comparisons that are no forms of an adjective."""
    entries = _lexicon()
    places = [(_compiled(said), Degree("superlative", d, 0, 0, rank)) for d, rank, said in entries["places"]]
    verbs = [(_compiled(said), _measuring("comparative", d, heads, verb=True)) for d, heads, said in entries["verbs"]]
    results = [
        (_compiled(said), Degree(kind, d, 0, 0, verb=True, judging=True, sure=False))
        for kind, d, said in entries["results"]
    ]
    return (*places, *verbs, *results)


def degrees(text: str, masked: Callable[[int], bool] = lambda _: False) -> tuple[Degree, ...]:
    """Words of degree in order, those at masked positions left out.

    >>> [(d.kind, d.direction, d.rank) for d in degrees("Is the second deepest lake colder than the others?")]
    [('superlative', 1, 2), ('comparative', -1, 1)]
    """
    found: list[Degree] = []
    said = [(match.group().lower(), match.start(), match.end()) for match in _WORD.finditer(text)]
    said = [word for word in said if not masked(word[1])] + [("", len(text), len(text))]
    (forms, bare), ordinals = _adjectives(), mapping("ordinals")
    for k, (word, start, end) in enumerate(said[:-1]):
        if found and start < found[-1].end:
            continue
        lead, _, last = word.rpartition("-")
        rank = ordinals.get(lead) or ordinals.get(said[k - 1][0] if k else "", 1)
        following, _, end_of_both = said[k + 1]
        if word in {"more", "most", "less", "least"} and following in bare:
            degree = replace(bare[following], kind="comparative" if word in {"more", "less"} else "superlative")
            sign = -1 if word in {"less", "least"} else 1
            signed = replace(degree, direction=sign * degree.direction, in_time=sign * degree.in_time)
            found.append(replace(signed, start=start, end=end_of_both, rank=rank))
        elif (form := forms.get(last if lead in ordinals else word)) and not (
            word == "top" and following in {"of", "to"}
        ):
            found.append(replace(form, start=start, end=end, rank=rank))
    for phrase, degree in _phrases():
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
