"""A text read against a table: the lines and cells it names, the numbers it states, what it compares and demands.

What belongs here: the parts of which an expression is made. Which expression a text is read into is worked out in
`reader`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from evidence_assets.reasoning.tables.algebra import Condition, rows_with
from evidence_assets.reasoning.tables.cells import CellValue, as_under, parse_values
from evidence_assets.reasoning.tables.lexicon import Degree, degrees, less_is_better, lexicon, pattern, stems
from evidence_assets.reasoning.tables.mentions import Mention, Word, mentions_in, words_in
from evidence_assets.reasoning.tables.text import STOP_WORDS, plain_text, stem, tokens, unit_in, without_unit
from evidence_assets.reasoning.tables.view import Place, TableView

_NOT_A_NUMBER_AFTER = frozenset({"which", "this", "that", "no", "any", "the", "other", "another", "each"})
# So many further words may a claim hold whose column is only hinted at; with more it speaks of something else.
FURTHER_WORDS = 2


def only(items: Iterable[int]) -> int | None:
    """The one item there is, or None."""
    found = list(items)
    return found[0] if len(found) == 1 else None


def _first_each(pairs: Iterable[tuple[int, Mention]]) -> dict[int, Mention]:
    found: dict[int, Mention] = {}
    for line, mention in pairs:
        found.setdefault(line, mention)
    return found


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
    words: tuple[Word, ...]
    presumes: bool = False

    def masked(self, position: int) -> bool:
        """Whether a position lies within a whole name or a number, whose words are no words of the sentence."""
        return any(m.start <= position < m.end and m.whole for m in self.mentions) or any(
            value.start <= position < value.end for value in self.numbers
        )

    @cached_property
    def cues(self) -> tuple[Degree, ...]:
        """Words of degree of the sentence itself, not of the names and numbers in it."""
        return degrees(self.text, self.masked)

    @property
    def degrees(self) -> tuple[Degree, ...]:
        """Those of them that surely compare: any where it is said which two things, and in what."""
        surely = len(self.rows) == 2 and len(self.columns) == 1
        return tuple(degree for degree in self.cues if degree.sure or surely)

    @cached_property
    def rows(self) -> dict[int, Mention]:
        """Rows named, each once, in order; a name of several rows names none of them."""
        named = [m for m in self.mentions if len(m.rows) == 1 and m not in self._values]
        return _first_each((m.rows[0], m) for m in named)

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
    def items(self) -> tuple[Mention, ...]:
        """Where the text says what the rows are rows of."""
        return tuple(m for m in self.mentions if set(m.columns) & set(self.view.name_columns))

    @cached_property
    def _values(self) -> dict[Mention, int | None]:
        """Mentions read as values, with the named column that they belong to, if one is named."""
        found: dict[Mention, int | None] = {}
        for mention in self.mentions:
            holders = {column for _, column in mention.cells}
            named = [(c, m) for c, m in self._column_names if c in holders and m is not mention]
            column = min(named, key=lambda item: _gap(item[1], mention.start, mention.end))[0] if named else None
            # A name that is a row's too is a value where its column's name leads to it, or where the row is said.
            said = any(m.start < mention.start and set(m.rows) & set(mention.rows) for m in self.mentions)
            led = any(c == column and 0 <= mention.start - m.end <= 2 for c, m in self._column_names)
            is_row = mention.rows and not (column is not None and (said or led))
            if holders and not is_row and (column is not None or not mention.columns):
                found[mention] = column
        return found

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """Cells that the text says rows to have."""
        found = []
        for mention, column in self._values.items():
            if column is None:
                column = Counter(j for _, j in mention.cells).most_common(1)[0][0]
            texts = frozenset(self.view.said(place) for place in mention.cells if place[1] == column)
            found.append(Condition(column, texts, None, mention.start))
        return tuple(found)

    @cached_property
    def things(self) -> tuple[tuple[int | None, frozenset[Place]], ...]:
        """For each thing that the text says: its column, if one is named or can be told, and the cells that say it."""
        view = self.view
        found: list[tuple[int | None, frozenset[Place]]] = []
        for mention in (m for m in self.mentions if m.whole and m.places):
            column = self._values.get(mention)
            places = frozenset(place for place in mention.places if column in (None, place[1]))
            if places and not (mention.columns and column is None):
                found.append((only({j for _, j in places}) if column is None else column, places))
        for number in self.numbers:
            column = self.column_of(number)
            if column is not None:
                found.append(
                    (column, frozenset((i, column) for i in rows_with(view, [Condition(column, number=number)])))
                )
            else:
                anywhere = ((i, j) for i in view.body for j in view.columns if not number.comparator)
                found.append((None, frozenset(p for p in anywhere if view.cell(p).number == number.value)))
        return tuple(found)

    def column_of(self, number: CellValue) -> int | None:
        """The named numeric column nearest to a number, or the only one whose header has the number's unit."""
        if self.measures:
            return min(self.measures.items(), key=lambda item: _gap(item[1], number.start, number.end))[0]
        labels = self.view.shape.labels
        return only(j for j in self.view.numeric if number.unit and unit_in(labels[j]) == number.unit)

    def _hinted(self, degree: Degree) -> int | None:
        """The measure whose header alone holds most of the words that headers of a degree tend to hold."""
        labels = self.view.shape.labels
        fitting = {j: len(degree.headers & set(map(stem, tokens(without_unit(labels[j]))))) for j in self.view.measures}
        most = max(fitting.values(), default=0)
        return only(j for j, count in fitting.items() if count == most) if most else None

    def measured(self, degree: Degree | None) -> int | None:
        """The numeric column that a word of degree measures: named, pointed to by the word, or dated.

        A question means the table's only numeric column where nothing names one; a claim in which much else is said
        hardly means a column that it only hints at.
        """
        view, at = self.view, degree.start if degree is not None else 0
        named = min(self.measures.items(), key=lambda item: (not item[1].whole, abs(item[1].start - at)), default=None)
        hinted = self._hinted(degree) if degree is not None else None
        if named is not None:
            # "The most expensive to build": the price, not the year under "Built".
            otherwise = degree is not None and not degree.in_time and named[0] in view.dated and hinted is not None
            column = hinted if otherwise else named[0]
        else:
            in_time = degree is not None and degree.in_time != 0
            column = only(j for j in view.measures if j in view.dated) if hinted is None and in_time else hinted
            column = only(view.measures) if column is None and self.presumes else column
        if column is None or self.presumes or (column in self.columns and self.columns[column].whole):
            return column
        return column if len(self.further_words) <= FURTHER_WORDS else None

    def direction(self, degree: Degree, column: int) -> int:
        """Direction of a degree among the numbers of a column: the older has the greater age but the earlier year."""
        if degree.judging and less_is_better(self.view.shape.labels[column]):
            return -degree.direction
        return degree.in_time if degree.in_time and column in self.view.dated else degree.direction

    def _demanded(self, number: CellValue) -> Condition | None:
        """What a number demands of rows, with the bound that a comparative before it gives: "deeper than 500"."""
        led = next((d for d in reversed(self.degrees) if d.kind == "comparative" and d.end <= number.start), None)
        than = (
            r"\s*(?:(?:\w+\s+){0,4}?than\s+)?" if led and (led.verb or led.in_time) else r"\s*(?:\w+\s+){0,5}?than\s+"
        )
        if led is not None and re.fullmatch(than, self.text[led.end : number.start]):
            column = self.measured(led)
            if column is None:
                return None
            sign = number.comparator or (">" if self.direction(led, column) > 0 else "<")
            return Condition(column, number=replace(number, comparator=sign), at=number.start)
        column = self.column_of(number)
        return None if column is None else Condition(column, number=number, at=number.start)

    def demands(self, without: CellValue | None = None) -> list[Condition]:
        """What the text demands of rows, in the order in which it says so."""
        numeric = [self._demanded(number) for number in self.numbers if number is not without]
        return sorted([*self.conditions, *filter(None, numeric)], key=lambda condition: condition.at)

    @cached_property
    def further_words(self) -> frozenset[str]:
        """Content words that are neither the table's nor words of degree, operation or frame."""
        known: tuple[Degree | Mention | CellValue, ...] = (*self.degrees, *self.mentions, *self.numbers)
        spans = [(part.start, part.end) for part in known]
        # "The most expensive bridge": the noun behind a superlative says what the rows are, not what is said of them.
        ends = [word.end for word in self.degrees if word.kind == "superlative"]
        spans += [(end, end + noun.end()) for end in ends if (noun := re.match(r"\s+\w+", self.text[end:]))]
        return frozenset(
            word.stem
            for word in self.words
            if word.raw not in STOP_WORDS
            and word.stem not in stems("frame")
            and not any(start <= word.start < end for start, end in spans)
        )

    @property
    def denied(self) -> bool:
        """Whether the text denies what it says."""
        return any(not self.masked(match.start()) for match in pattern("not").finditer(self.text))


