"""A text analyzed against a table: the rows, columns and cells it mentions, its numbers, comparisons and conditions."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import NamedTuple

from evidence_assets.extractive.tables.mentions import TABLE_MARK, Mention, find_mentions
from evidence_assets.reasoning.tables.cell_text import NUMBER_WORDS, collect_words, stem, strip_markup, tokenize
from evidence_assets.reasoning.tables.cells import MONTH, CellValue, parse_values, rescale_to_header
from evidence_assets.reasoning.tables.lexicon import (
    DegreeKind,
    DegreeWord,
    find_degree_words,
    is_lower_better,
    normalize_header,
    pattern,
)
from evidence_assets.reasoning.tables.table import FIRST_YEAR, CellLocation, TableView

# "One" is rarely a number.
_NUMBER_WORD = re.compile(
    rf"\b(?:{'|'.join(word for word in NUMBER_WORDS if word != 'one')}|(?<=only )one|(?<=exactly )one)\b", re.IGNORECASE
)
_ABSENT = re.compile(r"\b(?:no|without|(?:not|n't) (?:yet )?been) (?:an? )?$|\bnon-$", re.IGNORECASE)
_NOTE_START = re.compile(
    r"(?:the )?(?:number|amount|sum|total|average|mean|difference|last|first|second|third|next|most|least|\w+est)\b",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|had|do|does|did|can|could|will|would|must|should|may|might)(?:n['’]t)?\b"
)
_RELATIVE = re.compile(r"\b(?:that|which|who|whose|where|I|we|you|they)\b")
_ENDING = "(?:st|nd|rd|th)?"
_DAY = re.compile(rf"\b(?:\d{{1,2}}{_ENDING} (?i:{MONTH})|(?=[A-Z])(?i:{MONTH}) \d{{1,2}}{_ENDING})\b(?!\.?,? \d{{4}})")
"""A day without a year."""
_DETERMINER = re.compile(r"\b(?:(all)|the|these|those|our|my)\s+$", re.IGNORECASE)
_SIGN = re.compile(r"\b(positive|negative) (?:\w+ )?$", re.IGNORECASE)
_PADDING = "\n"  # pads the digits of a number word to its length


@dataclass(frozen=True)
class Condition:
    """A condition on rows: the cell in ``column`` is one of ``texts`` or meets ``number``; if negated, neither."""

    column: int
    texts: frozenset[str] = frozenset()
    number: CellValue | None = None
    is_negated: bool = False

    def is_met(self, view: TableView, row: int) -> bool:
        """Whether a row meets the condition; an empty cell does not meet a negated one either."""
        is_known = view.cell((row, self.column)).is_known
        return is_known and not self._states(view, row) if self.is_negated else self._states(view, row)

    def _states(self, view: TableView, row: int) -> bool:
        location = (row, self.column)
        if self.number is None:
            return view.text_at(location) in self.texts or ("" in self.texts and not view.cell(location).is_known)
        number = self.number
        value = view.number_at(location)
        quantity = view.cell(location).quantity
        number = replace(number, value=number.value * view.unit_factor(self.column, number.unit.casefold()))
        if value is not None and quantity is None:  # the cell has a date: "in 2016", "in March 2024"
            day = date.fromordinal(int(value))
            day = day.replace(day=1) if number.unit == "month" else day
            value = float(day.year if number.kind == "number" else day.toordinal())
        if quantity and quantity.is_bound and quantity.comparator == number.comparator:
            return number.states(quantity.value)  # the cell has a bound itself: "less than 1"
        return value is not None and number.is_met(value)

    def describe(self, view: TableView) -> str:
        value = f"= “{min(self.texts, default='')}”"
        if self.number is not None:
            number = (
                self.number.text.lstrip(string.ascii_letters + " ") if self.number.is_time else f"{self.number.value:g}"
            )
            value = f"{self.number.comparator or '='} {number}"
        return f"{'not ' * self.is_negated}“{view.label(self.column)}” {value}"


class StatedItem(NamedTuple):
    """Something that a text states: its column, if known, and the cells that state it."""

    column: int | None
    cells: frozenset[CellLocation]


def single_item(items: Iterable[int]) -> int | None:
    """The item if there is exactly one, else None."""
    values = list(items)
    return values[0] if len(values) == 1 else None


def _first_mentions(pairs: Iterable[tuple[int, Mention]]) -> dict[int, Mention]:
    mentions: dict[int, Mention] = {}
    for line, mention in pairs:
        mentions.setdefault(line, mention)
    return mentions


def _gap(mention: Mention, start: int, end: int) -> tuple[int, bool]:
    """Sort key of the distance between a mention and a span; at equal distance, a mention before the span is first."""
    return (start - mention.end, False) if mention.start <= start else (mention.start - end, True)


@dataclass(frozen=True)
class TextAnalysis:
    """A claim or question analyzed against a table; a question presumes that the table answers it."""

    view: TableView
    text: str
    mentions: tuple[Mention, ...]
    numbers: tuple[CellValue, ...]
    is_question: bool = False

    def is_masked(self, offset: int) -> bool:
        """Whether an offset is inside a whole name or a number, so its word has no meaning in the sentence."""
        spans = [(m.start, m.end) for m in self.mentions if m.is_whole] + [(n.start, n.end) for n in self.numbers]
        return any(start <= offset < end for start, end in spans)

    def has_phrase(self, key: str) -> bool:
        """Whether the text has any phrase of a lexicon entry."""
        return pattern(key).search(self.text) is not None

    def has_unmasked_phrase(self, key: str) -> bool:
        """Whether the first phrase of a lexicon entry is outside names and numbers."""
        match = pattern(key).search(self.text)
        return match is not None and not self.is_masked(match.start())

    @property
    def ending(self) -> str:
        """The text after its last name or number."""
        ends = [mention.end for mention in self.mentions] + [number.end for number in self.numbers]
        return self.text[max(ends, default=0) :]

    @property
    def asks_for_value(self) -> bool:
        """Whether a question asks for a number in a column, not for a number of rows: "how many units"."""
        ends = [match.end() for match in pattern("counting").finditer(self.text)]
        return any(0 <= m.start - end <= 1 for m in self.numeric_mentions.values() for end in ends)

    @cached_property
    def degrees(self) -> tuple[DegreeWord, ...]:
        """Comparatives and superlatives outside names and numbers."""
        columns = [(mention.start, mention.end) for mention in self.mentions if mention.columns]
        degrees = find_degree_words(self.text, self.is_masked)  # "maximum temperature" may be a column
        return tuple(d for d in degrees if d.headers or not any(start <= d.start < end for start, end in columns))

    def degree(self, kind: DegreeKind) -> DegreeWord | None:
        """The first degree word of a kind."""
        return next((degree for degree in self.degrees if degree.kind == kind), None)

    @cached_property
    def rows(self) -> dict[int, Mention]:
        """The first mention of each row, in order; a name that several rows share with what narrows it down."""
        mentions = [(self.narrow_rows(m), m) for m in self.mentions if m in self.shared or m not in self._value_columns]
        return _first_mentions((rows[0], m) for rows, m in mentions if len(rows) == 1)

    def narrow_rows(self, mention: Mention) -> tuple[int, ...]:
        """The rows of a name that other names share: "North" and "May", which name a row together."""
        rows = dict.fromkeys(i for i, _ in mention.locations)
        others = [m for m in self.shared if mention.columns_of_cells.isdisjoint(m.columns_of_cells)]
        is_named = mention.names or any(m.names for m in others)
        return tuple(i for i in rows if is_named and all(i in {row for row, _ in m.locations} for m in others))

    @cached_property
    def candidates(self) -> tuple[int, ...]:
        """Rows that take part in operations: summary rows only if the text names them."""
        return tuple(i for i in self.view.body if i not in self.view.summary_rows or i in self.rows)

    def select_rows(self, conditions: Sequence[Condition]) -> tuple[int, ...]:
        """Candidates that meet all conditions; all if there are none."""
        return tuple(i for i in self.candidates if all(condition.is_met(self.view, i) for condition in conditions))

    @cached_property
    def shared(self) -> tuple[Mention, ...]:
        """Whole names and values of several rows."""
        return tuple(m for m in self.mentions if m.is_whole and len({i for i, _ in m.locations}) > 1)

    @cached_property
    def columns(self) -> dict[int, Mention]:
        """The first mention of each column, in order, without name columns."""
        return _first_mentions((column, m) for column, m in self._column_names if m not in self._value_columns)

    @cached_property
    def compared_columns(self) -> dict[int, Mention]:
        """The columns of one header in joined tables that a text names, in order: "2023: sales" by "in 2023".

        It has the columns of all such headers if the text does not say which header it means.
        """
        mentions = [mention for mention in reversed(self.mentions) if mention.is_whole]
        named = {j: mention for mention in mentions for j in mention.columns if TABLE_MARK in self.view.labels[j]}
        if len({*named.values()}) < 2:
            return {}
        headers = {j: normalize_header(self.view.labels[j].partition(TABLE_MARK)[2]) for j in named}
        counts = Counter(headers.values())
        words = normalize_header(self.text)
        n_words = {j: len(header & words) for j, header in headers.items() if counts[header] > 1}
        best = [j for j, count in n_words.items() if count == max(n_words.values())]
        return {j: named[j] for j in sorted(best, key=lambda j: (named[j].start, j))}

    @property
    def numeric_mentions(self) -> dict[int, Mention]:
        """The first mention of each mentioned numeric column."""
        return {column: mention for column, mention in self.columns.items() if column in self.view.numeric_columns}

    @property
    def named_measures(self) -> dict[int, Mention]:
        """``numeric_mentions`` without those by "how much", which names no measure: "How much longer is it?"."""
        amounts = {match.end() for match in pattern("amount_question").finditer(self.text)}
        return {column: mention for column, mention in self.numeric_mentions.items() if mention.end not in amounts}

    @cached_property
    def _column_names(self) -> tuple[tuple[int, Mention], ...]:
        names = self.view.name_columns
        return tuple((c, m) for m in self.mentions for c in m.columns[:1] if c not in names)

    @cached_property
    def _value_columns(self) -> dict[Mention, int | None]:
        """Mentions of cell values, with the mentioned column that each belongs to, if any."""
        values: dict[Mention, int | None] = {}
        for mention in self.mentions:
            columns = {column for _, column in mention.cells}
            gaps = [(_gap(m, mention.start, mention.end), c) for c, m in self._column_names if m is not mention]
            column = min(((gap, c) for gap, c in gaps if c in columns), default=(None, None))[1]
            rows = {i for i, _ in mention.cells}
            is_part = any({*m.rows} == rows and abs(_gap(m, mention.start, mention.end)[0]) < 2 for m in self.mentions)
            if columns and not (mention.rows or is_part) and (column is not None or not mention.columns):
                values[mention] = column
        return values

    @cached_property
    def stated_items(self) -> tuple[StatedItem, ...]:
        """Each name, number and presence in the text."""
        items = [item for mention in self.mentions if (item := self._find_named_item(mention))]
        items += map(self._find_number_item, self.numbers)
        columns = {item.column for item in items}
        return (*items, *(self._locate(c) for c in self._presences if c.column not in columns))

    def _find_named_item(self, mention: Mention) -> StatedItem | None:
        if not (mention.names or (mention.is_whole and mention.locations)):
            return None
        column = self._value_columns.get(mention)
        cells = frozenset(cell for cell in mention.locations if column in (None, cell[1]))
        if not cells or (mention.columns and column is None):
            return None
        return StatedItem(single_item({j for _, j in cells}), cells)

    def _find_number_item(self, number: CellValue) -> StatedItem:
        if condition := self._find_condition(number):
            return self._locate(condition)
        view = self.view
        cells = ((i, j) for i in view.body for j in view.columns if not number.comparator)
        return StatedItem(None, frozenset(cell for cell in cells if view.cell(cell).number == number.value))

    def _locate(self, condition: Condition) -> StatedItem:
        """The cells that meet a condition."""
        return StatedItem(condition.column, frozenset((i, condition.column) for i in self.select_rows([condition])))

    def find_column(self, number: CellValue) -> int | None:
        """The mentioned numeric column nearest to a number, else the only one with its unit.

        A word before it chooses among the columns that it asks for: "cost more than 50 euros per day" is about "price
        per day", although another header has "euros".
        """
        mentions = self.numeric_mentions.items()
        unit = number.unit.casefold()
        column = min(mentions, key=lambda item: _gap(item[1], number.start, number.end), default=(None, None))[0]
        before = [m.columns for m in self.mentions if m.end <= number.start and column in m.columns]
        column = next((columns[0] for columns in before if columns[0] in self.numeric_mentions), column)
        shares = [j for j, units in self.view.units.items() if "%" in units]
        if number.kind == "percentage" and shares and column not in shares:
            column = single_item(shares)
        if column is None and unit:
            column = single_item(j for j, units in self.view.units.items() if unit in units)
        return column

    def _hinted_column(self, degree: DegreeWord | None) -> int | None:
        """The numeric column whose header alone has most of the header words of a degree word."""
        headers = degree.headers if degree is not None else frozenset()
        for words in ({j: collect_words(self.view.labels[j]) for j in self.view.numeric_columns}, self.view.measures):
            counts = {j: len(headers & words[j]) for j in words}
            if highest := max(counts.values(), default=0):
                return single_item(j for j, count in counts.items() if count == highest)
        return None

    def find_measured_column(self, degree: DegreeWord | None) -> int | None:
        """The numeric column that a degree word refers to; for a question, by default the only measure column."""
        view = self.view
        column = self._hinted_column(degree)
        mentioned = self._find_mentioned_measure(degree, is_hinted=column is not None)
        # "The most expensive to build" measures the price, not the year in "Built".
        if mentioned is not None and (column is None or mentioned not in view.date_columns):
            return mentioned
        if column is not None or not self.is_question:
            return column
        dates = view.date_columns | view.time_columns
        asks_for_date = degree is not None and "year" in degree.headers
        if asks_for_date:
            conditions = {j for mention in self._value_columns for _, j in mention.cells}  # "on 5 March"
            return next((j for j in view.measure_columns if j in dates - conditions), None)
        if degree is None or not degree.headers:
            return single_item(j for j in view.measure_columns if j not in dates)
        return single_item(view.measure_columns)

    def _find_mentioned_measure(self, degree: DegreeWord | None, *, is_hinted: bool) -> int | None:
        """The mentioned numeric column nearest to a degree word; without "how much" if the word hints at a column."""
        start = degree.start if degree is not None else 0
        measures = self.named_measures if is_hinted else self.numeric_mentions
        mentions = [item for item in measures.items() if not self._is_moment(item[0], degree)]
        nearest = min(mentions, key=lambda item: (not item[1].is_whole, abs(item[1].start - start)), default=None)
        return None if nearest is None else nearest[0]

    def _is_moment(self, column: int, degree: DegreeWord | None) -> bool:
        """Whether a column has times of day, which "longest" does not compare: "open longest"."""
        if degree is None or stem("duration") not in degree.headers or column not in self.view.time_columns:
            return False
        return degree.headers.isdisjoint(collect_words(self.view.labels[column]))

    def direction(self, degree: DegreeWord, column: int) -> int:
        """Direction of a degree word in a column: the older has the greater age but the earlier year."""
        is_time = column in self.view.time_columns
        is_reversed = degree.is_evaluative and (is_time or is_lower_better(self.view.labels[column]))
        is_reversed |= degree.is_age and column in self.view.date_columns
        return -degree.direction if is_reversed else degree.direction

    def find_bound(self, number: CellValue) -> DegreeWord | None:
        """The comparative before a number that makes it a bound: "deeper than 500"."""
        degree = next((d for d in reversed(self.degrees) if d.kind == "comparative" and d.end <= number.start), None)
        between = self.text[degree.end : number.start] if degree else ""
        is_adjacent = degree and degree.is_verb and not between.strip()
        return degree if is_adjacent or re.fullmatch(r"\s*(?:\w+\s+){0,5}?than\s+", between) else None

    def _find_condition(self, number: CellValue) -> Condition | None:
        """The condition of a number, with the bound of a comparative before it: "deeper than 500"."""
        if degree := self.find_bound(number):
            column = self.find_measured_column(degree)
            if column is None:
                return None
            sign = number.comparator or (">" if self.direction(degree, column) > 0 else "<")
            return Condition(column, number=replace(number, comparator=sign))
        column = self.find_column(number)
        is_of_other_kind = number.kind == "date" and column not in self.view.date_columns
        if column in self.view.date_columns and number.value < FIRST_YEAR:
            return None  # "Ottokar paid for three things"
        if is_of_other_kind or (column is None and self.is_question and number.is_date):
            column = single_item(self.view.date_columns)
        if column is None and self.is_question and number.comparator:
            column = self.find_measured_column(None)
        return None if column is None else Condition(column, number=number)

    @cached_property
    def _presences(self) -> list[Condition]:
        """Conditions of columns without a value: "yes" for "with a projector", "no" or 0 for "without", "no moons"."""
        return [condition for item in self.columns.items() if (condition := self._find_presence(*item))]

    def _find_presence(self, column: int, mention: Mention) -> Condition | None:
        view = self.view
        before = self.text[: mention.start]
        if sign := _SIGN.search(before):
            comparator = ">" if sign[1].casefold() == "positive" else "<"
            return Condition(column, number=CellValue.bound(comparator, 0))
        word = self.text[mention.start : mention.end]
        is_absent = bool(_ABSENT.search(before) or re.match(r"\W*no\b", self.text[mention.end :]))
        if word.casefold().startswith("un"):
            is_absent |= collect_words(word).isdisjoint(collect_words(view.labels[column]))
        if column in view.flag_columns:
            return Condition(column, view.flag_columns[column][is_absent])
        if not is_absent:
            return None
        if column in view.measure_columns and column not in view.date_columns:
            return Condition(column, number=CellValue.bound("≤", 0))
        return Condition(column, frozenset({""}))  # "no end date"

    def find_conditions(self, excluded: CellValue | None = None) -> list[Condition]:
        """The conditions on rows, in the order of the text: those of its numbers, except one, and of its values."""
        numbers = (number for number in self.numbers if number is not excluded)
        conditions = [(number.start, condition) for number in numbers if (condition := self._find_condition(number))]
        conditions += [(mention.start, self._find_value_condition(mention)) for mention in self._value_columns]
        columns = {condition.column for _, condition in conditions}
        conditions += [(self.columns[c.column].start, c) for c in self._presences if c.column not in columns]
        conditions.sort(key=lambda pair: pair[0])
        negated = self._find_negated(conditions)
        return [replace(c, is_negated=start == negated and c.texts != {""}) for start, c in conditions]

    def _find_negated(self, conditions: Sequence[tuple[int, Condition]]) -> int | None:
        """The start of the condition that a question negates: after its negation, else a flag: "dogs aren't allowed".

        A claim is negated as a whole.
        """
        if self._negation is None or not self.is_question:
            return None
        flags = [start for start, condition in reversed(conditions) if condition.column in self.view.flag_columns]
        after = [start for start, _ in conditions if start >= self._negation.end()]
        return next(iter((*after, *flags)), None)

    def _find_value_condition(self, mention: Mention) -> Condition:
        """The condition of a value: in its mentioned column, else in one named before it or with most cells."""
        column = self._value_columns[mention]
        if column is None:
            counts = Counter(j for _, j in mention.cells)
            before = self.text[: mention.start].casefold().split()[-1:]
            column = max(counts, key=lambda j: ([self.view.labels[j].casefold()] == before, counts[j]))
        return Condition(column, frozenset(self.view.text_at(cell) for cell in mention.cells if cell[1] == column))

    @cached_property
    def _negation(self) -> re.Match[str] | None:
        """The first negation outside names and numbers."""
        matches = pattern("negation").finditer(self.text)
        return next((match for match in matches if not self.is_masked(match.start())), None)

    @property
    def is_negated(self) -> bool:
        """Whether the text has a negation outside names and numbers."""
        return self._negation is not None


def is_note(text: str) -> bool:
    """Whether a text is a search such as "price of the blue one": it has no full stop, and no verb but in a clause."""
    main_clause = _RELATIVE.split(text)[0]
    starts_small = text[:1].islower() or _NOTE_START.match(text) is not None
    return starts_small and not text.endswith(".") and _VERB.search(main_clause) is None


def analyze_text(view: TableView, text: str, *, is_question: bool = False) -> TextAnalysis:
    """Analyze a claim or question against a table."""
    plain = strip_markup(text)
    if view.only_year is not None:
        plain = _DAY.sub(rf"\g<0> {view.only_year}", plain)
    mentions = find_mentions(view, plain)
    # "23 million" is 23 below "Cost (million)"; a text often refers to a column without its name.
    header = " ".join(view.labels)
    numbers = [number for number in _find_numbers(plain, mentions) if not _is_year_of_caption(view, number)]
    numbers = [number for number in numbers if not _counts_what_is_named(plain, number, is_question=is_question)]
    rescaled = tuple(rescale_to_header(number, header) for number in numbers)
    return TextAnalysis(view, plain, mentions, rescaled, is_question)


def _is_year_of_caption(view: TableView, number: CellValue) -> bool:
    """Whether a number is the year that a whole table is of: "in 2024" is no condition on the rows of "sales_2024"."""
    return number.is_date and not number.comparator and not view.date_columns and number.text in tokenize(view.caption)


def _counts_what_is_named(plain: str, number: CellValue, *, is_question: bool) -> bool:
    """Whether a number word says how many things a text names: "the two Comets"; of a question, "all three shifts".

    "All three shifts" of a claim says how many there are.
    """
    has_digits = any(map(str.isdigit, plain[number.start : number.end]))
    is_rank = re.match(r"\s*(?:\w+est|most)\b", plain[number.end :]) is not None  # "the two largest"
    determiner = _DETERMINER.search(plain[: number.start])
    if has_digits or is_rank or determiner is None:
        return False
    return is_question or determiner[1] is None


def _find_numbers(plain: str, mentions: Sequence[Mention]) -> list[CellValue]:
    """Numbers outside names, in digits or words, with the words that bound them."""
    text = _NUMBER_WORD.sub(lambda match: stem(match[0].lower()).rjust(len(match[0]), _PADDING), plain)
    numbers = []
    for value in parse_values(text):
        digit = re.search(r"\d", value.text)
        start = value.start + (digit.start() if digit else 0)
        if value.kind != "spread" and not any(mention.start <= start < mention.end for mention in mentions):
            before = text[: value.start].rstrip(_PADDING)
            numbers.append(replace(value, start=len(before)))
    return _find_bounds(text, numbers)


def _find_bounds(text: str, numbers: list[CellValue]) -> list[CellValue]:
    """The numbers, with the bounds of "12 or more" and "between 10 and 20"."""
    for n, number in enumerate(numbers):
        for key, sign in (("or_more", "≥"), ("or_less", "≤")):
            if match := pattern(key).match(text, number.end):
                numbers[n] = replace(number, comparator=sign, end=match.end())
        before = text[: number.start]
        between = text[number.end : numbers[n + 1].start] if n + 1 < len(numbers) else ""
        if between.strip() == "and" and before.rstrip().endswith("between"):
            last = replace(numbers[n + 1], comparator="≤")
            numbers[n : n + 2] = replace(number, comparator="≥", unit=number.unit or last.unit), last
    return numbers
