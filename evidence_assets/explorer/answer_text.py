"""The text form of an answer: the answer, why, the evidence behind it, and on request all that was considered."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from evidence_assets.explorer.answer_view import TABLE_KINDS, AnswerView
from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.evidence_view import EvidenceView
from evidence_assets.explorer.pages import shorten, template_environment
from evidence_assets.reasoning.tasks import CAPTION

WIDTH = 80
"""Maximum characters per line."""
MAX_GRID_COLUMNS = 6
"""Maximum columns with evidence of a table that is drawn; of a wider one, every cell is an item of a list."""
MAX_GRID_ROWS = 20
PATH_HEADINGS = ("path", "sources")
"""Reasons for a path that are always printed; scores only with everything else."""
_CELL = re.compile(r"(?:r(\d+))?c(\d+)")


class EvidenceSection(NamedTuple):
    """Drawn tables, as titles with their lines, and evidence to list."""

    tables: list[tuple[str, list[str]]]
    items: list[EvidenceView]


def format_answer(view: AnswerView, *, options: bool = True, everything: bool = False) -> str:
    """The answer with its confidence, why it was chosen, and the evidence behind it.

    ``options``: Whether to list them with their support. They may be cells that the user did not give.
    ``everything``: Whether to add the options, unused evidence, and the scores of paths and concepts.
    """
    template = template_environment(wrap=wrap_text).get_template("answer.txt")
    other_items = view.other_evidence if everything else []
    return template.render(
        a=view,
        options=options or everything,
        everything=everything,
        evidence=_split_evidence(view.key_evidence),
        other_evidence=_split_evidence(other_items),
        citations=_format_citations,
        reasons=lambda item: item.reasons if everything else _select_path(item.reasons),
    ).lstrip("\n")


def wrap_text(text: object, first: str = "", rest: str | None = None) -> str:
    """A text wrapped to ``WIDTH`` characters."""
    indent = " " * len(first) if rest is None else rest
    plain = " ".join(str(text).split())
    lines = textwrap.fill(
        plain, WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return lines or first.rstrip()


def _format_citations(cites: Sequence[Row]) -> str:
    """Numbers of the cited evidence by verdict, such as "cites [2], [5] (verified)"."""
    by_verdict: dict[str, dict[str, None]] = {}
    for cite in cites:
        number = f"[{cite['number'] or cite['evidence_id'][:12]}]"
        by_verdict.setdefault(cite["verdict"], {})[number] = None
    return "cites " + "; ".join(f"{', '.join(numbers)} ({verdict})" for verdict, numbers in by_verdict.items())


def _select_path(reasons: Mapping[str, Any]) -> dict[str, Any]:
    return {heading: lines for heading, lines in reasons.items() if heading in PATH_HEADINGS}


def _split_evidence(items: Sequence[EvidenceView]) -> EvidenceSection:
    """Draw the cells of tables that are narrow enough; list all other evidence."""
    cells = sorted(
        (item for item in items if item.row["kind"] in TABLE_KINDS and item.source is not None),
        key=lambda item: str(item.row["source_id"]),
    )
    groups = [list(group) for _, group in groupby(cells, key=lambda item: item.row["source_id"])]
    groups = [group for group in groups if len({column for _, column in _locate_cells(group)}) <= MAX_GRID_COLUMNS]
    drawn_numbers = {item.number for group in groups for item in group}
    tables = [(group[0].title, _draw_cells(group)) for group in groups]
    return EvidenceSection(tables, [item for item in items if item.number not in drawn_numbers])


def _locate_cells(items: Sequence[EvidenceView]) -> dict[tuple[int, int], int]:
    """Numbers of evidence by row and column; a whole column has the number at its header."""
    matches = [(_CELL.fullmatch(item.row["locator"]), item.number) for item in items]
    return {(int(match[1] or 0), int(match[2])): number for match, number in matches if match}


def _draw_cells(items: Sequence[EvidenceView]) -> list[str]:
    """Lines of a table: the columns and rows with evidence, each cell with the number of its evidence."""
    source, numbers = items[0].source, _locate_cells(items)
    assert source is not None, "_split_evidence draws only evidence with a source"
    captions = [f"  [{item.number}] caption: {item.text}" for item in items if item.row["locator"] == CAPTION]
    if not numbers:
        return captions
    texts = {(0, j): text for j, text in enumerate(source["header"])}
    texts |= {(cell["row"] + 1, cell["column"]): cell["text"] for cell in source["cells"]}
    columns, rows = sorted({j for _, j in numbers}), sorted({0} | {i for i, _ in numbers})
    room = (WIDTH - 2) // len(columns) - 2
    lines = [
        [_format_cell(texts.get((i, j), ""), numbers.get((i, j)), room) for j in columns]
        for i in rows[: MAX_GRID_ROWS + 1]
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    grid = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    more = [f"  … and {len(rows) - len(lines)} more rows"] if len(rows) > len(lines) else []
    return [*captions, *(f"  {line}".rstrip() for line in grid), *more]


def _format_cell(text: str, number: int | None, room: int) -> str:
    mark = "" if number is None else f" [{number}]"
    return shorten(text, room - len(mark)) + mark
