"""A text read against a table: the lines and cells it names, the numbers it states, what it compares and demands."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from evidence_assets.reasoning.tables.cells import CellValue, as_under, parse_values
from evidence_assets.reasoning.tables.lexicon import Degree, Kind, degrees, less_is_better, pattern
from evidence_assets.reasoning.tables.mentions import Mention, mentions_in
from evidence_assets.reasoning.tables.table import Place, TableView
from evidence_assets.reasoning.tables.text import NUMBER_WORDS, plain_text, stem, tokens, unit_in, without_unit

# "One" is a number less often than not.
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(word for word in NUMBER_WORDS if word != 'one')})\b", re.IGNORECASE)
_PADDING = "\n"  # stands for the letters of a number in words that its figures leave over


@dataclass(frozen=True)
class Condition:
    """What a row must satisfy: its cell in ``column`` is one of ``texts``, or compares with ``number`` as stated."""

    column: int
    texts: frozenset[str] = frozenset()
    number: CellValue | None = None

    def is_met(self, view: TableView, row: int) -> bool:
        place = (row, self.column)
        if self.number is None:
            return view.said(place) in self.texts
        value, quantity = view.number(place), view.cell(place).quantity
        if quantity and quantity.bounds and quantity.comparator == self.number.comparator:
            return self.number.states(quantity.value)  # a cell may only bound its number: "less than 1"
        return value is not None and self.number.is_met(value)

    def describe(self, view: TableView) -> str:
        if self.number is None:
            return f"“{view.label(self.column)}” = “{min(self.texts, default='')}”"
        return f"“{view.label(self.column)}” {self.number.comparator or '='} {self.number.value:g}"


def rows_with(view: TableView, conditions: Sequence[Condition]) -> tuple[int, ...]:
    """Rows that satisfy all conditions; all rows where there are none."""
    return tuple(i for i in view.body if all(condition.is_met(view, i) for condition in conditions))


def only(items: Iterable[int]) -> int | None:
    """The one item there is, or None."""
    found = list(items)
    return found[0] if len(found) == 1 else None


def _first_each(pairs: Iterable[tuple[int, Mention]]) -> dict[int, Mention]:
    first: dict[int, Mention] = {}
    for line, mention in pairs:
        first.setdefault(line, mention)
    return first


def _gap(mention: Mention, start: int, end: int) -> tuple[int, bool]:
    """Distance between a mention and a stretch of text; at equal distance what stands before is nearer."""
    return (start - mention.end, False) if mention.start <= start else (mention.start - end, True)


@dataclass(frozen=True)
class Reading:
    """A text read against a table; a question ``presumes`` that the table can answer it."""

    view: TableView
    text: str
    mentions: tuple[Mention, ...]
    numbers: tuple[CellValue, ...]
    presumes: bool = False

    def masked(self, position: int) -> bool:
        """Whether a position lies within a whole name or a number, whose words are no words of the sentence."""
        spans = [(m.start, m.end) for m in self.mentions if m.whole] + [(n.start, n.end) for n in self.numbers]
        return any(start <= position < end for start, end in spans)

    def says(self, name: str) -> bool:
        """Whether the text says any of the alternatives of an entry of the lexicon."""
        return pattern(name).search(self.text) is not None

    @cached_property
    def degrees(self) -> tuple[Degree, ...]:
        """Words of degree of the sentence itself, not of the names and numbers in it."""
        return degrees(self.text, self.masked)

    def degree(self, kind: Kind) -> Degree | None:
        """The first word of degree of a kind."""
        return next((degree for degree in self.degrees if degree.kind == kind), None)

    @cached_property
    def rows(self) -> dict[int, Mention]:
        """Rows named, each once, in order; a name of several rows names none of them."""
        return _first_each((m.rows[0], m) for m in self.mentions if len(m.rows) == 1 and m not in self._values)

    @cached_property
    def columns(self) -> dict[int, Mention]:
        """Columns named, each once, in order; those that name the rows are not among them."""
        return _first_each((column, m) for column, m in self._column_names if m not in self._values)

    @property
    def measures(self) -> dict[int, Mention]:
        """The numeric columns among those named."""
        return {column: mention for column, mention in self.columns.items() if column in self.view.numeric}

    @cached_property
    def _column_names(self) -> tuple[tuple[int, Mention], ...]:
        names = self.view.name_columns
        return tuple((c, m) for m in self.mentions for c in m.columns[:1] if c not in names)

    @cached_property
    def _values(self) -> dict[Mention, int | None]:
        """Mentions read as values, with the named column that they belong to, if one is named."""
        values: dict[Mention, int | None] = {}
        for mention in self.mentions:
            holders = {column for _, column in mention.cells}
            named = [(c, m) for c, m in self._column_names if c in holders and m is not mention]
            column = min(named, key=lambda item: _gap(item[1], mention.start, mention.end))[0] if named else None
            # A name that is a row's too is a value where its column's name leads to it, or where the row is said.
            said = any(m.start < mention.start and set(m.rows) & set(mention.rows) for m in self.mentions)
            led = any(c == column and 0 <= mention.start - m.end <= 2 for c, m in self._column_names)
            is_row = mention.rows and not (column is not None and (said or led))
            if holders and not is_row and (column is not None or not mention.columns):
                values[mention] = column
        return values

    @cached_property
    def things(self) -> tuple[tuple[int | None, frozenset[Place]], ...]:
        """For each thing that the text says: its column, if one is named or can be told, and the cells that say it."""
        view = self.view
        things: list[tuple[int | None, frozenset[Place]]] = []
        for mention in (m for m in self.mentions if m.whole and m.places):
            column = self._values.get(mention)
            places = frozenset(place for place in mention.places if column in (None, place[1]))
            if places and not (mention.columns and column is None):
                things.append((only({j for _, j in places}) if column is None else column, places))
        for number in self.numbers:
            column = self.column_of(number)
            rows = rows_with(view, [Condition(column, number=number)]) if column is not None else ()
            anywhere = ((i, j) for i in view.body for j in view.columns if column is None and not number.comparator)
            stating = [place for place in anywhere if view.cell(place).number == number.value]
            things.append((column, frozenset([*((i, column) for i in rows if column is not None), *stating])))
        return tuple(things)

    def column_of(self, number: CellValue) -> int | None:
        """The named numeric column nearest to a number, or the only one whose header has the number's unit."""
        if self.measures:
            return min(self.measures.items(), key=lambda item: _gap(item[1], number.start, number.end))[0]
        labels = self.view.labels
        return only(j for j in self.view.numeric if number.unit and unit_in(labels[j]) == number.unit)

    def _hinted(self, degree: Degree | None) -> int | None:
        """The measure whose header alone holds most of the words that headers of a degree tend to hold."""
        labels, headers = self.view.labels, degree.headers if degree is not None else frozenset()
        fitting = {j: len(headers & set(map(stem, tokens(without_unit(labels[j]))))) for j in self.view.measures}
        most = max(fitting.values(), default=0)
        return only(j for j, count in fitting.items() if count == most) if most else None

    def measured(self, degree: Degree | None) -> int | None:
        """The numeric column that a word of degree measures: named, pointed to by the word, or dated.

        A question means the table's only numeric column where nothing names one.
        """
        view, at = self.view, degree.start if degree is not None else 0
        named = min(self.measures.items(), key=lambda item: (not item[1].whole, abs(item[1].start - at)), default=None)
        column = self._hinted(degree)
        in_time = degree is not None and degree.in_time != 0
        # "The most expensive to build": the price, not the year under "Built".
        if named is not None and (degree is None or in_time or named[0] not in view.dated or column is None):
            column = named[0]
        elif named is None and column is None:
            column = only(j for j in view.measures if j in view.dated) if in_time else None
            column = only(view.measures) if column is None and self.presumes else column
        return column

    def direction(self, degree: Degree, column: int) -> int:
        """Direction of a degree among the numbers of a column: the older has the greater age but the earlier year."""
        if degree.judging and less_is_better(self.view.labels[column]):
            return -degree.direction
        return degree.in_time if degree.in_time and column in self.view.dated else degree.direction

    def _demanded(self, number: CellValue) -> Condition | None:
        """What a number demands of rows, with the bound that a comparative before it gives: "deeper than 500"."""
        led = next((d for d in reversed(self.degrees) if d.kind == "comparative" and d.end <= number.start), None)
        between = self.text[led.end : number.start] if led else ""
        if led and (
            re.fullmatch(r"\s*(?:\w+\s+){0,5}?than\s+", between) or ((led.verb or led.in_time) and not between.strip())
        ):
            column = self.measured(led)
            if column is None:
                return None
            sign = number.comparator or (">" if self.direction(led, column) > 0 else "<")
            return Condition(column, number=replace(number, comparator=sign))
        column = self.column_of(number)
        return None if column is None else Condition(column, number=number)

    def demands(self, without: CellValue | None = None) -> list[Condition]:
        """What the text demands of the cells of rows: by its numbers, then by its values."""
        demands = [self._demanded(number) for number in self.numbers if number is not without]
        for mention, column in self._values.items():
            if column is None:
                column = Counter(j for _, j in mention.cells).most_common(1)[0][0]
            texts = frozenset(self.view.said(place) for place in mention.cells if place[1] == column)
            demands.append(Condition(column, texts))
        return [condition for condition in demands if condition is not None]

    @property
    def denied(self) -> bool:
        """Whether the text denies what it says."""
        return any(not self.masked(match.start()) for match in pattern("not").finditer(self.text))


def read_text(view: TableView, text: str, *, presumes: bool = False) -> Reading:
    """Read a text against the names of a table."""
    plain = plain_text(text)
    mentions = mentions_in(view, plain)
    # "23 million" is written as 23 under "Cost (million)"; a text often means a column without naming it.
    heads = " ".join(view.labels)
    numbers = tuple(as_under(number, heads) for number in _numbers_in(plain, mentions))
    return Reading(view, plain, mentions, numbers, presumes)


def _numbers_in(plain: str, mentions: Sequence[Mention]) -> list[CellValue]:
    """Numbers of a text in figures or words that lie in no name, with the words that bound them."""
    copy = _NUMBER_WORD.sub(lambda match: stem(match[0].lower()).ljust(len(match[0]), _PADDING), plain)
    numbers = []
    for value in parse_values(copy):
        digit = re.search(r"\d", value.text)
        figures = value.start + (digit.start() if digit else 0)
        if value.kind != "spread" and not any(mention.start <= figures < mention.end for mention in mentions):
            padding = len(copy[value.end :]) - len(copy[value.end :].lstrip(_PADDING))
            numbers.append(replace(value, end=value.end + padding))
    return numbers