def read_text(view: TableView, text: str, *, presumes: bool = False) -> Reading:
    """Read a text against the names of a table."""
    plain = plain_text(text)
    spoken = tuple(words_in(plain))
    mentions = mentions_in(view, plain, spoken)
    # "23 million" is written as 23 under "Cost (million)"; a text often means a column without naming it.
    heads = " ".join(view.shape.labels)
    numbers = tuple(as_under(number, heads) for number in _numbers_in(plain, mentions))
    return Reading(view, plain, mentions, numbers, spoken, presumes)


def _numbers_in(plain: str, mentions: Sequence[Mention]) -> list[CellValue]:
    """Numbers of a text in figures or words that lie in no name, with the words that bound them."""
    ends: dict[int, int] = {}

    def in_figures(match: re.Match[str]) -> str:
        before = re.search(r"(\w+)\W*$", plain[: match.start()])
        if match[0].lower() == "one" and before and before[1].lower() in _NOT_A_NUMBER_AFTER:
            return match[0]
        figures = str(lexicon()["numbers"][match[0].lower()])
        ends[match.start() + len(figures)] = match.end()
        return figures.ljust(len(match[0]), "\n")

    copy = re.sub(rf"\b(?:{'|'.join(lexicon()['numbers'])})\b", in_figures, plain, flags=re.IGNORECASE)
    found = []
    for value in parse_values(copy):
        figures = value.start + re.search(r"\d|$", value.text).start()  # type: ignore[union-attr]
        if value.kind == "p_value" or any(m.start <= figures < m.end for m in mentions):
            continue
        found.append(replace(value, end=ends.get(value.end, value.end)))
    return found
