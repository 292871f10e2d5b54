"""The reader's vocabulary, loaded from ``lexicon.yaml``: word sets, patterns, and words of degree in a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from itertools import groupby
from typing import Any, Literal

import yaml

from evidence_assets.reasoning.tables.text import stem
from evidence_assets.text.words import words_with_offsets

Kind = Literal["comparative", "superlative"]


@lru_cache(maxsize=1)
def lexicon() -> dict[str, Any]:
    """All entries by name."""
    entries: dict[str, Any] = yaml.safe_load(files(__package__).joinpath("lexicon.yaml").read_text(encoding="utf-8"))
    return entries


@lru_cache(maxsize=64)
def words(name: str) -> frozenset[str]:
    """The words of an entry."""
    return frozenset(lexicon()[name].split())


def _compiled(alternatives: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(alternatives)})\b", re.IGNORECASE)


@lru_cache(maxsize=128)
def pattern(name: str) -> re.Pattern[str]:
    """Any of the alternatives of an entry, as whole words."""
    return _compiled(lexicon()[name])


@dataclass(frozen=True)
class Degree:
    """A word of degree, by default without its place."""

    kind: Kind
    direction: int  # 1 where it asks for greater numbers, -1 for smaller ones
    start: int = 0
    end: int = 0
    rank: int = 1  # 2 in "second largest"
    headers: frozenset[str] = frozenset()  # stems that headers of the columns which it measures tend to contain
    in_time: int = 0  # its direction among dates, 0 where it does not speak of time
    verb: bool = False  # whether no "than" leads to what it is set against
    judging: bool = False  # whether it turns round where less is better: the best time is the shortest


def _degree(kind: Kind, direction: int, marks: str) -> Degree:
    """A degree from an entry of the lexicon, without its place."""
    flags = set(marks.split())
    return Degree(
        kind,
        direction,
        rank=next((int(mark) for mark in flags if mark.isdigit()), 1),
        headers=frozenset(stem(mark) for mark in flags if mark.islower()),
        in_time=direction * (("TIME" in flags) - ("AGE" in flags)),
        verb="VERB" in flags,
        judging="JUDGING" in flags,
    )


@lru_cache(maxsize=1)
def adjectives() -> dict[str, tuple[int, str]]:
    """Direction and marks of each adjective."""
    entries = lexicon()["adjectives"]
    greater = {word: (1, marks) for marks, words_, _ in entries for word in words_.split()}
    return greater | {word: (-1, marks) for marks, _, words_ in entries for word in words_.split()}


@lru_cache(maxsize=4096)
def _adjective_form(word: str) -> Degree | None:
    """The degree that a comparative or superlative expresses; None for other words."""
    forms = [lexicon()["irregular"].get(word, ("", "comparative"))]
    for ending, kind in (("er", "comparative"), ("est", "superlative")):
        if word.endswith(ending):
            root = word.removesuffix(ending)
            forms += [(base, kind) for base in (root, root + "e", root[:-1], root[:-1] + "y")]
    return next((_degree(kind, *adjectives()[base]) for base, kind in forms if base in adjectives()), None)


@lru_cache(maxsize=1)
def _phrases() -> tuple[tuple[re.Pattern[str], Degree], ...]:
    """Comparisons that are no forms of an adjective."""
    return tuple((_compiled(said), _degree(kind, sign, marks)) for kind, sign, marks, said in lexicon()["phrases"])


def degrees(text: str, masked: Callable[[int], bool] = lambda _: False) -> tuple[Degree, ...]:
    """Words of degree in order, those at masked positions left out."""
    found: list[Degree] = []
    spoken = [(word.lower(), start, end) for word, start, end in words_with_offsets(text) if not masked(start)]
    ordinals = lexicon()["ordinals"]
    for k, (word, start, end) in enumerate(spoken):
        if found and start < found[-1].end:
            continue
        rank = ordinals.get(spoken[k - 1][0] if k else "", 1)
        following, _, end_of_both = spoken[k + 1] if k + 1 < len(spoken) else ("", end, end)
        if word in {"more", "most", "less", "least"} and following in adjectives():
            direction, marks = adjectives()[following]
            sign = -1 if word in {"less", "least"} else 1
            kind: Kind = "comparative" if word in {"more", "less"} else "superlative"
            found.append(replace(_degree(kind, sign * direction, marks), start=start, end=end_of_both, rank=rank))
        elif form := _adjective_form(word):
            found.append(replace(form, start=start, end=end, rank=rank))
    for phrase, degree in _phrases():
        for match in phrase.finditer(text):
            free = not any(d.start <= match.end() and match.start() <= d.end for d in found)
            if free and not masked(match.start()):
                found.append(replace(degree, start=match.start(), end=match.end()))
    return tuple(sorted(found, key=lambda degree: degree.start))


def moves(text: str) -> tuple[tuple[int, int], ...]:
    """Movements that a text speaks of, as (offset, sign): 1 up, -1 down, 0 level, 2 none that can be told."""
    signs = {"up": 1, "down": -1, "level": 0, "mixed": 2}
    return tuple(sorted((m.start(), sign) for name, sign in signs.items() for m in pattern(name).finditer(text)))


def squeezed(signs: Iterable[int]) -> tuple[int, ...]:
    """Signs with repeats in a row left out."""
    return tuple(sign for sign, _ in groupby(signs))


def less_is_better(*names: str) -> bool:
    """Whether the names of a cell say that it holds an error, a cost or a time."""
    return any("↓" in name or pattern("less_is_better").search(name) for name in names)
