"""Where a text names rows, columns and cells of a table, and which numbers it states besides.

What belongs here: meeting the words of a question or claim with the table's own words, so that each word is read once,
as part of the longest name that it can belong to. Positions are offsets in the reading copy of the text.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from evidence_assets.reasoning.tables.algebra import Condition
from evidence_assets.reasoning.tables.cells import CellValue, as_under
from evidence_assets.reasoning.tables.lexicon import Degree, degrees, mapping
from evidence_assets.reasoning.tables.quantities import is_numeric, numbers_in, only
from evidence_assets.reasoning.tables.text import STOP_WORDS, plain_text, stem, tokens, unit_in, without_unit
from evidence_assets.reasoning.tables.view import Place, TableView

_SHORTEST_ALIAS = 4
# The share of a name, its words weighed by how well they tell names apart, that must be said for it to be meant.
_NAMED = 0.6
_SMALL = frozenset({"a", "no", "not", "yes", "it", "on", "in", "as", "at", "i'm"})
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
        """The rows that it names."""
        return tuple(dict.fromkeys(i for i, _ in self.names))


@dataclass(frozen=True)
class Word:
    """A word of a text, as it is compared with names."""

    stem: str
    root: str
    raw: str
    start: int
    end: int


@dataclass(frozen=True)
class Reading:
    """A text read against a table; a question ``presumes`` that the table can answer it."""

    view: TableView
    text: str
    mentions: tuple[Mention, ...]
    numbers: tuple[CellValue, ...]
    words: tuple[Word, ...]
    presumes: bool = False

    @cached_property
    def cues(self) -> tuple[Degree, ...]:
        """Words of degree of the sentence itself, not of the names and numbers in it."""
        return degrees(self.text, self.masked)

    @property
    def degrees(self) -> tuple[Degree, ...]:
        """Those of them that surely compare: any where it is said which two things, and in what."""
        surely = len(self.rows) == 2 and len(self.columns) == 1
        return tuple(degree for degree in self.cues if degree.weight == 1 or surely)

    @cached_property
    def rows(self) -> tuple[tuple[int, Mention], ...]:
        """Rows named, each once, in order; a name of several rows names none of them."""
        found: dict[int, Mention] = {}
        for mention in self.mentions:
            if len(mention.rows) == 1 and mention not in self._values:
                found.setdefault(mention.rows[0], mention)
        return tuple(found.items())

    @cached_property
    def columns(self) -> tuple[tuple[int, Mention], ...]:
        """Columns named, each once, in order; those that name the rows are not among them."""
        found: dict[int, Mention] = {}
        for column, mention in self._column_names:
            if mention not in self._values:
                found.setdefault(column, mention)
        return tuple(found.items())

    @cached_property
    def _column_names(self) -> tuple[tuple[int, Mention], ...]:
        names = self.view.name_columns
        return tuple((c, m) for m in self.mentions for c in m.columns[:1] if c not in names)

    @cached_property
    def items(self) -> tuple[Mention, ...]:
        """Where the text says what the rows are rows of."""
        return tuple(m for m in self.mentions if set(m.columns) & set(self.view.name_columns))

    @property
    def numeric_columns(self) -> tuple[tuple[int, Mention], ...]:
        return tuple((column, mention) for column, mention in self.columns if is_numeric(self.view, column))

    @cached_property
    def _values(self) -> dict[Mention, int | None]:
        """Mentions read as values, with the named column that they belong to, if one is named."""
        found: dict[Mention, int | None] = {}
        for mention in self.mentions:
            if not mention.cells:
                continue
            holders = {column for _, column in mention.cells}
            named = [(c, m) for c, m in self._column_names if c in holders and m is not mention]
            column = min(named, key=lambda item: _gap(item[1], mention.start, mention.end))[0] if named else None
            # A name that is a row's too is a value where its column's name leads to it, or where the row is said.
            said = any(m.start < mention.start and set(m.rows) & set(mention.rows) for m in self.mentions)
            led = any(c == column and 0 <= mention.start - m.end <= 2 for c, m in self._column_names)
            if mention.rows and not (column is not None and (said or led)):
                continue
            if column is not None or not mention.columns:
                found[mention] = column
        return found

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """Cells that the text says rows to have."""
        found = []
        for mention, column in self._values.items():
            named = column is not None
            if column is None:
                column = Counter(j for _, j in mention.cells).most_common(1)[0][0]
            texts = frozenset(self.view.cell(place).plain for place in mention.cells if place[1] == column)
            found.append(Condition(column, texts, None, named, mention.start))
        return tuple(found)

    @cached_property
    def said(self) -> tuple[tuple[int | None, frozenset[Place]], ...]:
        """For each thing that the text says: its column, if one is named or can be told, and the cells that say it."""
        found: list[tuple[int | None, frozenset[Place]]] = []
        for mention in self.mentions:
            if not mention.whole or not (mention.names or mention.cells):
                continue
            column = self._values.get(mention)
            places = [place for place in (*mention.names, *mention.cells) if column in (None, place[1])]
            held = {j for _, j in places}
            if places and not (mention.columns and column is None):
                found.append((column if column is not None else only(held), frozenset(places)))
        for number in self.numbers:
            column = self.column_of(number)
            where = Condition(column, number=number).met(self.view) if column is not None else ()
            anywhere = ((i, j) for i in self.view.body for j in self.view.columns)
            places = [
                p
                for p in anywhere
                if (
                    p[0] in where and p[1] == column
                    if column is not None
                    else self.view.cell(p).number == number.value and not number.comparator
                )
            ]
            found.append((column, frozenset(places)))
        return tuple(found)

    def column_of(self, number: CellValue) -> int | None:
        """The named numeric column nearest to a number, or the only one whose header has the number's unit."""
        near = min(self.numeric_columns, key=lambda item: _gap(item[1], number.start, number.end), default=None)
        if near is not None:
            return near[0]
        labels = self.view.shape.labels
        fitting = (j for j in self.view.columns if number.unit and unit_in(labels[j]) == number.unit)
        return only(j for j in fitting if is_numeric(self.view, j))

    def masked(self, position: int) -> bool:
        """Whether a position lies within a whole name or a number, whose words are no words of the sentence."""
        return any(m.start <= position < m.end and m.whole for m in self.mentions) or any(
            value.start <= position < value.end for value in self.numbers
        )


