"""Where a text names rows, columns and cells of a table, and which numbers it states besides.

What belongs here: meeting the words of a question or claim with the table's own words, so that each word is read once,
as part of the longest name that it can belong to. Positions are offsets in the reading copy of the text.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from evidence_assets.reasoning.tables.cells import CellValue, as_under, parse_values
from evidence_assets.reasoning.tables.english import irregular_base
from evidence_assets.reasoning.tables.quantities import is_numeric, only
from evidence_assets.reasoning.tables.text import STOP_WORDS, plain_text, stem, tokens, unit_in, without_unit
from evidence_assets.reasoning.tables.view import Place, TableView

VERSION = "4"

_NUMBER_WORDS = {
    word: value
    for value, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())  # noqa: SIM905
}
_SHORTEST_ALIAS = 4
# The names of so many views are kept: the questions of a table mostly come together.
_VIEWS_KEPT = 16
_QUOTES = "'‘’\"“”"


@dataclass(frozen=True)
class Mention:
    """A stretch of text that is a name in the table: of rows, of columns, and of cells beside the row names.

    ``whole`` is false where only a telling word of the name is said ("depth" for "Greatest depth").
    """

    start: int
    end: int
    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    cells: tuple[Place, ...] = ()
    whole: bool = True


@dataclass(frozen=True)
class Condition:
    """What a row must satisfy: its cell in ``column`` is one of ``texts``, or compares with ``number`` as stated."""

    column: int
    texts: frozenset[str] = frozenset()
    number: CellValue | None = None
    named: bool = True
    """Whether the text names the column too."""
    at: int = 0


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
    """A text read against a table."""

    view: TableView
    text: str
    mentions: tuple[Mention, ...]
    numbers: tuple[CellValue, ...]
    words: tuple[Word, ...]

    @cached_property
    def rows(self) -> tuple[tuple[int, Mention], ...]:
        """Rows named, each once, in order; a name of several rows names none of them."""
        found: dict[int, Mention] = {}
        values = {id(mention) for mention, _ in self._values}
        for mention in self.mentions:
            if len(mention.rows) == 1 and id(mention) not in values:
                found.setdefault(mention.rows[0], mention)
        return tuple(found.items())

    @cached_property
    def columns(self) -> tuple[tuple[int, Mention], ...]:
        """Columns named, each once, in order; those that name the rows are not among them."""
        values = {id(mention) for mention, _ in self._values}
        found: dict[int, Mention] = {}
        for column, mention in self._column_names:
            if id(mention) not in values:
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
    def _values(self) -> tuple[tuple[Mention, int | None], ...]:
        """Mentions read as values, with the named column that they belong to, if one is named."""
        found: list[tuple[Mention, int | None]] = []
        for mention in self.mentions:
            if not mention.cells:
                continue
            holders = {column for _, column in mention.cells}
            named = [(c, m) for c, m in self._column_names if c in holders and m is not mention]
            column = min(named, key=lambda item: _gap(item[1], mention.start, mention.end))[0] if named else None
            # A name that is a row's too is a value where its column's name leads to it, or where the row is said.
            said = any(m.start < mention.start and set(m.rows) & set(mention.rows) for m in self.mentions)
            if mention.rows and not (column is not None and (said or self._led_by(mention, column))):
                continue
            if column is not None or not mention.columns:
                found.append((mention, column))
        return tuple(found)

    def _led_by(self, mention: Mention, column: int) -> bool:
        return any(c == column and 0 <= mention.start - m.end <= 2 for c, m in self._column_names)

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """Cells that the text says rows to have."""
        found = []
        for mention, column in self._values:
            named = column is not None
            if column is None:
                column = Counter(j for _, j in mention.cells).most_common(1)[0][0]
            texts = frozenset(self.view.cell(place).plain for place in mention.cells if place[1] == column)
            found.append(Condition(column, texts, None, named, mention.start))
        return tuple(found)

    def column_of(self, number: CellValue) -> int | None:
        """The named numeric column nearest to a number, or the only one whose header has the number's unit."""
        near = min(self.numeric_columns, key=lambda item: _gap(item[1], number.start, number.end), default=None)
        if near is not None:
            return near[0]
        return only(
            j
            for j in self.view.columns
            if number.unit and unit_in(self.view.shape.labels[j]) == number.unit and is_numeric(self.view, j)
        )

    def masked(self, position: int) -> bool:
        """Whether a position lies within a whole name or a number, whose words are no words of the sentence."""
        return any(m.start <= position < m.end and m.whole for m in self.mentions) or any(
            value.start <= position < value.end for value in self.numbers
        )


