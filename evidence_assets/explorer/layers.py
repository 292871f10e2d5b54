"""Drawings of boxes in columns with curves between them, such as that of an answer; ``layers.html`` writes the SVG."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from evidence_assets.explorer.answer_view import AnswerView
from evidence_assets.explorer.evidence_view import EvidenceView
from evidence_assets.explorer.pages import link, shorten

# Sizes in pixels.
WIDTH = 1_140
GAP = 70
"""Space between columns."""
LINE = 18
"""Height of a line of text."""
PADDING = 6
"""Space around a box's text."""
HEADING = 26
"""Space for the columns' headings."""
SPACE = 10
"""Space between boxes."""
CHARACTER = 7.8
"""Assumed width of a character in pixels."""
MAX_TEXT = 300
"""Maximum characters of a box's full text, which is its tooltip and its name for screen readers."""
MAX_LINES = 3
"""Maximum drawn lines of a box's text."""


@dataclass
class Box:
    """A box in a column, with its address if it links to a page, and its class of style; then its place."""

    key: str
    column: int
    text: str
    address: str = ""
    style: str = ""
    x: float = 0
    y: float = 0
    lines: Sequence[str] = ()

    @property
    def height(self) -> float:
        return len(self.lines) * LINE + 2 * PADDING


class Curve(NamedTuple):
    """A curve from a box to a box of a later column."""

    start: str
    end: str
    style: str = ""


@dataclass(frozen=True)
class Drawing:
    """Headings with their positions, boxes of a width, and paths of the curves with their style.

    ``title`` and ``description`` are for screen readers.
    """

    title: str
    description: str
    height: float
    width: float
    headings: list[tuple[float, str]]
    boxes: Sequence[Box]
    paths: list[tuple[str, str]]


def draw_layers(
    title: str, description: str, headings: Sequence[str], boxes: Sequence[Box], curves: Sequence[Curve]
) -> Drawing:
    """Place boxes in columns, centred vertically; curves to missing boxes are left out."""
    width = (WIDTH - GAP * (len(headings) - 1)) / len(headings)
    lefts = [number * (width + GAP) for number in range(len(headings))]
    height = _place_boxes(boxes, lefts, width)
    by_key = {box.key: box for box in boxes}
    visible = [curve for curve in curves if curve.start in by_key and curve.end in by_key]
    paths = [(_path(by_key[curve.start], by_key[curve.end], width), curve.style) for curve in visible]
    return Drawing(title, description, HEADING + height, width, list(zip(lefts, headings, strict=True)), boxes, paths)


def _place_boxes(boxes: Sequence[Box], lefts: Sequence[float], width: float) -> float:
    """Wrap the texts and place the boxes in columns with these left sides; returns the height of the highest column."""
    n_characters = int((width - 2 * PADDING) / CHARACTER)
    column_heights = [0.0] * len(lefts)
    for box in boxes:
        box.text = shorten(box.text, MAX_TEXT)
        box.lines = textwrap.wrap(box.text, n_characters, max_lines=MAX_LINES, placeholder=" …") or [""]
        column_heights[box.column] += box.height + SPACE
    height = max(column_heights)
    next_y = [HEADING + (height - column_height) / 2 for column_height in column_heights]
    for box in boxes:
        box.x = lefts[box.column]
        box.y = next_y[box.column]
        next_y[box.column] += box.height + SPACE
    return height


def _path(start: Box, end: Box, width: float) -> str:
    """A curve from the right side of a box to the left side of another."""
    x1 = start.x + width
    y1 = start.y + start.height / 2
    x2 = end.x
    y2 = end.y + end.height / 2
    middle = (x1 + x2) / 2
    return f"M {x1:.1f} {y1:.1f} C {middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"


MAX_EVIDENCE = 8
"""Maximum rows of evidence that are drawn."""
MAX_SOURCES = 12
"""Maximum sources that are drawn."""


def draw_answer(answer: AnswerView, anchor: str) -> Drawing | None:
    """Curves lead from the answer to used evidence, and from the question to the other evidence; None without evidence.

    ``anchor``: Prefix of the ids of the evidence on the page.
    """
    if not answer.items:
        return None
    evidence = sorted(answer.items, key=lambda item: not item.is_used)[:MAX_EVIDENCE]
    question = answer.question["text"] if answer.question else f"question {answer.prediction['question_id']}"
    text = f"Answer: {answer.name or answer.answer_text}" if answer.has_answer else answer.answer_text
    boxes = [Box("question", 0, question), Box("answer", 0, text, "", "used" if answer.used_ids else "shown")]
    evidence_boxes, curves = _draw_evidence(evidence, anchor)
    n_used = sum(item.is_used for item in answer.items)
    n_all = len(answer.items)
    limit = f"; {len(evidence)} are drawn, used ones first" if n_all > len(evidence) else ""
    return draw_layers(
        "Question, evidence and sources of the answer",
        f"Used evidence: {n_used} of {n_all} rows{limit}. Solid lines lead from the answer to used evidence.",
        ("Question", "Evidence", "Sources"),
        [*boxes, *evidence_boxes],
        curves,
    )


def _draw_evidence(evidence: Sequence[EvidenceView], anchor: str) -> tuple[list[Box], list[Curve]]:
    """Boxes of evidence and its sources, and the curves that lead to them."""
    boxes = []
    curves = []
    sources: dict[str, Box] = {}
    for item in evidence:
        style = "used" if item.is_used else "shown"
        key = f"evidence {item.number}"
        boxes.append(Box(key, 1, f"[{item.number}] {item.text}", f"#{anchor}e{item.number}", style))
        curves.append(Curve("answer" if item.is_used else "question", key, style))
        for source in _source_boxes(item, style):
            sources.setdefault(source.key, source)
            curves.append(Curve(key, source.key, style))
    return [*boxes, *islice(sources.values(), MAX_SOURCES)], curves


def _source_boxes(item: EvidenceView, style: str) -> list[Box]:
    """A box for each source; those of a path are its edges."""
    if item.walk:
        sources = [("edge", edge.edge_id, f"{edge} ({', '.join(edge.sources)})") for edge in dict.fromkeys(item.walk)]
    else:
        place = item.source["place"] if item.source else ""
        text = f"{item.title} ({place})" if place else item.title
        sources = [(item.row["source_kind"], item.row["source_id"], text)]
    return [Box(f"{kind} {key}", 2, text, link("source", kind, key), style) for kind, key, text in sources]
