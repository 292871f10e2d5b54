"""Where a text names rows, columns and cells of a table.

What belongs here: meeting the words of a question or claim with the table's own words, so that each word is read once,
as part of the longest name that it can belong to. Positions are offsets in the reading copy of the text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from evidence_assets.reasoning.tables.text import STOP_WORDS, stem, tokens, without_unit
from evidence_assets.reasoning.tables.view import Place, TableView

_NEVER_NAMES = frozenset({"a", "no", "not", "yes", "it", "on", "in", "as", "at", "i'm"})
_QUOTES = "'‘’\"“”"
# A cell that is one number is no name; "3 - 2" is.
_ONE_NUMBER = re.compile(r"[\s%+<>≤≥≈~-]*(?:\d[\d.,]*)?[\s%+<>≤≥≈~-]*")


@dataclass(frozen=True)
class Mention:
    """A stretch of text that is a name in the table: in cells that name rows, of columns, in the other cells."""

    start: int
    end: int
    names: tuple[Place, ...] = ()
    columns: tuple[int, ...] = ()
    cells: tuple[Place, ...] = ()

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(i for i, _ in self.names))

    @property
    def places(self) -> tuple[Place, ...]:
        return (*self.names, *self.cells)


@dataclass(frozen=True)
class Word:
    """A word of a text; names are compared by its root, the stem of its stem, so that "breeds" meets "breed"."""

    raw: str
    start: int
    end: int

    @property
    def root(self) -> str:
        return stem(stem(self.raw))


def words_in(plain: str) -> Iterator[Word]:
    """The words of a reading copy with their places."""
    folded, end = plain.lower(), 0
    for token in tokens(plain):
        start = max(folded.find(token, end), end)
        end = start + len(token) if folded.startswith(token, start) else start
        yield Word(token, start, end)


def _roots(name: str) -> tuple[str, ...]:
    return tuple(stem(stem(token)) for token in tokens(name))


def _forms(name: str) -> dict[str, None]:
    """A name, and the shorter ones that it goes by: what stands before its brackets or its colon."""
    short = re.sub(r"\s*\([^()]*\)", "", name).strip()
    return dict.fromkeys(form for form in (name, without_unit(name), short, name.split(":")[0].strip()) if form)


_Names = dict[tuple[str, ...], tuple[set[Place], set[int], set[Place]]]


@lru_cache(maxsize=16)  # the questions of a table mostly come together
def _names(view: TableView) -> _Names:
    """Every name of a table, in roots, with the row names, columns and other cells that bear it."""
    names: _Names = defaultdict(lambda: (set(), set(), set()))
    for j in view.columns:
        for form in _forms(view.shape.labels[j]):
            names[_roots(form)][1].add(j)
        for place in ((i, j) for i in view.body):
            if j in view.name_columns or not _ONE_NUMBER.fullmatch(view.said(place)):
                for form in _forms(view.said(place)):
                    rows, _, cells = names[_roots(form)]
                    (rows if j in view.name_columns else cells).add(place)
    names.pop((), None)
    return dict(names)


def mentions_in(view: TableView, plain: str) -> tuple[Mention, ...]:
    """The names of a table in a text, in order."""
    known, spoken = _names(view), list(words_in(plain))
    roots = [word.root for word in spoken]
    spans = [
        (start, start + length)
        for length in range(max(map(len, known), default=0), 0, -1)
        for start in range(len(spoken) - length + 1)
        if tuple(roots[start : start + length]) in known
    ]
    taken: set[int] = set()
    found: list[Mention] = []
    for start, end in spans:
        span = spoken[start:end]
        if taken & set(range(start, end)):
            continue
        rows, columns, cells = known[tuple(roots[start:end])]
        mention = Mention(
            span[0].start, span[-1].end, tuple(sorted(rows)), tuple(sorted(columns)), tuple(sorted(cells))
        )
        if not _is_small(span) or _meant(view, plain, mention, found):
            taken |= set(range(start, end))
            found.append(mention)
    return tuple(sorted(found, key=lambda mention: mention.start))


def _is_small(span: Sequence[Word]) -> bool:
    """Whether a name could as well be a small word of the sentence: "no", "I", "C"; "3 - 2" could not."""
    if len(span) > 1 and all(word.raw.isdigit() for word in span):
        return False
    return all(word.raw in STOP_WORDS or word.raw in _NEVER_NAMES or len(word.raw) == 1 for word in span)


def _meant(view: TableView, plain: str, small: Mention, found: Sequence[Mention]) -> bool:
    """Whether a small word is a name here: in quotes, behind its column's name, or written just as in the table."""
    written, around = plain[small.start : small.end], f" {plain} "[small.start : small.end + 2]
    quoted = around[0] in _QUOTES and around[-1] in _QUOTES
    led = any({j for _, j in small.cells} & set(m.columns) and 0 < small.start - m.end <= 4 for m in found)
    as_is = written.isupper() and written.lower() not in _NEVER_NAMES
    return quoted or led or (as_is and any(view.said(place) == written for place in small.places))
