"""Where a text names rows, columns and cells of a table.

What belongs here: meeting the words of a question or claim with the table's own words, so that each word is read once,
as part of the longest name that it can belong to. Positions are offsets in the reading copy of the text.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from evidence_assets.reasoning.tables.lexicon import lexicon
from evidence_assets.reasoning.tables.text import STOP_WORDS, stem, tokens, without_unit
from evidence_assets.reasoning.tables.view import Place, TableView

_SHORTEST_ALIAS = 4
# The share of a name, its words weighed by how well they tell names apart, that must be said for it to be meant.
_NAMED = 0.6
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


@dataclass(frozen=True)
class Word:
    """A word of a text; names are compared by its root, the stem of its stem, so that "breeds" meets "breed"."""

    raw: str
    start: int
    end: int

    @property
    def stem(self) -> str:
        return stem(self.raw)

    @property
    def root(self) -> str:
        return stem(self.raw)


def words_in(plain: str) -> Iterator[Word]:
    """The words of a reading copy with their places."""
    folded, end = plain.lower(), 0
    for token in tokens(plain):
        start = max(folded.find(token, end), end)
        end = start + len(token) if folded.startswith(token, start) else start
        yield Word(token, start, end)


def mentions_in(view: TableView, plain: str, spoken: Sequence[Word]) -> tuple[Mention, ...]:
    """The names of a table in a text, in order."""
    whole = _whole_mentions(view, plain, spoken)
    free = [word for word in spoken if not any(m.start < word.end and word.start < m.end for m in whole)]
    return tuple(sorted([*whole, *_partial_mentions(view, free)], key=lambda mention: mention.start))


def _roots(name: str) -> tuple[str, ...]:
    found = [stem(token) for token in tokens(name)]
    return tuple(found[1:] if len(found) > 1 and found[0] == "the" else found)


def _forms(name: str) -> dict[str, None]:
    """A name, and the shorter ones that it goes by: what stands before its brackets or its colon."""
    short = re.sub(r"\s*\([^()]*\)", "", name).strip()
    return dict.fromkeys(form for form in (name, without_unit(name), short, name.split(":")[0].strip()) if form)


@dataclass(frozen=True)
class _Names:
    """Every name of a table, in roots, with the rows, columns and cells that bear it; and the names of lines by
    axis."""

    whole: dict[tuple[str, ...], tuple[set[Any], set[Any], set[Any]]]
    lines: tuple[dict[frozenset[str], set[Any]], dict[frozenset[str], set[Any]]]
    longest: int


@lru_cache(maxsize=16)  # the questions of a table mostly come together
def _names(view: TableView) -> _Names:
    whole: dict[tuple[str, ...], tuple[set[Any], set[Any], set[Any]]] = defaultdict(lambda: (set(), set(), set()))
    lines: tuple[dict[frozenset[str], set[Any]], dict[frozenset[str], set[Any]]] = defaultdict(set), defaultdict(set)
    borne: list[tuple[int, str, Any]] = [(1, view.shape.labels[j], j) for j in view.columns]
    for place in ((i, j) for i in view.body for j in view.columns):
        if place[1] in view.name_columns:
            borne.append((0, view.name_at(place), place))
        elif not _ONE_NUMBER.fullmatch(view.said(place)):
            borne.append((2, view.said(place), place))
    full = {(kind, _roots(name)) for kind, name, _ in borne}
    for kind, name, bearer in borne:
        for form in _forms(name):
            roots = _roots(form)
            # What one thing is called in full is no short name of another.
            if roots and (form == name or (kind, roots) not in full):
                whole[roots][kind].add(bearer)
                if kind < 2:
                    lines[kind][frozenset(roots)].add(bearer)
    return _Names(dict(whole), lines, max(map(len, whole), default=0))


def _whole_mentions(view: TableView, plain: str, spoken: Sequence[Word]) -> list[Mention]:
    known, roots = _names(view), [word.root for word in spoken]
    spans = [
        (start, start + length)
        for length in range(known.longest, 0, -1)
        for start in range(len(spoken) - length + 1)
        if tuple(roots[start : start + length]) in known.whole
    ]
    taken: set[int] = set()
    found: list[Mention] = []
    for start, end in spans:
        span = spoken[start:end]
        if taken & set(range(start, end)):
            continue
        names, columns, cells = (tuple(sorted(bearers)) for bearers in known.whole[tuple(roots[start:end])])
        mention = Mention(span[0].start, span[-1].end, names, columns, cells)
        if not _is_small(span) or _meant(view, plain, mention, found):
            taken |= set(range(start, end))
            found.append(mention)
    return found


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


def _partial_mentions(view: TableView, free: Sequence[Word]) -> Iterator[Mention]:
    """Lines of whose names the text says a word that no other line's name holds, or most of what tells it from
    others."""
    rows, columns = _names(view).lines
    at: dict[str, Word] = {}
    for word in free:
        for root in (word.root, *lexicon()["short_forms"].get(word.raw, "").split()):
            at.setdefault(root, word)
    found: dict[tuple[int, str], Mention] = {}
    for axis, names, others in (("names", rows, columns), ("columns", columns, rows)):
        for lines, held in _said_of(names, at, others):
            first = min((at[word] for word in held), key=lambda word: word.start)
            mention = Mention(first.start, first.end, **{axis: tuple(sorted(lines))}, whole=False)
            found.setdefault((first.start, axis), mention)
    yield from found.values()


def _said_of(
    names: Mapping[frozenset[str], set[Any]], at: Mapping[str, Word], others: Iterable[frozenset[str]]
) -> Iterator[tuple[set[Any], list[str]]]:
    """Lines whose names are said in part, with the words said."""
    frequency = Counter(word for name in names for word in name)
    bearers: dict[str, set[Any]] = defaultdict(set)
    for name, lines in names.items():
        for word in name:
            bearers[word] |= lines
    elsewhere = {word for name in others for word in name}
    weight = {word: math.log(1 + len(names) / count) for word, count in frequency.items()}
    shares: list[tuple[float, set[Any], list[str]]] = []
    for name, lines in names.items():
        told = [word for word in sorted(name) if word not in STOP_WORDS or len(word) == 1]
        held = [word for word in told if word in at]
        if not any((len(word) > 1 and not word.isdigit()) or len(at[word].raw) > len(word) for word in held):
            continue
        share = math.fsum(weight[word] for word in held) / math.fsum(weight[word] for word in told)
        if share >= _NAMED:
            shares.append((share, lines, held))
            continue
        for word in held:
            alone = len(bearers[word]) == 1 and word not in elsewhere and not word[0].isdigit()
            if alone and len(at[word].raw) >= _SHORTEST_ALIAS and at[word].raw not in STOP_WORDS:
                yield lines, [word]
                break
    for share, lines, held in shares:
        if not any(set(held) < set(more) and other >= share - 1e-9 for other, _, more in shares):
            yield lines, held
