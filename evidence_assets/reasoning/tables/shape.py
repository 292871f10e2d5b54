"""The shape of a table: which rows are header, which columns name the rows, which way the table reads.

What belongs here: repairing raggedness into a grid that keeps every cell where it stood, and finding headers, row
labels, section rows, glossaries and sideways tables from the kinds of the cells. Grid row 0 is the header row as read;
the body starts at grid row 1, so that a place (row, column) means the same before and after.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from evidence_assets.reasoning.tables.cells import Cell, parse_cell

# A column or row counts as numeric when this share of its cells that are not empty holds a number.
_NUMERIC_SHARE = 0.6
_MOST_HEADER_ROWS = 4
_GLOSSARY_TERM_WORDS = 6


@dataclass(frozen=True)
class TableShape:
    """What each part of a grid is.

    Attributes
    ----------
    grid
        All rows in equal width, the header first; cells that a ragged row lacked are empty.
    header_rows
        Grid rows that name columns; empty when even the first row holds data.
    labels
        Name of each column: its header cells from top to bottom, repeated names once; empty names stay empty. In the
        upper of several header rows a name holds over the empty cells on its right, as merged cells leave them.
    row_header_columns
        Columns that name the rows, from the left.
    body
        Grid rows with data.
    sections
        Grid rows that hold one text only and head the rows below.
    row_labels
        For each grid row the texts that name it: its section, then its row header cells, empty ones filled from above.
    sideways
        Whether attributes stand down the side and things across the top.
    glossary
        Whether this is a list of terms with their meanings.
    """

    grid: tuple[tuple[Cell, ...], ...]
    header_rows: tuple[int, ...]
    labels: tuple[str, ...]
    row_header_columns: tuple[int, ...]
    body: tuple[int, ...]
    sections: tuple[int, ...]
    row_labels: tuple[tuple[str, ...], ...]
    sideways: bool
    glossary: bool

    @property
    def width(self) -> int:
        return len(self.labels)

    @property
    def value_columns(self) -> tuple[int, ...]:
        return tuple(j for j in range(self.width) if j not in self.row_header_columns)


def detect_shape(header: Sequence[str], rows: Sequence[Sequence[str]]) -> TableShape:
    """Find the shape of a table; no table is refused, one without rows or columns has an empty body.

    Examples
    --------
    >>> shape = detect_shape(["", "A", "A"], [["", "EM", "F1"], ["BiDAF", "70.4", "79.8"], ["MQAN", "31.8", "75.4"]])
    >>> shape.header_rows, shape.labels, shape.row_header_columns, shape.body
    ((0, 1), ('', 'A EM', 'A F1'), (0,), (2, 3))
    """
    width = max([len(header), *(len(row) for row in rows)], default=0)
    grid = tuple(tuple(parse_cell(text) for text in (*row, *[""] * (width - len(row)))) for row in [header, *rows])
    numeric = tuple(tuple(cell.mostly_value for cell in row) for row in grid)
    if width == 0:
        return TableShape(grid, (0,), (), (), (), (), tuple(() for _ in grid), False, False)
    header_rows = _header_rows(grid, numeric)
    inner = [i for i in range(len(grid)) if i not in header_rows]
    sections = tuple(i for i in inner if width > 1 and _is_section(grid[i]))
    body = tuple(i for i in inner if i not in sections and any(cell.plain for cell in grid[i]))
    row_headers = _row_header_columns(grid, numeric, body, width)
    labels = _labels(grid, header_rows, [j for j in range(width) if j not in row_headers])
    row_labels = _row_labels(grid, body, sections, row_headers)
    glossary = _is_glossary(grid, numeric, body, width)
    sideways = not glossary and _reads_sideways(grid, body, row_headers, width)
    return TableShape(grid, header_rows, labels, row_headers, body, sections, row_labels, sideways, glossary)


def _joined(parts: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(part for part in parts if part))


def _labels(
    grid: tuple[tuple[Cell, ...], ...], header_rows: tuple[int, ...], value_columns: Sequence[int]
) -> tuple[str, ...]:
    """Name of each column; an empty cell above a named one takes the name on its left, within the same upper names."""
    above: list[tuple[str, ...]] = [() for _ in grid[0]]
    for place, i in enumerate(header_rows):
        names = [cell.plain for cell in grid[i]]
        for left, j in pairwise(value_columns):
            if not names[j] and above[left] == above[j] and any(grid[k][j].plain for k in header_rows[place + 1 :]):
                names[j] = names[left]
        above = [(*path, name) for path, name in zip(above, names, strict=True)]
    return tuple(_joined(path) for path in above)


def _header_rows(grid: tuple[tuple[Cell, ...], ...], numeric: tuple[tuple[bool, ...], ...]) -> tuple[int, ...]:
    """Leading rows without numbers above columns that are numeric below; none if the first row looks like the rest."""
    width = len(grid[0])
    below = range(1, len(grid))
    numeric_columns = [
        j
        for j in range(width)
        if (filled := [i for i in below if grid[i][j].plain])
        and sum(numeric[i][j] for i in filled) >= _NUMERIC_SHARE * len(filled)
    ]
    filled_above = [j for j in numeric_columns if grid[0][j].plain]
    # Years and sizes head columns too ("2019", "2020"): a numeric first row is data only where another cell of its
    # row names it, as row names do.
    if filled_above and all(numeric[0][j] for j in filled_above) and grid[0][0].plain and not numeric[0][0]:
        distinct_names = len({grid[i][0].plain for i in range(len(grid))}) == len(grid)
        integers = all(_looks_like_name(grid[0][j]) for j in filled_above)
        if distinct_names and not integers:
            return ()
    last = 0
    for i in range(1, min(_MOST_HEADER_ROWS, len(grid) - 1)):
        cells = [j for j in numeric_columns if grid[i][j].plain]
        is_header = len(cells) >= max(1, len(numeric_columns) // 2) and not any(numeric[i][j] for j in cells)
        if not is_header or _is_section(grid[i]):
            break
        last = i
    return tuple(range(last + 1))


def _looks_like_name(cell: Cell) -> bool:
    """Years, shares of data and ordinals head columns; counts and measurements do not."""
    value = cell.values[0]
    return (
        value.kind == "date" or (value.kind == "number" and 1900 <= value.value <= 2100) or value.kind == "percentage"
    )


def _is_section(row: tuple[Cell, ...]) -> bool:
    """One text repeated over the whole row, or alone in its first cell: a heading for the rows below."""
    texts = {cell.plain for cell in row if cell.plain}
    if len(texts) != 1 or any(cell.values and not cell.plain.strip("0123456789.,%") for cell in row):
        return False
    filled = [j for j, cell in enumerate(row) if cell.plain]
    return filled == list(range(len(row))) or (filled == [0] and len(row) > 2)


def _row_header_columns(
    grid: tuple[tuple[Cell, ...], ...], numeric: tuple[tuple[bool, ...], ...], body: tuple[int, ...], width: int
) -> tuple[int, ...]:
    """Leading columns of text; in a table of text alone the first column that tells rows apart.

    Sizes and years name rows too: a numeric first column counts if text follows it, or if its values all differ.
    """
    if width < 2 or not body:
        return ()
    is_numeric = [
        bool(filled := [i for i in body if grid[i][j].plain])
        and sum(numeric[i][j] for i in filled) >= _NUMERIC_SHARE * len(filled)
        for j in range(width)
    ]
    if any(is_numeric):
        start = 1 if is_numeric[0] and width > 2 and not is_numeric[1] else 0
        stop = next((j for j in range(start, width - 1) if is_numeric[j]), width - 1)
        if stop == 0 and len({grid[i][0].plain for i in body}) == len(body) > 1:
            return (0,)
        return tuple(range(stop))
    for j in range(width):
        texts = [grid[i][j].plain for i in body]
        if len(set(texts)) > max(1, len(texts) // 2):
            return (j,)
    return (0,)


def _row_labels(
    grid: tuple[tuple[Cell, ...], ...], body: tuple[int, ...], sections: tuple[int, ...], columns: tuple[int, ...]
) -> tuple[tuple[str, ...], ...]:
    above = dict.fromkeys(columns, "")
    section = ""
    labels: list[tuple[str, ...]] = []
    for i, row in enumerate(grid):
        if i in sections:
            section = next(cell.plain for cell in row if cell.plain)
            above = dict.fromkeys(columns, "")
        if i not in body:
            labels.append(())
            continue
        for place, j in enumerate(columns):
            if row[j].plain:
                above[j] = row[j].plain
                # A new name on the left starts anew on its right.
                for later in columns[place + 1 :]:
                    above[later] = row[later].plain
        names = dict.fromkeys([section, *(above[j] for j in columns)])
        labels.append(tuple(name for name in names if name))
    return tuple(labels)


def _is_glossary(
    grid: tuple[tuple[Cell, ...], ...], numeric: tuple[tuple[bool, ...], ...], body: tuple[int, ...], width: int
) -> bool:
    """Two columns of text, short terms left and longer explanations right."""
    rows = [i for i in body if grid[i][0].plain and grid[i][width - 1].plain]
    if width != 2 or len(rows) < 2 or any(numeric[i][1] for i in rows):
        return False
    terms = [len(grid[i][0].plain.split()) for i in rows]
    meanings = [len(grid[i][1].plain.split()) for i in rows]
    return max(terms) <= _GLOSSARY_TERM_WORDS and sum(meanings) >= 2 * sum(terms)


def _reads_sideways(
    grid: tuple[tuple[Cell, ...], ...], body: tuple[int, ...], row_headers: tuple[int, ...], width: int
) -> bool:
    """Whether cells of a row are more alike in kind than cells of a column."""
    columns = [j for j in range(width) if j not in row_headers]
    if len(columns) < 2 or len(body) < 2:
        return False
    kinds = {(i, j): _kind(grid[i][j]) for i in body for j in columns}
    along_rows = _agreement([[kinds[i, j] for j in columns] for i in body])
    along_columns = _agreement([[kinds[i, j] for i in body] for j in columns])
    return along_rows > along_columns


def _kind(cell: Cell) -> str:
    if not cell.plain:
        return ""
    if not cell.values:
        return "text"
    return f"{cell.values[0].kind}:{'.' in cell.values[0].text}"


def _agreement(groups: list[list[str]]) -> float:
    """Mean share of the commonest kind in each group, leaving empty cells out."""
    shares = []
    for group in groups:
        filled = [kind for kind in group if kind]
        if len(filled) > 1:
            shares.append(max(filled.count(kind) for kind in set(filled)) / len(filled))
    return sum(shares) / len(shares) if shares else 0.0
