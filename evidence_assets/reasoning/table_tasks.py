"""A table as a language model is shown it, and the steps of its explanation as they are read.

Cells are led by their place, so that a step can cite them as ``[r3c1]``; what is from outside the table is numbered
``[o1]``. Belongs here: both directions of these marks. The words around them stand in ``prompts/``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.reasoning.tables.view import Place, TableStep, TableView

_CITATION = re.compile(r"\[r(\d+)c(\d+)\]")
_OUTSIDE = re.compile(r"\[o(\d+)\]")
_QUOTE = re.compile(r"\[(?:r\d+c\d+|o\d+)\]\s*[\"“]([^\"”]*)[\"”]")
_STEP = re.compile(r"^\s*(?:\d+[.)]|[-*•])\s+")


def table_text(view: TableView, *, marked: bool = True) -> str:
    """A table as text with bars between cells, each ``marked`` one led by its place, so that it can be cited."""
    lines = [f"Caption: {view.caption}"] if view.caption else []
    for i in sorted({*view.shape.header_rows, *view.shape.sections, *view.body}):
        cells = [view.cell((i, j)).plain for j in view.columns]
        if marked:
            cells = [f"[r{i}c{j}] {text or '(empty)'}" for j, text in zip(view.columns, cells, strict=True)]
        lines.append(" | ".join(cells))
    return "\n".join(lines)


def with_outside(table: str, texts: Sequence[str]) -> str:
    """A table's text with evidence from outside the table below it, marked as such and numbered for citation."""
    if not texts:
        return table
    lines = (f"[o{number}] {' '.join(text.split())}" for number, text in enumerate(texts, 1))
    return "\n".join([table, "", "Outside the table:", *lines])


def outside_cited(text: str, among: int) -> list[int]:
    """Places of the pieces of outside evidence that a step cites, from 0.

    Raises
    ------
    UnusableReply
        If it cites one that was not given.
    """
    numbers = [int(number) for number in _OUTSIDE.findall(text)]
    for number in numbers:
        if not 1 <= number <= among:
            raise UnusableReply(f"the reply cites o{number}, but {among or 'no'} pieces from outside were given")
    return list(dict.fromkeys(number - 1 for number in numbers))


def parse_explanation(reply: str, view: TableView) -> tuple[TableStep, ...]:
    """Steps of an explanation with the cells that each cites; whether a quotation is true is checked elsewhere.

    Raises
    ------
    UnusableReply
        If there is no text, or a step cites a place that the table does not have.
    """
    parts: list[str] = []
    for line in (line.strip() for line in reply.splitlines()):
        if _STEP.match(line) or (line and not parts):
            parts.append(_STEP.sub("", line))
        elif line:
            parts[-1] += " " + line
    if not parts:
        raise UnusableReply("the reply holds no explanation")
    steps = []
    for part in parts:
        places: list[Place] = [(int(row), int(column)) for row, column in _CITATION.findall(part)]
        for row, column in places:
            if not (0 <= row < len(view.shape.grid) and 0 <= column < view.shape.width):
                raise UnusableReply(f"the reply cites r{row}c{column}, but the table has no such cell")
        steps.append(TableStep("explained", part, tuple(dict.fromkeys(places)), tuple(_QUOTE.findall(part))))
    return tuple(steps)
