"""The words of the reader, loaded from ``lexicon.yaml``: sets of words, patterns, and words of degree in a text.

What belongs here: general English, the same for every table. Which cells a word is about is worked out in `reader`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
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
    """A set of words."""
    return frozenset(_lexicon()[name].split())


@lru_cache(maxsize=64)
def stems(name: str) -> frozenset[str]:
    """The stems of a set of words."""
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

    Attributes
    ----------
    direction
        1 where it asks for greater numbers, -1 for smaller ones.
    rank
        2 in "second largest".
    headers
        Stems that headers of the columns which it measures tend to hold.
    in_time
        Its direction among dates, 0 where it does not speak of time.
    verb
        Whether no "than" leads to what it is set against.
    judging
        Whether it turns round where less is better: the best time is the shortest.
    weight
        How surely it compares at all; under 1 for the words by which papers speak of results.
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
    weight: float = 1.0


@lru_cache(maxsize=1)
def _forms() -> dict[str, tuple[Kind, str]]:
    """Comparatives and superlatives with their adjectives; "more" and "less" serve two, of which the first is as good."""
    forms: dict[str, tuple[Kind, str]] = {}
    for base in mapping("adjectives"):
        if base in words("periphrastic"):
            continue
        root = base[:-1] + "i" if base.endswith("y") else base.removesuffix("e")
        root += base[-1] if base in words("doubled") else ""
        more, most = mapping("irregular").get(base, (root + "er", root + "est"))
        forms.setdefault(more, ("comparative", base))
        forms.setdefault(most, ("superlative", base))
    return forms


def _degree(
    kind: Kind,
    direction: int,
    headers: str,
    start: int,
    end: int,
    rank: int = 1,
    *,
    old: bool = False,
    verb: bool = False,
) -> Degree:
    marks = headers.split()
    in_time = direction * (-1 if old else 1) if "TIME" in marks else 0
    named = frozenset(stem(word) for word in marks if word.islower())
    return Degree(kind, direction, start, end, rank, named, in_time, verb, "JUDGING" in marks)


def _of_adjective(kind: Kind, base: str, sign: int, start: int, end: int, rank: int = 1) -> Degree:
    direction, usual = mapping("adjectives")[base]
    old = base in words("turned_in_time")
    return _degree(kind, sign * direction, usual, start, end, rank, old=old)


@lru_cache(maxsize=1)
def _phrases() -> tuple[tuple[re.Pattern[str], Callable[[int, int], Degree]], ...]:
    """Comparisons that are no forms of an adjective, each with the degree that it is where it stands."""
    lexicon = _lexicon()
    verbs = [
        (_compiled(said), lambda a, b, d=d, h=h: _degree("comparative", d, h, a, b, verb=True))
        for d, h, said in lexicon["verbs"]
    ]
    places = [
        (_compiled(said), lambda a, b, d=d, r=r: Degree("superlative", d, a, b, r)) for d, r, said in lexicon["places"]
    ]
    results = [
        (_compiled(said), lambda a, b, k=k, d=d: Degree(k, d, a, b, verb=True, judging=True, weight=0.5))
        for k, d, said in lexicon["results"]
    ]
    return (*places, *verbs, *results)


def degrees(text: str, masked: Callable[[int], bool] = lambda _: False) -> tuple[Degree, ...]:
    """Words of degree in order, those at masked positions left out.

    Examples
    --------
    >>> [(d.kind, d.direction, d.rank) for d in degrees("Is the second deepest lake colder than the others?")]
    [('superlative', 1, 2), ('comparative', -1, 1)]
    """
    found: list[Degree] = []
    tokens = [(match.group().lower(), match.start(), match.end()) for match in _WORD.finditer(text)]
    tokens = [token for token in tokens if not masked(token[1])] + [("", len(text), len(text))]
    ordinals, extremes, adjectives, forms = mapping("ordinals"), mapping("extremes"), mapping("adjectives"), _forms()
    for k, (word, start, end) in enumerate(tokens[:-1]):
        if found and start < found[-1].end:
            continue
        lead, _, last = word.rpartition("-")
        rank = ordinals.get(lead) or ordinals.get(tokens[k - 1][0] if k else "", 1)
        word = last if lead in ordinals else word
        following = tokens[k + 1]
        if word in {"more", "most", "less", "least"} and following[0] in adjectives:
            kind: Kind = "comparative" if word in {"more", "less"} else "superlative"
            sign = -1 if word in {"less", "least"} else 1
            found.append(_of_adjective(kind, following[0], sign, start, following[2], rank))
        elif word in forms:
            found.append(_of_adjective(*forms[word], 1, start, end, rank))
        elif word in extremes and not (word == "top" and following[0] in {"of", "to"}):
            found.append(Degree("superlative", extremes[word], start, end, rank))
    for phrase, degree in _phrases():
        for match in phrase.finditer(text):
            free = not any(d.start <= match.end() and match.start() <= d.end for d in found)
            if free and not masked(match.start()):
                found.append(degree(match.start(), match.end()))
    return tuple(sorted(found, key=lambda degree: degree.start))


def moves(text: str) -> tuple[tuple[int, int], ...]:
    """Movements that a text speaks of, as (offset, sign): 1 up, -1 down, 0 level, 2 none that can be told.

    Examples
    --------
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
