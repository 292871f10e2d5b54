"""View of one row of evidence with its source, and tables with evidence marked in their cells."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.paths import WalkedEdge, explain_path
from evidence_assets.reasoning.statements import TEXT_KINDS
from evidence_assets.reasoning.tasks import CAPTION
from evidence_assets.text.markdown import plain_text

SOURCE_COLUMNS = {
    "chunk": "coalesce(nullif(title, ''), doc_id) AS title, "
    "source || if(doc_id = source, '', ', document ' || doc_id) AS place, char_start, char_end, text, doc_id, source, "
    "asset",
    "table": "coalesce(nullif(caption, ''), table_id) AS title, 'table ' || table_id AS place, table_id, caption, "
    "header, n_rows, cells, origins",
    "triple": "concat_ws(' ', head, relation, tail) AS title, source || '; licence ' || licence AS place, "
    "[source] AS sources",
    "edge": "relation AS title, concat(array_to_string(sources, ', '), '; licence ', array_to_string(licences, ', ')) "
    "AS place, sources",
    "node": "name AS title, coalesce(type, '') AS place, [source] AS sources",
}
"""SQL of the columns that are read of each kind of source."""
_CELL = re.compile(r"r(\d+)c(\d+)")
_COLUMN = re.compile(r"c(\d+)")
_SPAN = re.compile(r"(\d+):(\d+)")
MAX_ROWS = 60
MAX_COLUMNS = 40
"""Columns to which wider tables are truncated, as longer ones to MAX_ROWS rows."""
MAX_CELLS = 10
"""Maximum cells of a column that are listed in text."""


@dataclass(frozen=True)
class EvidenceView:
    """A row of evidence with its source row and, if it is a path, its edges."""

    row: Row
    number: int
    is_used: bool
    source: Row | None
    walk: Sequence[WalkedEdge]

    @property
    def text(self) -> str:
        """The evidence in one paragraph; a column as its header and first cells, a cell with its row and header.

        A text is without the marks of Markdown.
        """
        match self.row["kind"]:
            case "column":
                header, *lines = self.row["text"].split("\n")
                cells = list(filter(None, lines))
                rest = [f"and {len(cells) - MAX_CELLS} more"] if len(cells) > MAX_CELLS else []
                return ": ".join(filter(None, [header, "; ".join(cells[:MAX_CELLS] + rest)]))
            case "cell" if self.source is not None and (match := _CELL.fullmatch(self.row["locator"])):
                texts = self.source["texts"]
                row = int(match[1])
                column = int(match[2])
                labels = [texts.get((row, 0)) if column else "", texts.get((0, column)) if row else ""]
                return ": ".join(filter(None, [", ".join(filter(None, labels)), str(self.row["text"])]))
        text = str(self.row["text"])
        return plain_text(text) if self.row["kind"] in TEXT_KINDS else text

    @property
    def title(self) -> str:
        return str(self.source["title"]) if self.source else f"a {self.row['source_kind']}"

    @property
    def content_key(self) -> tuple[Any, ...]:
        """What the evidence says and where, without the option it is for."""
        return tuple(self.row[name] for name in ("kind", "source_kind", "source_id", "locator", "text"))

    @property
    def location(self) -> str:
        """Location in the source: characters of a document, a cell of a table, or a line of a file."""
        row = self.row
        source = self.source
        if source is None:
            return "no longer in the lake"
        if "char_start" in source:
            start = source["char_start"]
            end = source["char_end"]
            if span := _SPAN.fullmatch(row["locator"]):
                end = start + int(span[2])
                start += int(span[1])
            return f"{source['place']}, characters {start}–{end}"
        if "cells" in source:
            cells = self.origin_cells or [(source["table_id"], row["locator"])]
            places = (f"table {table}, {' '.join(dict.fromkeys((row['kind'], cell)))}" for table, cell in cells)
            return " and ".join(places)
        return str(source["place"])

    @property
    def origin_cells(self) -> list[tuple[str, str]]:
        """Tables and locators of the cells that a cell of a joined table comes from."""
        cells: dict[str, list[tuple[str, str]]] = (self.source or {}).get("origin_cells", {})
        return cells.get(self.row["locator"], [])

    @property
    def highlight(self) -> tuple[str, str, str] | None:
        """Text of the chunk before, within and after the evidence, which without characters is the whole chunk."""
        if self.source is None or "char_start" not in self.source:
            return None
        text = self.source["text"]
        span = _SPAN.fullmatch(self.row["locator"])
        start, end = (int(span[1]), int(span[2])) if span else (0, len(text))
        return text[:start], text[start:end], text[end:]

    @property
    def reasons(self) -> Mapping[str, Any]:
        """The selector's reasons for its selection; for a path also the sources of its edges."""
        reasons: dict[str, Any] = json.loads(self.row["why"] or "{}")
        return explain_path(reasons, self.walk) if self.walk else reasons


