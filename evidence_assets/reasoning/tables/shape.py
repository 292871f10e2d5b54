"""The shape of a table: which rows are header, which columns name the rows, which way the table reads.

Ragged rows become a grid that keeps every cell where it stood; headers, row labels, sections and sideways tables are
told by the kinds of the cells. Grid row 0 is the header row as read, so that a place means the same before and after.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from evidence_assets.reasoning.tables.cells import Cell, parse_cell

# A column counts as numeric when this share of its cells that are not empty is mostly numbers.
_NUMERIC_SHARE = 0.6
_MOST_HEADER_ROWS = 4

Grid = tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class TableShape:
    """What each part of a grid is.

    ``grid``: All rows in equal width, the header first; cells that a ragged row lacked are empty.
    ``header_rows``: Grid rows that name columns; empty when even the first row holds data.
    ``labels``: Name of each column: its header cells from top to bottom, repeated names once; empty names stay empty.
        In the upper of several header rows a name holds over the empty cells on its right, as merged cells leave them.
    ``row_header_columns``: Columns that name the rows, from the left.
    ``body``: Grid rows with data.
    ``sections``: Grid rows that hold one text only and head the rows below.
    ``row_labels``: For each grid row the texts that name it: its section, then its row header cells, empty ones filled
        from above.
    ``sideways``: Whether attributes stand down the side and things across the top.
    """

    grid: Grid
    header_rows: tuple[int, ...]
    labels: tuple[str, ...]
    row_header_columns: tuple[int, ...]
    body: tuple[int, ...]
    sections: tuple[int, ...]
    row_labels: tuple[tuple[str, ...], ...]
    sideways: bool

    @property
    def width(self) -> int:
        return len(self.labels)

    @property
    def value_columns(self) -> tuple[int, ...]:
        return tuple(j for j in range(self.width) if j not in self.row_header_columns)


def detect_shape(header: Sequence[str], rows: Sequence[Sequence[str]]) -> TableShape:
    """Find the shape of a table; no table is refused, one without rows or columns has an empty body.

    >>> shape = detect_shape(["", "A", "A"], [["", "EM", "F1"], ["BiDAF", "70.4", "79.8"], ["MQAN", "31.8", "75.4"]])
    >>> shape.header_rows, shape.labels, shape.row_header_columns, shape.body
    ((0, 1), ('', 'A EM', 'A F1'), (0,), (2, 3))
    """
    width = max([len(header), *(len(row) for row in rows)], default=0)
    grid = tuple(tuple(parse_cell(text) for text in (*row, *[""] * (width - len(row)))) for row in [header, *rows])
    if width == 0:
        return TableShape(grid, (0,), (), (), (), (), tuple(() for _ in grid), False)
    header_rows = _header_rows(grid)
    inner = [i for i in range(len(grid)) if i not in header_rows]
    sections = tuple(i for i in inner if width > 1 and _is_section(grid[i]))
    body = tuple(i for i in inner if i not in sections and any(cell.plain for cell in grid[i]))
    names = _row_header_columns(grid, body)
    labels = _labels(grid, header_rows, [j for j in range(width) if j not in names])
    row_labels = _row_labels(grid, body, sections, names)
    return TableShape(grid, header_rows, labels, names, body, sections, row_labels, _reads_sideways(grid, body, names))


def _numeric_columns(grid: Grid, rows: Iterable[int]) -> list[int]:
    """Columns of which most filled cells in some rows are numbers."""
    found, rows = [], list(rows)
    for j in range(len(grid[0])):
        filled = [grid[i][j].mostly_value for i in rows if grid[i][j].plain]
        if filled and sum(filled) >= _NUMERIC_SHARE * len(filled):
            found.append(j)
    return found


def _labels(grid: Grid, header_rows: tuple[int, ...], value_columns: Sequence[int]) -> tuple[str, ...]:
    """Name of each column; an empty cell above a named one takes the name on its left, within the same upper names."""
    above: list[tuple[str, ...]] = [() for _ in grid[0]]
    for place, i in enumerate(header_rows):
        names = [cell.plain for cell in grid[i]]
        for left, j in pairwise(value_columns):
            if not names[j] and above[left] == above[j] and any(grid[k][j].plain for k in header_rows[place + 1 :]):
                names[j] = names[left]
        above = [(*path, name) for path, name in zip(above, names, strict=True)]
    return tuple(" ".join(dict.fromkeys(filter(None, path))) for path in above)


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


def _row_header_columns(grid: Grid, body: tuple[int, ...]) -> tuple[int, ...]:
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


def _row_labels(
    grid: Grid, body: tuple[int, ...], sections: tuple[int, ...], columns: tuple[int, ...]
) -> tuple[tuple[str, ...], ...]:
    above, section = dict.fromkeys(columns, ""), ""
    labels: list[tuple[str, ...]] = []
    for i, row in enumerate(grid):
        if i in sections:
            section = next(cell.plain for cell in row if cell.plain)
            above = dict.fromkeys(columns, "")
        for place, j in enumerate(columns if i in body else ()):
            if row[j].plain:
                # A new name on the left starts anew on its right.
                above |= {j: row[j].plain} | {later: row[later].plain for later in columns[place + 1 :]}
        names = dict.fromkeys([section, *(above[j] for j in columns)]) if i in body else {}
        labels.append(tuple(filter(None, names)))
    return tuple(labels)


def _reads_sideways(grid: Grid, body: tuple[int, ...], names: tuple[int, ...]) -> bool:
    """Whether cells of a row are more alike in kind than cells of a column."""
    columns = [j for j in range(len(grid[0])) if j not in names]
    if len(columns) < 2 or len(body) < 2:
        return False
    kinds = [[_kind(grid[i][j]) for j in columns] for i in body]
    return _agreement(kinds) > _agreement(list(zip(*kinds, strict=True)))


def _kind(cell: Cell) -> str:
    value = cell.values[0] if cell.values else None
    return f"{value.kind}:{'.' in value.text}" if value else "text" if cell.plain else ""


def _agreement(groups: Sequence[Sequence[str]]) -> float:
    """Mean share of the commonest kind in each group, leaving empty cells out."""
    filled = [[kind for kind in group if kind] for group in groups]
    shares = [max(map(group.count, group)) / len(group) for group in filled if len(group) > 1]
    return sum(shares) / len(shares) if shares else 0.0
