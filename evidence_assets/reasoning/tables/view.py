"""A table as the deterministic reasoner reads it, and the plain shapes of what it answers.

What belongs here: the table with its shape, its words and numbers in a form that can be compared, and the results.
A place is ``(row, column)``: row 0 is the header as read, the body starts at row 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from evidence_assets.reasoning.tables.cells import Cell
from evidence_assets.reasoning.tables.shape import TableShape, detect_shape
from evidence_assets.reasoning.tables.text import content_stems, unit_in, word_set

Place = tuple[int, int]
# The share of the filled cells that makes a column one of numbers; numbers that are years.
_NUMERIC, _FIRST_YEAR, _LAST_YEAR = 0.8, 1000, 2100


@dataclass(frozen=True)
class TableStep:
    """One step of a chain: what was done (the operation), said in a sentence, with the cells that show it."""

    operation: str
    text: str
    cells: tuple[Place, ...] = ()
    quoted: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableChain:
    """The steps that speak for one label or option; ``support`` in [0, 1] says how strongly."""

    hypothesis: str
    steps: tuple[TableStep, ...]
    support: float


@dataclass(frozen=True, eq=False)
class TableView:
    """A table with its shape and its words.

    A view equals no other than itself, so that what is worked out for it can be kept with it as a key.
    ``turned`` says that rows and columns have been exchanged, as the table reads sideways: its places are the other
    way round than in the table as given.
    """

    table_id: str
    caption: str
    shape: TableShape
    turned: bool = False

    @classmethod
    def of(cls, table_id: str, caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> TableView:
        return cls(table_id, caption, detect_shape(header, rows))

    @classmethod
    def from_cells(cls, table_id: str, cells: Mapping[Place, str], caption: str = "") -> TableView:
        """The table as far as some of its cells show it: each stays at its place, all others are empty."""
        height = max((row for row, _ in cells), default=0) + 1
        width = max((column for _, column in cells), default=-1) + 1
        grid = [[cells.get((i, j), "") for j in range(width)] for i in range(height)]
        return cls.of(table_id, caption, grid[0], grid[1:])

    def cell(self, place: Place) -> Cell:
        return self.shape.grid[place[0]][place[1]]

    def said(self, place: Place) -> str:
        """The reading copy of a cell."""
        return self.cell(place).plain

    @cached_property
    def upright(self) -> TableView:
        """The table with its things in rows: itself, or turned round where it has attributes down its side.

        Only a plain sideways table is turned: one header row, one column of names, no sections.
        """
        shape = self.shape
        if not shape.sideways or shape.header_rows != (0,) or shape.row_header_columns != (0,) or shape.sections:
            return self
        lines = [[row[j].text for row in shape.grid] for j in range(shape.width)]
        turned = detect_shape(lines[0], lines[1:])
        plain = turned.header_rows == (0,) and not turned.sideways
        return TableView(self.table_id, self.caption, turned, turned=True) if plain else self

    def step(self, operation: str, text: str, cells: Sequence[Place]) -> TableStep:
        """A step that quotes the cells that it cites."""
        return TableStep(operation, text, tuple(cells), tuple(map(self.said, cells)))

    def chain_as_given(self, chain: TableChain) -> TableChain:
        """A chain read from this view, its cells at their places in the table as given."""
        if not self.turned:
            return chain
        return replace(
            chain, steps=tuple(replace(step, cells=tuple((j, i) for i, j in step.cells)) for step in chain.steps)
        )

    def line(self, row: int) -> str:
        """What a row is called in the table as given."""
        return f"{'Column' if self.turned else 'Row'} {row}"

    def label(self, column: int) -> str:
        """The name of a column, or its number if it has none."""
        return self.shape.labels[column] or f"column {column}"

    @property
    def body(self) -> tuple[int, ...]:
        """Rows with data."""
        return self.shape.body

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """Columns that hold anything."""
        return tuple(j for j in range(self.shape.width) if any(row[j].plain for row in self.shape.grid))

    @cached_property
    def name_columns(self) -> tuple[int, ...]:
        """Columns that name the rows: the first of the row headers where it tells every row apart, else all of them."""
        found = self.shape.row_header_columns
        first = [self.said((i, found[0])) for i in self.body] if found else []
        return found[:1] if first and all(first) and len(set(first)) == len(first) else found

    @cached_property
    def telling_columns(self) -> tuple[int, ...]:
        """Of the columns that name the rows those that tell rows apart: not "weighs, on average," in each of them."""
        return tuple(j for j in self.name_columns if not self.says_one_thing(j))

    @cached_property
    def numeric(self) -> frozenset[int]:
        """Columns of which nearly all filled cells are little more than a number."""
        filled = {j: [i for i in self.body if self.said((i, j))] for j in self.columns}
        plain = {
            j: [i for i in rows if self.number((i, j)) is not None and self.cell((i, j)).mostly_value]
            for j, rows in filled.items()
        }
        return frozenset(j for j, rows in filled.items() if rows and len(plain[j]) >= _NUMERIC * len(rows))

    @cached_property
    def measures(self) -> tuple[int, ...]:
        return tuple(j for j in self.columns if j in self.numeric and j not in self.name_columns)

    @cached_property
    def dated(self) -> frozenset[int]:
        """Numeric columns that hold years or dates."""
        numbers = {j: [self.cell((i, j)).number for i in self.body if self.said((i, j))] for j in self.numeric}
        return frozenset(
            j
            for j, years in numbers.items()
            if not unit_in(self.shape.labels[j])
            and all(year is None or (_FIRST_YEAR <= year <= _LAST_YEAR and year % 1 == 0) for year in years)
        )

    def number(self, place: Place) -> float | None:
        """The quantity or date that a cell states."""
        cell = self.cell(place)
        if cell.number is not None:
            return cell.number
        return next((value.value for value in cell.values if value.kind == "date"), None)

    def name_at(self, place: Place) -> str:
        """The name that a cell gives its row; an empty one that of the cell above, where that is meant."""
        above = (self.said((i, place[1])) for i in range(place[0], 0, -1))
        name = next(filter(None, above), "")
        return name if name in self.shape.row_labels[place[0]] else self.said(place)

    def row_name(self, row: int) -> str:
        """The names of a row, as far as they tell it from others."""
        return ", ".join(filter(None, (self.said((row, j)) for j in self.telling_columns))) or f"row {row}"

    def says_one_thing(self, column: int) -> bool:
        """Whether all rows of the body, of two or more, hold the same text in a column."""
        return len(self.body) > 1 and len({self.said((i, column)) for i in self.body}) == 1

    def heads(self, column: int) -> tuple[Place, ...]:
        """The cells above a column that say what it holds."""
        return tuple((i, column) for i in self.shape.header_rows if self.said((i, column)))

    @cached_property
    def row_words(self) -> dict[int, frozenset[str]]:
        return {i: frozenset().union(*(word_set(self.said((i, j))) for j in self.columns)) for i in self.body}

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Every content word of the table, its header and its caption included."""
        said = (cell.plain for row in self.shape.grid for cell in row)
        return frozenset(word for text in (self.caption, *said) for word in content_stems(text))

    @cached_property
    def row_frequency(self) -> Counter[str]:
        """In how many rows each word stands."""
        return Counter(word for words in self.row_words.values() for word in words)

    @cached_property
    def _weights(self) -> dict[str, float]:
        return {word: math.log(1.0 + len(self.body) / (0.5 + n)) for word, n in self.row_frequency.items()}

    def weight_of(self, words: Iterable[str]) -> float:
        """Inverse row frequency of words of rows: one of every row weighs next to nothing, one of one row most."""
        return math.fsum(self._weights[word] for word in words)
