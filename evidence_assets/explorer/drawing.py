"""Drawings of evidence: a sentence marked in its chunk, cells in their table."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evidence_assets.reasoning.tasks import CAPTION

_SPAN = re.compile(r"(\d+):(\d+)")
MAX_ROWS, MAX_COLUMNS = 60, 40
"""Size to which larger tables are truncated."""


def highlight_span(text: str, locator: str) -> tuple[str, str, str]:
    """Text before, within and after a locator; an empty locator means the whole text.

    >>> highlight_span("Cats purr. Bees buzz.", "11:21")
    ('Cats purr. ', 'Bees buzz.', '')
    """
    span = _SPAN.fullmatch(locator)
    start, end = (int(span[1]), int(span[2])) if span else (0, len(text))
    return text[:start], text[start:end], text[end:]


@dataclass(frozen=True)
class GridCell:
    """A cell: ``used`` (verified citation), ``kept`` (other evidence) or ``dropped`` (no evidence)."""

    text: str
    state: str
    number: int | None = None
    """Number of the evidence, as in citations."""


@dataclass(frozen=True)
class Grid:
    """A table with its cells marked; ``caption_cell`` is the caption if it is evidence."""

    table_id: str
    caption: str
    rows: list[list[GridCell]]
    is_truncated: bool
    caption_cell: GridCell | None = None


def build_grid(
    table: Mapping[str, Any],
    evidence: Sequence[Mapping[str, Any]],
    used_ids: Collection[str],
    numbers: Mapping[str, int] | None = None,
    quoted: Collection[tuple[str, str]] = (),
) -> Grid:
    """Mark the cells and columns of evidence in their table.

    ``numbers``: Number of each evidence row, by id.
    ``quoted``: Evidence ids and texts of verified quotes: of a used column, only quoted cells count as used.
    """
    cell_numbers, states = dict[str, int | None](), dict[str, str]()
    caption_cell: GridCell | None = None
    for item in evidence:
        number = (numbers or {}).get(item["evidence_id"])
        state = "used" if item["evidence_id"] in used_ids else "kept"
        if item["locator"] == CAPTION:
            caption_cell, cells = GridCell(table["caption"], state, number), []
        elif item["locator"].startswith("r"):
            cells = [item["locator"]]
            states[item["locator"]] = state
        else:
            lines = {f"r{i}{item['locator']}": text for i, text in enumerate(item["text"].split("\n")) if text}
            states |= {p: "used" if (item["evidence_id"], text) in quoted else "kept" for p, text in lines.items()}
            cells = list(lines)
        cell_numbers |= dict.fromkeys(cells[:1], number)
    width = max([len(table["header"]), *(cell["column"] + 1 for cell in table["cells"])])
    texts = {(0, j): text for j, text in enumerate(table["header"])}
    texts |= {(cell["row"] + 1, cell["column"]): cell["text"] for cell in table["cells"]}
    rows = [
        [
            GridCell(texts.get((i, j), ""), states.get(f"r{i}c{j}", "dropped"), cell_numbers.get(f"r{i}c{j}"))
            for j in range(min(width, MAX_COLUMNS))
        ]
        for i in range(min(table["n_rows"] + 1, MAX_ROWS))
    ]
    return Grid(
        table["table_id"], table["caption"], rows, width > MAX_COLUMNS or table["n_rows"] + 1 > MAX_ROWS, caption_cell
    )
