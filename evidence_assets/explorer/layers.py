"""Drawings of boxes in columns with curves between them, such as that of an answer; ``layers.html`` writes the SVG."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evidence_assets.explorer.answer_view import AnswerView
from evidence_assets.explorer.evidence_view import EvidenceView
from evidence_assets.explorer.pages import link, shorten

WIDTH, GAP, LINE = 1_140, 70, 18
"""Pixels of a drawing's width, between columns, and of a line of text."""
PADDING, HEADING, SPACE = 6, 26, 10
"""Pixels around a box's text, for the columns' headings, and between boxes."""
CHARACTER = 7.8
"""Assumed width of a character in pixels."""
MAX_TEXT, MAX_LINES = 300, 3
"""Maximum characters of a box's full text, which is its tooltip and its name for screen readers, and drawn lines."""


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
    n_characters = int((width - 2 * PADDING) / CHARACTER)
    for box in boxes:
        box.text = shorten(box.text, MAX_TEXT)
        box.lines = textwrap.wrap(box.text, n_characters, max_lines=MAX_LINES, placeholder=" …") or [""]
    columns = [[box for box in boxes if box.column == number] for number in range(len(headings))]
    column_heights = [sum(box.height + SPACE for box in column) for column in columns]
    for number, column in enumerate(columns):
        y = HEADING + (max(column_heights) - column_heights[number]) / 2
        for box in column:
            box.x, box.y = number * (width + GAP), y
            y += box.height + SPACE
    placed = {box.key: box for box in boxes}
    return Drawing(
        title,
        description,
        HEADING + max(column_heights),
        width,
        [(number * (width + GAP), heading) for number, heading in enumerate(headings)],
        boxes,
        [
            (_path(placed[start], placed[end], width), style)
            for start, end, style in curves
            if start in placed and end in placed
        ],
    )


def _path(start: Box, end: Box, width: float) -> str:
    """A curve from the right side of a box to the left side of another."""
    x1, y1 = start.x + width, start.y + start.height / 2
    x2, y2 = end.x, end.y + end.height / 2
    middle = (x1 + x2) / 2
    return f"M {x1:.1f} {y1:.1f} C {middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"


MAX_EVIDENCE, MAX_SOURCES = 8, 12
"""Maximum rows of evidence and sources that are drawn."""


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
    curves, sources = [], dict[str, Box]()
    for item in evidence:
        style, key = "used" if item.is_used else "shown", f"evidence {item.number}"
        text = f"[{item.number}] {item.text}"
        boxes.append(Box(key, 1, text, f"#{anchor}e{item.number}", style))
        curves.append(Curve("answer" if item.is_used else "question", key, style))
        for kind, identifier, text in _sources(item):
            source = f"{kind} {identifier}"
            if source not in sources and len(sources) < MAX_SOURCES:
                sources[source] = Box(source, 2, text, link("source", kind, identifier), style)
            curves.append(Curve(key, source, style))
    n_used, n_all = sum(item.is_used for item in answer.items), len(answer.items)
    limit = f"; {len(evidence)} are drawn, used ones first" if n_all > len(evidence) else ""
    return draw_layers(
        "Question, evidence and sources of the answer",
        f"Used evidence: {n_used} of {n_all} rows{limit}. Solid lines lead from the answer to used evidence.",
        ("Question", "Evidence", "Sources"),
        [*boxes, *sources.values()],
        curves,
    )


def _sources(item: EvidenceView) -> Iterator[tuple[str, str, str]]:
    """Kind, id and text of each source; those of a path are its edges."""
    for edge in dict.fromkeys(item.walk):
        yield "edge", edge.edge_id, f"{edge.head} —{edge.words}→ {edge.tail} ({', '.join(edge.sources)})"
    if not item.walk:
        place = item.source["place"] if item.source else ""
        yield item.row["source_kind"], item.row["source_id"], f"{item.title} ({place})" if place else item.title
