"""A parsed table: its structure, words and numbers; and chains of steps that cite its cells."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from evidence_assets.reasoning.tables.cell_text import collect_words, extract_unit, stem_content_words
from evidence_assets.reasoning.tables.cells import Cell, CellValue, parse_cell
from evidence_assets.reasoning.tables.lexicon import load_lexicon, measures_of, pattern, word_list

CellLocation = tuple[int, int]  # (row, column); row 0 is the header
Grid = tuple[tuple[Cell, ...], ...]
# Minimum shares of numeric cells in a column: after which no column names rows, and to compare values.
_NUMERIC_AFTER_NAMES = 0.6
_NUMERIC = 0.8
FIRST_YEAR = 1000
_LAST_YEAR = 2100


@dataclass(frozen=True)
class TableStep:
    """A step of a chain: its operation, a sentence, and the cells that it cites."""

    operation: str
    text: str
    cells: tuple[CellLocation, ...] = ()


@dataclass(frozen=True)
class TableChain:
    """The steps for a label or option, and their ``support`` for it in [0, 1]."""

    hypothesis: str
    steps: tuple[TableStep, ...]
    support: float


@dataclass(frozen=True, eq=False)
class TableView:
    """A table and its structure; hashed by identity, so it can be a cache key."""

    caption: str
    grid: Grid  # all rows, padded to equal width, the header first

    @classmethod
    def of(cls, caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> TableView:
        """Parse a table; one without rows or columns has an empty body."""
        width = max([len(header), *map(len, rows)])
        padded = ((*row, *[""] * (width - len(row))) for row in [header, *rows])
        return cls(caption, tuple(tuple(map(parse_cell, row)) for row in padded))

    @classmethod
    def from_cells(cls, cells: Mapping[CellLocation, str], caption: str = "") -> TableView:
        """A table from some of its cells at their locations; all other cells are empty."""
        height = max((row for row, _ in cells), default=0) + 1
        width = max((column for _, column in cells), default=-1) + 1
        grid = [[cells.get((i, j), "") for j in range(width)] for i in range(height)]
        return cls.of(caption, grid[0], grid[1:])

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The name of each column."""
        return tuple(cell.plain for cell in self.grid[0])

    @property
    def width(self) -> int:
        return len(self.labels)

    @cached_property
    def body(self) -> tuple[int, ...]:
        """Rows below the header with at least one non-empty cell."""
        return tuple(i for i, row in enumerate(self.grid) if i > 0 and any(cell.plain for cell in row))

    def cell(self, location: CellLocation) -> Cell:
        return self.grid[location[0]][location[1]]

    def text_at(self, location: CellLocation) -> str:
        """The plain text of a cell."""
        return self.cell(location).plain

    def number_at(self, location: CellLocation) -> float | None:
        """The quantity or date in a cell; of a column with kg and g in g."""
        cell = self.cell(location)
        if cell.quantity is not None:
            return cell.quantity.value * self.mixed_units.get(location[1], {}).get(cell.quantity.unit.casefold(), 1)
        return next((value.value for value in cell.values if value.kind == "date"), None)

    def label(self, column: int) -> str:
        """The name of a column, or its number if it has none."""
        return self.labels[column] or f"column {column}"

    def row_texts(self, row: int) -> dict[int, str]:
        """The texts of the non-empty cells of a row by column."""
        return {j: cell.plain for j, cell in enumerate(self.grid[row]) if cell.plain}

    def column_texts(self, column: int) -> list[str]:
        """The texts of a column in the body."""
        return [self.text_at((i, column)) for i in self.body]

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """Columns with at least one non-empty cell."""
        return tuple(j for j in range(self.width) if any(row[j].plain for row in self.grid))

    def _has_numbers(self, column: int, share: float) -> bool:
        """Whether at least a share of the cells that state something are numbers."""
        cells = [self.cell((i, column)) for i in self.body]
        is_number = [cell.is_mostly_value for cell in cells if cell.is_known]
        return bool(is_number) and sum(is_number) >= share * len(is_number)

    @cached_property
    def row_headers(self) -> tuple[int, ...]:
        """Columns that name the rows: those before the first numeric one, else the first that distinguishes most."""
        if not self.body:
            return ()
        columns = range(self.width)
        first_number = next((j for j in columns if self._has_numbers(j, _NUMERIC_AFTER_NAMES)), 0)
        distinct = (j for j in columns[:-1] if len({*self.column_texts(j)}) > len(self.body) // 2)
        return tuple(columns[:first_number]) or tuple(distinct)[:1] or tuple(columns[:-1][:1])

    @cached_property
    def name_columns(self) -> tuple[int, ...]:
        """Columns that name the rows: the first row header if its cells are distinct, else all row headers.

        If its cells are ranks or codes, the first column with distinct words is before it.
        """
        headers = self.row_headers
        if not headers:
            return ()
        texts = (j for j in self.columns if j not in self.numeric_columns and self._is_distinct(j))
        words = [j for j in texts if not self.has_codes(j)] if self.has_codes(headers[0]) else []
        return (*words[:1], headers[0]) if self._is_distinct(headers[0]) else tuple(words[:1]) or headers

    def _is_distinct(self, column: int) -> bool:
        texts = self.column_texts(column)
        return all(texts) and len({*texts}) == len(texts)

    def has_codes(self, column: int) -> bool:
        """Whether nearly each cell is one word with a digit, such as a rank, a date or "INV-103"."""
        texts = self.column_texts(column)
        n_codes = sum(len(text.split()) == 1 and any(map(str.isdigit, text)) for text in texts)
        return n_codes >= _NUMERIC * len(texts)

    @cached_property
    def distinguishing_columns(self) -> tuple[int, ...]:
        """Name columns that distinguish rows: a column with the same text in every row is left out."""
        return tuple(j for j in self.name_columns if not self.is_constant(j))

    @cached_property
    def summary_rows(self) -> frozenset[int]:
        """Rows whose names say only that they sum up other rows: "Total", "Average"."""
        names = {i: [name for j in self.name_columns if (name := self.text_at((i, j)))] for i in self.body}
        is_summary = pattern("summary_row").fullmatch
        return frozenset(i for i, row in names.items() if row and all(is_summary(name.rstrip(":")) for name in row))

    @cached_property
    def numeric_columns(self) -> frozenset[int]:
        """Columns in which nearly all non-empty cells are numbers."""
        return frozenset(j for j in range(self.width) if self._has_numbers(j, _NUMERIC))

    @cached_property
    def measure_columns(self) -> tuple[int, ...]:
        """Numeric columns that do not name the rows."""
        return tuple(j for j in self.columns if j in self.numeric_columns and j not in self.name_columns)

    @cached_property
    def date_columns(self) -> frozenset[int]:
        """Numeric columns of years or dates."""
        columns = (j for j in self.numeric_columns if not extract_unit(self.labels[j]))
        return frozenset(
            j
            for j in columns
            if all(FIRST_YEAR <= v.value <= _LAST_YEAR and v.value % 1 == 0 for v in self._quantities[j])
        )

    @cached_property
    def _quantities(self) -> dict[int, list[CellValue]]:
        """The quantities in the cells of each numeric column."""
        cells = {j: [self.cell((i, j)).quantity for i in self.body] for j in self.numeric_columns}
        return {j: [value for value in values if value is not None] for j, values in cells.items()}

    @cached_property
    def only_year(self) -> int | None:
        """The year of all dates, if they have one in common."""
        dates = (value for i in self.body for cell in self.grid[i] for value in cell.values if value.kind == "date")
        years = {date.fromordinal(int(value.value)).year for value in dates if not value.unit}
        return min(years) if len(years) == 1 else None

    @cached_property
    def time_columns(self) -> frozenset[int]:
        """Numeric columns of times such as 17:05."""
        return frozenset(j for j, values in self._quantities.items() if any(value.is_time for value in values))

    @cached_property
    def measures(self) -> dict[int, frozenset[str]]:
        """What each numeric column measures by its unit: "Runs (min)" a duration."""
        return {j: frozenset().union(*map(measures_of, units)) for j, units in self.units.items()}

    @cached_property
    def units(self) -> dict[int, frozenset[str]]:
        """The units and currencies in the header and the cells of each numeric column."""
        headers = {j: [extract_unit(self.labels[j]), self.labels[j]] for j in self._quantities}
        cells = {j: [unit for v in values for unit in (v.unit, v.text[:1])] for j, values in self._quantities.items()}
        return {j: frozenset(map(str.casefold, headers[j] + cells[j])) for j in headers}

    @cached_property
    def mixed_units(self) -> dict[int, Mapping[str, float]]:
        """Factors of units by numeric column, for columns with several units of one kind, such as kg and g."""
        units = {j: {value.unit.casefold() for value in values} for j, values in self._quantities.items()}
        kinds = load_lexicon()["units"]
        return {j: kind for j in units for kind in kinds if len(units[j]) > 1 and units[j] <= kind.keys()}

    def unit_factor(self, column: int, unit: str) -> float:
        """The factor of a number with this unit, "2 hours", to compare it with a column, "Runs (min)"."""
        if column in self.mixed_units:
            return self.mixed_units[column].get(unit, math.nan)
        kind: dict[str, float] = next((kind for kind in load_lexicon()["units"] if unit in kind), {})
        units = sorted(self.units.get(column, frozenset()) & kind.keys())
        return kind[unit] / kind[units[0]] if units else 1.0

    @cached_property
    def flag_columns(self) -> dict[int, tuple[frozenset[str], frozenset[str]]]:
        """Columns of "yes" and "no", with their texts for both."""
        flags = {}
        for j in self.columns:
            texts = {self.text_at((i, j)) for i in self.body if self.cell((i, j)).is_known}
            yes, no = (frozenset(t for t in texts if t.casefold() in word_list(key)) for key in ("flag_yes", "flag_no"))
            if texts and texts == yes | no:
                flags[j] = (yes, no)
        return flags

    @cached_property
    def text_columns(self) -> tuple[int, ...]:
        """Columns of texts instead of numbers, flags or codes."""
        values = {*self.numeric_columns, *self.flag_columns}
        return tuple(j for j in self.columns if j not in values and not self.has_codes(j))

    def row_name(self, row: int) -> str:
        """The names of a row that distinguish it from others."""
        return ", ".join(filter(None, (self.text_at((row, j)) for j in self.distinguishing_columns))) or f"row {row}"

    def is_constant(self, column: int) -> bool:
        """Whether there are several body rows and a column has the same text in all."""
        return len(self.body) > 1 and len({*self.column_texts(column)}) == 1

    def header_cells(self, column: int) -> tuple[CellLocation, ...]:
        """The header cell of a column, unless it is empty."""
        return ((0, column),) if self.labels[column] else ()

    @cached_property
    def row_words(self) -> dict[int, frozenset[str]]:
        return {i: frozenset().union(*(collect_words(self.text_at((i, j))) for j in self.columns)) for i in self.body}

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Content stems of the caption, the header and all cells."""
        texts = (self.caption, *(cell.plain for row in self.grid for cell in row))
        return frozenset(word for text in texts for word in stem_content_words(text))

    @cached_property
    def word_weights(self) -> dict[str, float]:
        """Inverse row frequency of each word: ``log(1 + rows / (0.5 + n))`` for a word in n rows."""
        frequency = Counter(word for words in self.row_words.values() for word in words)
        return {word: math.log(1.0 + len(self.body) / (0.5 + n)) for word, n in frequency.items()}

    def weight_of(self, words: Iterable[str]) -> float:
        return math.fsum(self.word_weights[word] for word in words)