def _gap(mention: Mention, start: int, end: int) -> tuple[int, bool]:
    """Distance between a mention and a stretch of text; at equal distance what stands before is nearer."""
    return (start - mention.end, False) if mention.start <= start else (mention.start - end, True)


def read_text(view: TableView, text: str, *, presumes: bool = False) -> Reading:
    """Read a text against the names of a table."""
    plain = plain_text(text)
    spoken = tuple(_positioned(plain))
    mentions = _whole_mentions(view, plain, spoken)
    mentions += _partial_mentions(view, spoken, [(m.start, m.end) for m in mentions])
    # "23 million" is written as 23 under "Cost (million)"; a text often means a column without naming it.
    heads = " ".join(view.shape.labels)
    stated = numbers_in(plain, [(m.start, m.end) for m in mentions])
    numbers = tuple(as_under(number, heads) for number in stated)
    return Reading(view, plain, tuple(sorted(mentions, key=lambda m: m.start)), numbers, spoken, presumes)


def _positioned(plain: str) -> Iterator[Word]:
    folded, position = plain.lower(), 0
    for token in tokens(plain):
        at = folded.find(token, position)
        start = at if at >= 0 else position
        position = start + len(token) if at >= 0 else position
        yield Word(stem(token), _root(token), token, start, max(position, start))


def _root(token: str) -> str:
    """Stem of the stem, so that "breeds" meets "breed", of which more is cut."""
    return stem(stem(token))


def _roots(name: str) -> tuple[str, ...]:
    found = [_root(token) for token in tokens(name)]
    return tuple(found[1:] if len(found) > 1 and found[0] == "the" else found)


def _forms(name: str) -> dict[str, None]:
    """A name, and the shorter ones that it goes by: what stands before its brackets or its colon."""
    short = re.sub(r"\s*\([^()]*\)", "", name).strip()
    return dict.fromkeys(form for form in (name, without_unit(name), short, name.split(":")[0].strip()) if form)


@dataclass(frozen=True)
class _Names:
    """Every name of a table, in roots, with the rows, columns and cells that bear it; and the names of lines by axis."""

    whole: dict[tuple[str, ...], tuple[set[Place], set[int], set[Place]]]
    rows: dict[frozenset[str], set[Place]]
    columns: dict[frozenset[str], set[int]]
    longest: int


@lru_cache(maxsize=16)  # the questions of a table mostly come together
def _names(view: TableView) -> _Names:
    whole: dict[tuple[str, ...], tuple[set[Place], set[int], set[Place]]] = defaultdict(lambda: (set(), set(), set()))
    rows: dict[frozenset[str], set[Place]] = defaultdict(set)
    columns: dict[frozenset[str], set[int]] = defaultdict(set)
    borne: list[tuple[int, str, Any]] = [(1, view.shape.labels[j], j) for j in view.columns]
    for place in ((i, j) for i in view.body for j in view.columns):
        if place[1] in view.name_columns:
            borne.append((0, view.name_at(place), place))
        elif not _ONE_NUMBER.fullmatch(view.cell(place).plain):
            borne.append((2, view.cell(place).plain, place))
    full = {(kind, _roots(name)) for kind, name, _ in borne}
    for kind, name, bearer in borne:
        for form in _forms(name):
            roots = _roots(form)
            # What one thing is called in full is no short name of another.
            if form == name or (kind, roots) not in full:
                whole[roots][kind].add(bearer)
                if kind < 2:
                    (rows, columns)[kind][frozenset(roots)].add(bearer)
    whole.pop((), None)
    return _Names(dict(whole), dict(rows), dict(columns), max(map(len, whole), default=0))