def _gap(mention: Mention, start: int, end: int) -> tuple[int, bool]:
    """Distance between a mention and a stretch of text; at equal distance what stands before is nearer."""
    return (start - mention.end, False) if mention.start <= start else (mention.start - end, True)


def read_text(view: TableView, text: str) -> Reading:
    """Read a text against the names of a table."""
    plain = plain_text(text)
    words = tuple(_positioned(plain))
    mentions = _whole_mentions(view, plain, words)
    taken = [(m.start, m.end) for m in mentions]
    mentions += _partial_mentions(view, words, taken)
    # "23 million" is written as 23 under "Cost (million)"; a text often means a column without naming it.
    heads = " ".join(view.shape.labels)
    stated = _numbers(plain, words, [(m.start, m.end) for m in mentions if m.rows or m.columns or m.cells])
    numbers = tuple(as_under(number, heads) for number in stated)
    return Reading(view, plain, tuple(sorted(mentions, key=lambda m: m.start)), numbers, words)


def _positioned(plain: str) -> Iterator[Word]:
    folded, position = plain.lower(), 0
    for token in tokens(plain):
        at = folded.find(token, position)
        start = at if at >= 0 else position
        position = start + len(token) if at >= 0 else position
        yield Word(stem(token), _root(token), token, start, max(position, start))


def _root(token: str) -> str:
    """Stem of the stem, so that "breeds" meets "breed", of which more is cut; "built" meets "building"."""
    return stem(stem(irregular_base(token)))


def _stems(name: str) -> tuple[str, ...]:
    found = [_root(token) for token in tokens(name)]
    return tuple(found[1:] if len(found) > 1 and found[0] == "the" else found)


@dataclass(frozen=True)
class _Names:
    """Every name of a table, in stems, with the rows, columns and cells that bear it; and every word of a row's or
    column's name with the rows and columns whose name holds it."""

    whole: dict[tuple[str, ...], tuple[set[int], set[int], set[Place]]]
    words: dict[str, tuple[set[int], set[int]]]
    longest: int


