"""A table as the reasoner reads it: its shape, words and numbers, and the plain shapes of what is answered from it.

A place is ``(row, column)``: row 0 is the header as read, the body starts at row 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from evidence_assets.reasoning.tables.cells import Cell, parse_cell
from evidence_assets.reasoning.tables.text import content_stems, unit_in, word_set

Place = tuple[int, int]
Grid = tuple[tuple[Cell, ...], ...]
# The share of filled cells that makes a column one of numbers: to tell header from body, and to be compared.
_MOSTLY_NUMERIC, _NUMERIC = 0.6, 0.8
_MOST_HEADER_ROWS = 4
_FIRST_YEAR, _LAST_YEAR = 1000, 2100


def _numeric_columns(grid: Grid, rows: Iterable[int], share: float = _MOSTLY_NUMERIC) -> list[int]:
    """Columns of which most filled cells in some rows are numbers."""
    filled = {j: [grid[i][j].mostly_value for i in rows if grid[i][j].plain] for j in range(len(grid[0]))}
    return [j for j, values in filled.items() if values and sum(values) >= share * len(values)]


def _labels(grid: Grid, header_rows: tuple[int, ...]) -> tuple[str, ...]:
    """Name of each column: its header cells from top to bottom, repeated names once."""
    columns = zip(*(grid[i] for i in header_rows), strict=True) if header_rows else ((),) * len(grid[0])
    return tuple(" ".join(dict.fromkeys(cell.plain for cell in column if cell.plain)) for column in columns)


def _header_rows(grid: Grid) -> tuple[int, ...]:
    """Leading rows without numbers above columns that are numeric below; none if the first row looks like the rest."""
    numeric = _numeric_columns(grid, range(1, len(grid)))
    first, above = grid[0], [grid[0][j] for j in numeric if grid[0][j].plain]
    named = first[0].plain and not first[0].mostly_value and len({row[0].plain for row in grid}) == len(grid)
    if above and named and all(cell.mostly_value for cell in above) and not all(map(_looks_like_name, above)):
        return ()
    last = 0
    for i in range(1, min(_MOST_HEADER_ROWS, len(grid) - 1)):
        filled = [grid[i][j] for j in numeric if grid[i][j].plain]
        wordy = len(filled) >= max(1, len(numeric) // 2) and not any(cell.mostly_value for cell in filled)
        if not wordy or _is_section(grid[i]):
            break
        last = i
    return tuple(range(last + 1))


def _looks_like_name(cell: Cell) -> bool:
    """Years and shares of data head columns ("2019", "10%"); counts and measurements do not."""
    value = cell.values[0]
    return value.kind in {"date", "percentage"} or (value.kind == "number" and 1900 <= value.value <= 2100)


def _is_section(row: tuple[Cell, ...]) -> bool:
    """One text repeated over the whole row, or alone in its first cell: a heading for the rows below."""
    filled = [j for j, cell in enumerate(row) if cell.plain]
    if len({row[j].plain for j in filled}) != 1 or not row[filled[0]].plain.strip("0123456789.,%"):
        return False
    return len(filled) == len(row) or (filled == [0] and len(row) > 2)


def _row_headers(grid: Grid, body: tuple[int, ...]) -> tuple[int, ...]:
    """Leading columns of text; in a table of text alone the first column that tells rows apart.

    Sizes and years name rows too: a numeric first column counts if text follows it, or if its values all differ.
    """
    width = len(grid[0])
    if width < 2 or not body:
        return ()
    numeric = _numeric_columns(grid, body)
    different = [len({grid[i][j].plain for i in body}) for j in range(width)]
    if numeric:
        start = 1 if 0 in numeric and width > 2 and 1 not in numeric else 0
        stop = next((j for j in range(start, width - 1) if j in numeric), width - 1)
        return (0,) if stop == 0 and different[0] == len(body) > 1 else tuple(range(stop))
    return (next((j for j in range(width) if different[j] > max(1, len(body) // 2)), 0),)


def _value_kind(cell: Cell) -> str:
    value = cell.values[0] if cell.values else None
    return f"{value.kind}:{'.' in value.text}" if value else "text" if cell.plain else ""


def _uniformity(groups: Iterable[Sequence[str]]) -> float:
    """Mean share of the most frequent kind in each group, without empty cells."""
    filled = [[kind for kind in group if kind] for group in groups]
    shares = [max(map(group.count, group)) / len(group) for group in filled if len(group) > 1]
    return sum(shares) / len(shares) if shares else 0.0


@dataclass(frozen=True)
class TableStep:
    """One step of a chain: what was done (the operation), said in a sentence, with the cells that show it."""

    operation: str
    text: str
    cells: tuple[Place, ...] = ()


@dataclass(frozen=True)
class TableChain:
    """The steps that speak for one label or option; ``support`` in [0, 1] says how strongly."""

    hypothesis: str
    steps: tuple[TableStep, ...]
    support: float


@dataclass(frozen=True, eq=False)
class TableView:
    """A table and what each part of it is; compared by identity, so that it can be the key of a cache."""

    table_id: str
    caption: str
    grid: Grid  # all rows in equal width, the header first; cells that a ragged row lacked are empty
    header_rows: tuple[int, ...]  # grid rows that name columns; empty when even the first row holds data
    sections: tuple[int, ...]  # grid rows that hold one text only and head the rows below
    body: tuple[int, ...]  # grid rows with data
    row_headers: tuple[int, ...]  # columns that name the rows, from the left
    labels: tuple[str, ...]  # name of each column: its header cells from top to bottom, repeated names once
    is_transposed: bool = False

    @classmethod
    def of(cls, table_id: str, caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> TableView:
        """Read a table; none is refused, one without rows or columns has an empty body."""
        width = max([len(header), *map(len, rows)])
        grid = tuple(tuple(parse_cell(text) for text in (*row, *[""] * (width - len(row)))) for row in [header, *rows])
        if width == 0:
            return cls(table_id, caption, grid, (0,), (), (), (), ())
        header_rows = _header_rows(grid)
        inner = [i for i in range(len(grid)) if i not in header_rows]
        sections = tuple(i for i in inner if width > 1 and _is_section(grid[i]))
        body = tuple(i for i in inner if i not in sections and any(cell.plain for cell in grid[i]))
        row_headers = _row_headers(grid, body)
        return cls(table_id, caption, grid, header_rows, sections, body, row_headers, _labels(grid, header_rows))

    @classmethod
    def from_cells(cls, table_id: str, cells: Mapping[Place, str], caption: str = "") -> TableView:
        """The table as far as some of its cells show it: each stays at its place, all others are empty."""
        height = max((row for row, _ in cells), default=0) + 1
        width = max((column for _, column in cells), default=-1) + 1
        grid = [[cells.get((i, j), "") for j in range(width)] for i in range(height)]
        return cls.of(table_id, caption, grid[0], grid[1:])

    @cached_property
    def is_sideways(self) -> bool:
        """Whether the cells of a row are more alike in kind than those of a column."""
        kinds = [
            [_value_kind(self.cell((i, j))) for j in range(self.width) if j not in self.row_headers] for i in self.body
        ]
        if len(kinds) < 2 or len(kinds[0]) < 2:
            return False
        return _uniformity(kinds) > _uniformity(zip(*kinds, strict=True))

    @cached_property
    def upright(self) -> TableView:
        """The table with one record per row: a simple table with one record per column is transposed."""
        if self.header_rows != (0,) or self.row_headers != (0,) or self.sections or not self.is_sideways:
            return self
        columns = [[row[j].text for row in self.grid] for j in range(self.width)]
        view = replace(TableView.of(self.table_id, self.caption, columns[0], columns[1:]), is_transposed=True)
        return view if view.header_rows == (0,) and not view.is_sideways else self

    @property
    def width(self) -> int:
        return len(self.labels)

    def cell(self, place: Place) -> Cell:
        return self.grid[place[0]][place[1]]

    def said(self, place: Place) -> str:
        """The reading copy of a cell."""
        return self.cell(place).plain

    def row_number(self, row: int) -> str:
        """The number of a row in the table as given."""
        return f"{'Column' if self.is_transposed else 'Row'} {row}"

    def label(self, column: int) -> str:
        """The name of a column, or its number if it has none."""
        return self.labels[column] or f"column {column}"

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """Columns that hold anything."""
        return tuple(j for j in range(self.width) if any(row[j].plain for row in self.grid))

    @cached_property
    def name_columns(self) -> tuple[int, ...]:
        """Columns that name the rows: the first of the row headers where it tells every row apart, else all of them."""
        headers = self.row_headers
        first = [self.said((i, headers[0])) for i in self.body] if headers else []
        return headers[:1] if first and all(first) and len(set(first)) == len(first) else headers

    @cached_property
    def telling_columns(self) -> tuple[int, ...]:
        """Of the columns that name the rows those that tell rows apart: not "weighs, on average," in each of them."""
        return tuple(j for j in self.name_columns if not self.says_one_thing(j))

    @cached_property
    def numeric(self) -> frozenset[int]:
        """Columns of which nearly all filled cells are little more than a number."""
        return frozenset(_numeric_columns(self.grid, self.body, _NUMERIC))

    @cached_property
    def measures(self) -> tuple[int, ...]:
        return tuple(j for j in self.columns if j in self.numeric and j not in self.name_columns)

    @cached_property
    def dated(self) -> frozenset[int]:
        """Numeric columns that hold years or dates."""

        def is_year(number: float | None) -> bool:
            return number is None or (_FIRST_YEAR <= number <= _LAST_YEAR and number % 1 == 0)

        without_unit = (j for j in self.numeric if not unit_in(self.labels[j]))
        return frozenset(j for j in without_unit if all(is_year(self.cell((i, j)).number) for i in self.body))

    def number(self, place: Place) -> float | None:
        """The quantity or date that a cell states."""
        cell = self.cell(place)
        if cell.number is not None:
            return cell.number
        return next((value.value for value in cell.values if value.kind == "date"), None)

    def name_at(self, place: Place) -> str:
        """The name that a cell gives its row; an empty one that of the cell above, as merged cells leave it."""
        row, column = place
        first = max((i for i in self.sections if i < row), default=self.body[0])
        return next((name for i in range(row, first - 1, -1) if (name := self.said((i, column)))), "")

    def row_name(self, row: int) -> str:
        """The names of a row, as far as they tell it from others."""
        return ", ".join(filter(None, (self.said((row, j)) for j in self.telling_columns))) or f"row {row}"

    def says_one_thing(self, column: int) -> bool:
        """Whether all rows of the body, of two or more, hold the same text in a column."""
        return len(self.body) > 1 and len({self.said((i, column)) for i in self.body}) == 1

    def heads(self, column: int) -> tuple[Place, ...]:
        """The cells above a column that say what it holds."""
        return tuple((i, column) for i in self.header_rows if self.said((i, column)))

    @cached_property
    def row_words(self) -> dict[int, frozenset[str]]:
        return {i: frozenset().union(*(word_set(self.said((i, j))) for j in self.columns)) for i in self.body}

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Every content word of the table, its header and its caption included."""
        said = (cell.plain for row in self.grid for cell in row)
        return frozenset(word for text in (self.caption, *said) for word in content_stems(text))

    @cached_property
    def word_weights(self) -> dict[str, float]:
        """Inverse row frequency of the words of rows: one of every row weighs next to nothing, one of one row most."""
        frequency = Counter(word for words in self.row_words.values() for word in words)
        return {word: math.log(1.0 + len(self.body) / (0.5 + n)) for word, n in frequency.items()}

    def weight_of(self, words: Iterable[str]) -> float:
        return math.fsum(self.word_weights[word] for word in words)