@dataclass(frozen=True)
class GridCell:
    """A cell: ``used`` (verified citation), ``kept`` (other evidence) or ``dropped`` (no evidence)."""

    text: str
    state: str
    number: int | None = None
    """Number of the evidence, as in citations."""
    locator: str = ""
    """Locator of that evidence: the cell itself, or its column."""


@dataclass(frozen=True)
class Grid:
    """A table with its cells marked; ``caption_cell`` is the caption if it is evidence."""

    table_id: str
    caption: str
    rows: list[list[GridCell]]
    is_truncated: bool
    caption_cell: GridCell | None = None


def texts_by_cell(table: Mapping[str, Any]) -> dict[tuple[int, int], str]:
    """The texts of a table by row and column; row 0 is the header."""
    texts = {(0, column): text for column, text in enumerate(table["header"])}
    return texts | {(cell["row"] + 1, cell["column"]): cell["text"] for cell in table["cells"]}


def origins_by_cell(table: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Tables and locators that each cell of a joined table comes from, by its locator."""
    cells: dict[str, list[tuple[str, str]]] = {}
    for origin in table["origins"] or ():
        cells.setdefault(origin["locator"], []).append((origin["table_id"], origin["source_locator"]))
    return cells


def read_cell(table: Mapping[str, Any], locator: str) -> str | None:
    """The text of a cell, a column or the caption of a table; None if the table has none there."""
    texts = texts_by_cell(table)
    if locator == CAPTION:
        return table["caption"] or None
    if match := _CELL.fullmatch(locator):
        return texts.get((int(match[1]), int(match[2])))
    if match := _COLUMN.fullmatch(locator):
        cells = sorted((row, text) for (row, column), text in texts.items() if column == int(match[1]))
        return "\n".join(text for _, text in cells) or None
    return None


def build_grid(
    table: Mapping[str, Any], evidence: Sequence[EvidenceView], quoted: Collection[tuple[str, str]] = ()
) -> Grid:
    """Mark the cells and columns of evidence in their table.

    ``quoted``: Evidence ids and texts of verified quotes: of a used column, only quoted cells count as used.
    """
    states, first_cells = _mark_cells(evidence, quoted)
    caption_cell = None
    for item in evidence:
        if item.row["locator"] == CAPTION:
            caption_cell = GridCell(table["caption"], "used" if item.is_used else "kept", item.number)
    texts = texts_by_cell(table)
    width = max([len(table["header"]), *(column + 1 for _, column in texts)])
    height = table["n_rows"] + 1
    rows = []
    for i in range(min(height, MAX_ROWS)):
        cells = [(texts.get((i, j), ""), f"r{i}c{j}") for j in range(min(width, MAX_COLUMNS))]
        rows.append([_grid_cell(text, states.get(key, "dropped"), first_cells.get(key)) for text, key in cells])
    is_truncated = width > MAX_COLUMNS or height > MAX_ROWS
    return Grid(table["table_id"], table["caption"], rows, is_truncated, caption_cell)


def _grid_cell(text: str, state: str, item: EvidenceView | None) -> GridCell:
    """A cell, with the evidence whose first cell it is."""
    return GridCell(text, state) if item is None else GridCell(text, state, item.number, item.row["locator"])


def _mark_cells(
    evidence: Sequence[EvidenceView], quoted: Collection[tuple[str, str]]
) -> tuple[dict[str, str], dict[str, EvidenceView]]:
    """The state of each cell of evidence, and the evidence at its first cell."""
    states: dict[str, str] = {}
    first_cells: dict[str, EvidenceView] = {}
    for item in evidence:
        locator = item.row["locator"]
        if locator == CAPTION:
            continue
        if locator.startswith("r"):
            cells = {locator: "used" if item.is_used else "kept"}
        else:
            evidence_id = item.row["evidence_id"]
            texts = {f"r{i}{locator}": text for i, text in enumerate(item.row["text"].split("\n")) if text}
            cells = {key: "used" if (evidence_id, text) in quoted else "kept" for key, text in texts.items()}
        states |= cells
        first_cells |= dict.fromkeys(islice(cells, 1), item)
    return states, first_cells
