"""Tables rebuilt from evidence: cells, columns and a caption."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from evidence_assets.reasoning.tables.table import CellLocation, TableView
from evidence_assets.reasoning.tasks import CAPTION, TABLE_KINDS, EvidenceItem


def parse_locator(locator: str) -> CellLocation:
    """``(row, column)`` of a locator such as ``r3c1``."""
    row, column = locator.removeprefix("r").split("c")
    return int(row), int(column)


def build_view(evidence: Sequence[EvidenceItem]) -> tuple[TableView, dict[CellLocation, str]]:
    """The table given by cells, columns and a caption of evidence, and the evidence id of each cell."""
    items = [item for item in evidence if item.kind in TABLE_KINDS]
    caption = next((item.text for item in items if item.kind == CAPTION), "")
    cells = [item for item in items if item.kind != CAPTION]
    ids = {cell: item.evidence_id for item in cells for cell in _parse_item(item.locator, item.text)}
    return _parse_items(tuple((item.locator, item.text) for item in cells), caption), ids


@lru_cache(maxsize=8)  # the options of a question have the same cells as evidence
def _parse_items(items: tuple[tuple[str, str], ...], caption: str) -> TableView:
    cells = {cell: text for item in items for cell, text in _parse_item(*item).items()}
    return TableView.from_cells(cells, caption)


def _parse_item(locator: str, text: str) -> dict[CellLocation, str]:
    """The cells in an evidence item: a single cell, or the non-empty lines of a column."""
    if not locator.startswith("c"):
        return {parse_locator(locator): text}
    column = int(locator.removeprefix("c"))
    return {(i, column): line for i, line in enumerate(text.split("\n")) if line}
