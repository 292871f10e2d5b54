"""Tables in Markdown and HTML documents: as tables of their own, and as statements in the document's text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

MIN_ROWS = 2
"""Rows of a table, with its header, and columns; a smaller one arranges a page."""
MAX_SPAN = 100
"""Columns or rows that a cell of a page fills at most, whatever it declares."""
_MARKDOWN_RULE = re.compile(r"[ ]{0,3}\|?(?:\s*:?-+:?\s*\|)+\s*(?::?-+:?)?\s*")
_CELL_END = re.compile(r"(?<!\\)\|")
_HEADING = re.compile(r"[ ]{0,3}#{1,6}\s+(.*?)\s*#*\s*")
_FENCE = re.compile(r"[ ]{0,3}(?:```|~~~)")
_CELL_TAGS = ("td", "th")
_HEADING_TAGS = re.compile("h[1-6]")


@dataclass(frozen=True)
class PageTable:
    """A table of a document; ``line`` is that of its header, from 1, or None in a page of HTML.

    ``title``: The text of a first row with one cell, which is no header.
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    line: int | None = None
    title: str = ""

    @property
    def statements(self) -> list[str]:
        """A statement per row, such as "Boat: Swan; Seats: 8."; cells without a text are left out."""
        return [statement for row in self.rows if (statement := _state_row(self.header, row))]


def _state_row(header: Sequence[str], row: Sequence[str]) -> str:
    labels = [*header, *[""] * (len(row) - len(header))]
    parts = (f"{label}: {text}" if label else text for label, text in zip(labels, row, strict=False) if text)
    statement = "; ".join(parts)
    return statement if statement.endswith((".", "!", "?")) or not statement else f"{statement}."


def find_markdown_tables(text: str) -> list[PageTable]:
    """The tables of a Markdown text, captioned by the heading above; code between fences has none."""
    return [part for part in _split_markdown(text) if isinstance(part, PageTable)]


def state_markdown_tables(text: str) -> str:
    """A Markdown text with a statement per row instead of each table."""
    parts = _split_markdown(text)
    return "\n".join("\n\n".join(part.statements) if isinstance(part, PageTable) else part for part in parts)


def _split_markdown(text: str) -> Iterator[str | PageTable]:
    """The lines of a Markdown text, and its tables."""
    lines = text.split("\n")
    heading = ""
    is_code = False
    number = 0
    while number < len(lines):
        line = lines[number]
        is_code ^= _FENCE.match(line) is not None
        if not is_code and _starts_table(lines, number):
            table = _read_markdown_table(lines, number, heading)
            yield table
            number += MIN_ROWS + len(table.rows)
            continue
        if not is_code and (match := _HEADING.fullmatch(line)):
            heading = match[1]
        yield line
        number += 1


def _starts_table(lines: Sequence[str], number: int) -> bool:
    """Whether a line is the header of a table: one with cells above a rule and a row."""
    lines_below = lines[number + 1 : number + 3]
    return (
        len(lines_below) == MIN_ROWS
        and len(_split_markdown_row(lines[number])) >= MIN_ROWS
        and _MARKDOWN_RULE.fullmatch(lines_below[0]) is not None
        and _CELL_END.search(lines_below[1]) is not None
    )


def _read_markdown_table(lines: Sequence[str], number: int, caption: str) -> PageTable:
    rows = []
    for line in lines[number + MIN_ROWS :]:
        if not _CELL_END.search(line):
            break
        rows.append(_split_markdown_row(line))
    return PageTable(caption, _split_markdown_row(lines[number]), tuple(rows), number + 1)


def _split_markdown_row(line: str) -> tuple[str, ...]:
    inner = line.strip().removeprefix("|")
    inner = inner[:-1] if re.search(r"(?<!\\)\|$", inner) else inner
    return tuple(_plain_text(cell) for cell in _CELL_END.split(inner))


def _plain_text(cell: str) -> str:
    """The text of a cell without marks of emphasis, code and links."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell.replace(r"\|", "|"))
    text = re.sub(r"(\*\*|__|`)(.+?)\1", r"\2", text)
    return " ".join(text.split())


def find_html_tables(page: Any) -> list[tuple[Any, PageTable]]:
    """The tables of a parsed page with their tags; not those that arrange other tables, or have one row or column."""
    tables = []
    for tag in page.find_all("table"):
        if tag.find("table"):
            continue
        grid = _read_grid(tag)
        title = _find_title(tag)
        header, *rows = (grid[1:] if title else grid) or [()]
        if rows and len(header) >= MIN_ROWS:
            caption = _find_caption(tag, title)
            tables.append((tag, PageTable(caption, header, tuple(_pad(row, len(header)) for row in rows), title=title)))
    return tables


def _pad(row: tuple[str, ...], width: int) -> tuple[str, ...]:
    """A row with empty cells for those that it lacks, such as a last row with a note or a total."""
    return row + ("",) * (width - len(row))


def _find_title(tag: Any) -> str:
    """The text of a table's first row if it has one cell, which spans all columns or has none beside it.

    The row below must be a header. A heading and a value, as in an infobox, are none.
    """
    rows = [_list_cells(row_tag) for row_tag in tag.find_all("tr", limit=2)]
    if len(rows) < MIN_ROWS:
        return ""
    first, below = rows
    is_header = len({cell.name for cell in below}) == 1
    has_title = len(first) == 1 and is_header and _read_span(first[0], "rowspan") == 1
    return _cell_text(first[0]) if has_title else ""


def _find_caption(tag: Any, title: str) -> str:
    """The caption of a table, else its title, else the heading above it."""
    caption = tag.find("caption") or (None if title else tag.find_previous(_HEADING_TAGS))
    return " ".join(caption.get_text(" ").split()) if caption else title


def _read_grid(tag: Any) -> list[tuple[str, ...]]:
    """The cells of a table; one that spans columns or rows is repeated."""
    rows: list[tuple[str, ...]] = []
    pending: dict[int, tuple[int, str]] = {}  # by column: rows that a cell above still fills, and its text
    for row_tag in tag.find_all("tr"):
        texts: list[str] = []
        below: dict[int, tuple[int, str]] = {}
        for cell in _list_cells(row_tag):
            _fill_from_above(texts, pending, below)
            text = _cell_text(cell)
            n_rows = _read_span(cell, "rowspan")
            for _ in range(_read_span(cell, "colspan")):
                if n_rows > 1:
                    below[len(texts)] = (n_rows - 1, text)
                texts.append(text)
        _fill_from_above(texts, pending, below)
        pending = below
        if texts:
            rows.append(tuple(texts))
    return rows


def _list_cells(row_tag: Any) -> list[Any]:
    """The cells of a row; without end tags, rows and cells contain the next ones."""
    return [cell for cell in row_tag.find_all(_CELL_TAGS) if cell.find_parent("tr") is row_tag]


def _cell_text(cell: Any) -> str:
    return " ".join(" ".join(s for s in cell.strings if s.find_parent(_CELL_TAGS) is cell).split())


def _fill_from_above(texts: list[str], pending: dict[int, tuple[int, str]], below: dict[int, tuple[int, str]]) -> None:
    """Append the cells of rows above that fill the next columns."""
    while len(texts) in pending:
        n_rows, text = pending.pop(len(texts))
        if n_rows > 1:
            below[len(texts)] = (n_rows - 1, text)
        texts.append(text)


def _read_span(cell: Any, name: str) -> int:
    value = str(cell.get(name, "1")).strip()
    return min(MAX_SPAN, max(1, int(value))) if value.isascii() and value.isdecimal() and len(value) < 6 else 1
