"""Where a text names rows, columns and cells of a table: each word is read once, in the longest name that it fits."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from evidence_assets.reasoning.tables.table import Place, TableView
from evidence_assets.reasoning.tables.text import STOP_WORDS, stem, tokens, tokens_at, without_unit

_SHORTEST_ALIAS = 4
# The share of the words of a name that must be said for it to be meant.
_LEAST_SHARE = 0.6
_NEVER_NAMES = frozenset({"a", "no", "not", "yes", "it", "on", "in", "as", "at", "i'm"})
_QUOTES = "'‘’\"“”"
# A cell that is one number is no name; "3 - 2" is.
_ONE_NUMBER = re.compile(r"[\s%+<>≤≥≈~-]*(?:\d[\d.,]*)?[\s%+<>≤≥≈~-]*")


@dataclass(frozen=True)
class Mention:
    """A stretch of text that is a name in the table: in cells that name rows, of columns, in the other cells.

    ``whole`` is false where only telling words of the name are said ("depth" for "Greatest depth").
    """

    start: int
    end: int
    names: tuple[Place, ...] = ()
    columns: tuple[int, ...] = ()
    cells: tuple[Place, ...] = ()
    whole: bool = True

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(i for i, _ in self.names))

    @property
    def places(self) -> tuple[Place, ...]:
        return (*self.names, *self.cells)


class Word(NamedTuple):
    """A word of a text, its stem and its offsets."""

    raw: str
    stem: str
    start: int
    end: int


def mentions_in(view: TableView, plain: str) -> tuple[Mention, ...]:
    """The names of a table in the reading copy of a text, in order."""
    words = [Word(token, stem(token), start, end) for token, start, end in tokens_at(plain)]
    whole = _whole_mentions(view, plain, words)
    free = [word for word in words if not any(m.start < word.end and word.start < m.end for m in whole)]
    return tuple(sorted([*whole, *_partial_mentions(view, free)], key=lambda mention: mention.start))


_Bearers = tuple[set[Any], set[Any], set[Any]]


@lru_cache(maxsize=16)  # the questions of a table mostly come together
def _names(view: TableView) -> dict[tuple[str, ...], _Bearers]:
    """Every name of a table, in stems, with the rows' names, columns and cells that bear it."""
    names: dict[tuple[str, ...], _Bearers] = defaultdict(lambda: (set(), set(), set()))
    borne: list[tuple[int, str, Any]] = [(1, view.labels[j], j) for j in view.columns]
    for place in ((i, j) for i in view.body for j in view.columns):
        if place[1] in view.name_columns:
            borne.append((0, view.name_at(place), place))
        elif not _ONE_NUMBER.fullmatch(view.said(place)):
            borne.append((2, view.said(place), place))
    full = {(kind, _stems(name)) for kind, name, _ in borne}
    for kind, name, bearer in borne:
        # A name also goes by what stands before its brackets or its colon, unless another is called so in full.
        without_brackets = re.sub(r"\s*\([^()]*\)", "", name).strip()
        for form in dict.fromkeys([name, without_unit(name), without_brackets, name.split(":")[0].strip()]):
            stems = _stems(form)
            if stems and (form == name or (kind, stems) not in full):
                names[stems][kind].add(bearer)
    return names


def _stems(name: str) -> tuple[str, ...]:
    stems = tuple(map(stem, tokens(name)))
    return stems[1:] if len(stems) > 1 and stems[0] == "the" else stems


def _whole_mentions(view: TableView, plain: str, words: Sequence[Word]) -> list[Mention]:
    names, stems = _names(view), [word.stem for word in words]
    longest = max(map(len, names), default=0)
    spans = (range(start, start + n) for n in range(longest, 0, -1) for start in range(len(words) - n + 1))
    taken: set[int] = set()
    mentions: list[Mention] = []
    for span in spans:
        name = tuple(stems[span.start : span.stop])
        if name not in names or taken & set(span):
            continue
        row_names, columns, cells = (tuple(sorted(bearers)) for bearers in names[name])
        mention = Mention(words[span.start].start, words[span.stop - 1].end, row_names, columns, cells)
        if not _is_small(words[span.start : span.stop]) or _is_meant(view, plain, mention, mentions):
            taken |= set(span)
            mentions.append(mention)
    return mentions


def _is_small(span: Sequence[Word]) -> bool:
    """Whether a name could as well be a small word of the sentence: "no", "I", "C"; "3 - 2" could not."""
    if len(span) > 1 and all(word.raw.isdigit() for word in span):
        return False
    return all(word.raw in STOP_WORDS or word.raw in _NEVER_NAMES or len(word.raw) == 1 for word in span)


def _is_meant(view: TableView, plain: str, small: Mention, others: Sequence[Mention]) -> bool:
    """Whether a small word is a name here: in quotes, behind its column's name, or written just as in the table."""
    written, around = plain[small.start : small.end], f" {plain} "[small.start : small.end + 2]
    quoted = around[0] in _QUOTES and around[-1] in _QUOTES
    led = any({j for _, j in small.cells} & set(m.columns) and 0 < small.start - m.end <= 4 for m in others)
    as_is = written.isupper() and written.lower() not in _NEVER_NAMES
    return quoted or led or (as_is and any(view.said(place) == written for place in small.places))


def _partial_mentions(view: TableView, free: Sequence[Word]) -> Iterator[Mention]:
    """Lines of whose names the text says most of the words, or a word that no other line's name holds."""
    at = {word.stem: word for word in reversed(free)}
    lines_of: dict[str, set[tuple[str, Any]]] = defaultdict(set)
    names = [
        (axis, frozenset(name), bearers)
        for name, (row_names, columns, _) in _names(view).items()
        for axis, bearers in (("names", row_names), ("columns", columns))
        if bearers
    ]
    for axis, name, bearers in names:
        for word in name:
            lines_of[word] |= {(axis, bearer) for bearer in bearers}
    mentions: dict[tuple[int, str], Mention] = {}
    for axis, name, bearers in names:
        telling = [word for word in name if word not in STOP_WORDS]
        said = [at[word] for word in telling if word in at and len(word) > 1 and not word[0].isdigit()]
        alone = [word for word in said if len(lines_of[word.stem]) == 1 and len(word.raw) >= _SHORTEST_ALIAS]
        if said and (alone or len(said) >= _LEAST_SHARE * len(telling)):
            first = min(said, key=lambda word: word.start)
            mention = Mention(first.start, first.end, **{axis: tuple(sorted(bearers))}, whole=False)
            mentions.setdefault((first.start, axis), mention)
    yield from mentions.values()
