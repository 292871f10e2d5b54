"""A table's values in one form: plain numbers with units, ISO dates, and the totals of columns (thesis 3.5, 8.2)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date

from evidence_assets.reasoning.tables.cells import Cell, CellValue
from evidence_assets.reasoning.tables.table import TableView


def format_value(value: CellValue) -> str:
    """A value without scale words and separators; of a range its middle, of a month or year its first day."""
    if value.kind == "date":
        return date.fromordinal(int(value.value)).isoformat()
    number = f"{value.comparator}{value.value:.15g}"
    number += value.unit if value.unit == "%" else f" {value.unit}" if value.unit else ""
    return {"range": f"about {number}", "spread": f"±{number}"}.get(value.kind, number)


def list_values(view: TableView) -> Iterator[str]:
    """Lines for the values that a cell writes in another form, then for the columns of amounts."""
    for i in view.body:
        for j in view.columns:
            for value in view.cell((i, j)).values:
                if (plain := format_value(value)) != value.text:
                    yield f"[r{i}c{j}] {value.text} = {plain}"
    rows = [i for i in view.body if i not in view.summary_rows]
    for j in view.measure_columns:
        amounts = [view.cell((i, j)) for i in rows if view.text_at((i, j))]
        numbers = [cell.number for cell in amounts if cell.number is not None and _can_be_added(cell)]
        if len(numbers) == len(amounts) > 1 and j not in view.date_columns:
            total, lowest, highest = (f"{f(numbers):.15g}" for f in (math.fsum, min, max))
            yield f"[c{j}] {view.label(j)}: {len(numbers)} rows, sum {total}, minimum {lowest}, maximum {highest}"


def _can_be_added(cell: Cell) -> bool:
    """Whether a cell is one amount, and neither a percentage, a range nor a bound."""
    value = cell.quantity
    return cell.is_one_amount and value is not None and value.kind == "number" and not value.comparator