def _whole_mentions(view: TableView, plain: str, spoken: Sequence[Word]) -> list[Mention]:
    known = _names(view)
    matches = [
        (length, start)
        for start in range(len(spoken))
        for length in range(1, min(known.longest, len(spoken) - start) + 1)
        if tuple(word.root for word in spoken[start : start + length]) in known.whole
    ]
    taken: set[int] = set()
    found: list[Mention] = []
    for length, start in sorted(matches, key=lambda match: (-match[0], match[1])):
        span = spoken[start : start + length]
        if taken & set(range(start, start + length)):
            continue
        borne = known.whole[tuple(word.root for word in span)]
        mention = Mention(span[0].start, span[-1].end, *(tuple(sorted(bearers)) for bearers in borne))  # type: ignore[arg-type]
        if _is_small(span) and not _meant(view, plain, mention, found):
            continue
        taken |= set(range(start, start + length))
        found.append(mention)
    return found


def _is_small(span: Sequence[Word]) -> bool:
    """Whether a name could as well be a small word of the sentence: "no", "I", "C"; "3 - 2" could not."""
    return not all(len(span) > 1 and word.raw.isdigit() for word in span) and all(
        word.raw in STOP_WORDS or word.raw in {"no", "not", "yes"} or len(word.raw) == 1 for word in span
    )


def _meant(view: TableView, plain: str, small: Mention, found: Sequence[Mention]) -> bool:
    """Whether a small word is a name here: in quotes, behind its column's name, or written just as in the table."""
    written = plain[small.start : small.end]
    around = plain[small.start - 1 : small.start] if small.start else "", plain[small.end : small.end + 1]
    if all(sign and sign in _QUOTES for sign in around):
        return True
    if any({j for _, j in small.cells} & set(m.columns) and 0 < small.start - m.end <= 4 for m in found):
        return True
    plain_here = any(view.cell(place).plain == written for place in (*small.names, *small.cells))
    return written.isupper() and written.lower() not in _SMALL and plain_here


def _partial_mentions(view: TableView, spoken: Sequence[Word], taken: Sequence[tuple[int, int]]) -> list[Mention]:
    """Lines of whose names the text says a word that no other line's name holds, or most of what tells it from others."""
    known = _names(view)
    at: dict[str, list[Word]] = defaultdict(list)
    numbered: set[str] = set()
    for k, word in enumerate(spoken):
        if not any(start < word.end and word.start < end for start, end in taken):
            at[word.root].append(word)
            # Beside a number, as in "Apollo 13", the number tells rows apart.
            if any(0 <= n < len(spoken) and spoken[n].raw[0].isdigit() for n in (k - 1, k + 1)):
                numbered.add(word.root)
            for short in mapping("short_forms").get(word.raw, "").split():
                at[short].append(word)
    found: dict[tuple[int, int], Mention] = {}
    for axis, names in (("names", known.rows), ("columns", known.columns)):
        for lines, held, alone in _said_of(names, at, known.columns if axis == "names" else known.rows):
            first = min((spot for word in held for spot in at[word]), key=lambda spot: spot.start)
            if not alone or axis == "columns" or not numbered & set(held):
                mention = Mention(first.start, first.end, **{axis: tuple(sorted(lines))}, whole=False)
                found.setdefault((first.start, axis == "names"), mention)
    return list(found.values())


def _said_of(
    names: Mapping[frozenset[str], set[Any]], at: Mapping[str, list[Word]], others: Iterable[frozenset[str]]
) -> Iterator[tuple[set[Any], list[str], bool]]:
    """Lines whose names are said in part, the words said, and whether a single telling word is all that is said."""
    frequency = Counter(word for name in names for word in name)
    lines: dict[str, set[Any]] = defaultdict(set)
    for name, bearers in names.items():
        for word in name:
            lines[word] |= bearers
    elsewhere = {word for name in others for word in name}
    weight = {word: math.log(1 + len(names) / count) for word, count in frequency.items()}
    shares: list[tuple[float, set[Any], list[str]]] = []
    for name, bearers in names.items():
        told = [word for word in sorted(name) if word not in STOP_WORDS or len(word) == 1]
        held = [word for word in told if word in at]
        if not any((len(word) > 1 and not word.isdigit()) or len(at[word][0].raw) > len(word) for word in held):
            continue
        share = math.fsum(weight[word] for word in held) / math.fsum(weight[word] for word in told)
        if share >= _NAMED:
            shares.append((share, bearers, held))
        else:
            telling = [w for w in held if len(lines[w]) == 1 and w not in elsewhere and not w[0].isdigit()]
            telling = [w for w in telling if len(at[w][0].raw) >= _SHORTEST_ALIAS and at[w][0].raw not in STOP_WORDS]
            if telling:
                yield bearers, telling[:1], True
    for share, bearers, held in shares:
        if not any(set(held) < set(more) and other >= share - 1e-9 for other, _, more in shares):
            yield bearers, held, False


def rows_named_with(view: TableView, word: Word) -> frozenset[int]:
    """The rows in whose names a word stands."""
    return frozenset(i for name, places in _names(view).rows.items() if word.root in name for i, _ in places)