@lru_cache(maxsize=_VIEWS_KEPT)
def _names(view: TableView) -> _Names:
    whole: dict[tuple[str, ...], tuple[set[int], set[int], set[Place]]] = defaultdict(lambda: (set(), set(), set()))
    words: dict[str, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
    for j in view.columns:
        label = view.shape.labels[j]
        for name in {label, without_unit(label)}:
            whole[_stems(name)][1].add(j)
        for root in _stems(without_unit(label)):
            words[root][1].add(j)
    for i in view.body:
        for j in view.columns:
            text = view.cell((i, j)).plain
            if not text:
                continue
            if j in view.name_columns:
                for name in {text, without_unit(text)}:
                    whole[_stems(name)][0].add(i)
                for root in _stems(text):
                    words[root][0].add(i)
            elif not re.fullmatch(r"[\d.,\s%+<>≤≥≈~-]+", text):
                for name in {text, without_unit(text)}:
                    whole[_stems(name)][2].add((i, j))
    whole.pop((), None)
    return _Names(dict(whole), dict(words), max(map(len, whole), default=0))


def _whole_mentions(view: TableView, plain: str, words: Sequence[Word]) -> list[Mention]:
    known = _names(view)
    names, longest = known.whole, known.longest
    stems = [word.root for word in words]
    matches = []
    for start in range(len(words)):
        for length in range(1, min(longest, len(words) - start) + 1):
            name = tuple(stems[start : start + length])
            if name in names:
                matches.append((start, length, name))
    matches.sort(key=lambda match: (-match[1], match[0]))
    taken: set[int] = set()
    found: list[Mention] = []
    for start, length, name in matches:
        span = range(start, start + length)
        if taken & set(span):
            continue
        first, last = words[start], words[start + length - 1]
        rows, columns, cells = names[name]
        if _is_small(words[start : start + length]) and not _meant(view, plain, first, last, rows, cells, found):
            continue
        taken |= set(span)
        found.append(Mention(first.start, last.end, tuple(sorted(rows)), tuple(sorted(columns)), tuple(sorted(cells))))
    return found


def _is_small(words: Sequence[Word]) -> bool:
    """Whether a name could as well be a small word of the sentence: "no", "I", "C"."""
    return all(word.raw in STOP_WORDS or word.raw in {"no", "not", "yes"} or len(word.raw) == 1 for word in words)


def _meant(
    view: TableView, plain: str, first: Word, last: Word, rows: set[int], cells: set[Place], found: Sequence[Mention]
) -> bool:
    """Whether a small word is a name here: in quotes, behind its column's name, or written just as in the table."""
    quoted = plain[max(0, first.start - 1) : first.start] in _QUOTES and plain[last.end : last.end + 1] in _QUOTES
    if quoted and first.start > 0 and last.end < len(plain):
        return True
    for mention in found:
        if set(mention.columns) & {j for _, j in cells} and 0 < first.start - mention.end <= 4:
            return True
    written = plain[first.start : last.end]
    if written.lower() in {"a", "no", "not", "yes", "it", "on", "in", "as", "at", "i'm"}:
        return False
    places = [*((i, j) for i in rows for j in view.name_columns), *cells]
    return written.isupper() and any(view.cell(place).plain == written for place in places)


def _partial_mentions(view: TableView, words: Sequence[Word], taken: Sequence[tuple[int, int]]) -> list[Mention]:
    """Words that stand in the name of one row only, or of one column only, where the whole name is not said."""
    holders = _names(view).words
    found: list[Mention] = []
    free = [word for word in words if not any(start < word.end and word.start < end for start, end in taken)]
    for word in free:
        if (
            len(word.raw) < _SHORTEST_ALIAS
            or word.raw in STOP_WORDS
            or word.raw[0].isdigit()
            or word.root not in holders
        ):
            continue
        rows, columns = holders[word.root]
        if len(columns) == 1 and not rows:
            found.append(Mention(word.start, word.end, columns=tuple(columns), whole=False))
        elif len(rows) == 1 and not columns and not _within_other_name(word, words):
            found.append(Mention(word.start, word.end, rows=tuple(rows), whole=False))
    return found


def rows_named_with(view: TableView, word: Word) -> frozenset[int]:
    """The rows in whose names a word stands."""
    return frozenset(_names(view).words.get(word.root, ((), ()))[0])


def _within_other_name(word: Word, words: Sequence[Word]) -> bool:
    """Whether a number stands beside the word, as in "Apollo 13", which another row's number tells apart."""
    at = words.index(word)
    return any(words[k].raw[0].isdigit() for k in (at - 1, at + 1) if 0 <= k < len(words))


def _numbers(plain: str, words: Sequence[Word], taken: Sequence[tuple[int, int]]) -> Iterator[CellValue]:
    """Numbers in figures or words that belong to no name."""
    found = [
        _denied_bound(value, plain)
        for value in parse_values(plain)
        if value.kind != "p_value" and not any(start <= _figures(value) < end for start, end in taken)
    ]
    for k, word in enumerate(words):
        value = _NUMBER_WORDS.get(word.raw)
        if value is None or any(start <= word.start < end for start, end in taken):
            continue
        before = words[k - 1].raw if k else ""
        if word.raw == "one" and before in {"which", "this", "that", "no", "any", "the", "other", "another", "each"}:
            continue
        start, comparator = _led(plain, word.start)
        found.append(CellValue("number", float(value), word.raw, start, word.end, comparator=comparator))
    yield from _bounded(sorted(found, key=lambda value: value.start), plain)


def _bounded(values: Sequence[CellValue], plain: str) -> list[CellValue]:
    """Numbers of which "between 10 and 20" makes the bounds of one range."""
    found = list(values)
    for k in range(len(found) - 1):
        low, high = found[k], found[k + 1]
        between = re.search(r"\bbetween\s+$", plain[: low.start], re.IGNORECASE)
        if between and re.fullmatch(r"\s*\S{0,12}?\s*and\s*", plain[low.end : high.start]) and low.value < high.value:
            found[k : k + 2] = [replace(low, comparator="≥"), replace(high, comparator="≤")]
    return found


def _figures(value: CellValue) -> int:
    """Where the figures of a number begin, behind the words that bound it."""
    first = re.search(r"\d", value.text)
    return value.start + (first.start() if first else 0)


def _denied_bound(value: CellValue, plain: str) -> CellValue:
    """Read "no more than 5" as at most 5."""
    if value.comparator not in {">", "<"} or not re.search(r"\bno\s*$", plain[: value.start], re.IGNORECASE):
        return value
    return replace(value, comparator="≤" if value.comparator == ">" else "≥")


_LEAD = re.compile(
    r"\b(?:(?P<ge>at least|no fewer than|no less than)|(?P<le>at most|no more than|up to)|(?P<gt>more than|over)"
    r"|(?P<lt>fewer than|less than)|(?P<eq>about|around|roughly|approximately|nearly))\s+$",
    re.IGNORECASE,
)
_SIGNS = {"ge": "≥", "le": "≤", "gt": ">", "lt": "<", "eq": "≈"}


def _led(plain: str, start: int) -> tuple[int, str]:
    """Where a number begins with the words that bound it, and the sign of the bound."""
    match = _LEAD.search(plain[:start])
    if match is None or match.lastgroup is None:
        return start, ""
    return match.start(), _SIGNS[match.lastgroup]
