"""Drawings of boxes in columns with curves between them, such as that of an answer; ``layers.html`` writes the SVG."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Box:
    """A box in a column, with its address if it links to a page, and its class of style."""

    key: str
    column: int
    text: str
    address: str = ""
    style: str = ""


@dataclass(frozen=True)
class Curve:
    """A curve from a box to a box of a later column."""

    start: str
    end: str
    style: str = ""


@dataclass(frozen=True)
class PlacedBox:
    """A box with its position and its lines of text."""

    box: Box
    x: float
    y: float
    width: float
    height: float
    lines: list[str]

    @property
    def text(self) -> str:
        return shorten(self.box.text, MAX_TEXT)


@dataclass(frozen=True)
class Drawing:
    """Headings with their positions, boxes, and paths of the curves with their style.

    ``title`` and ``description`` are for screen readers.
    """

    title: str
    description: str
    height: float
    headings: list[tuple[float, str]]
    boxes: list[PlacedBox]
    paths: list[tuple[str, str]]


def draw_layers(
    title: str, description: str, headings: Sequence[str], boxes: Sequence[Box], curves: Sequence[Curve]
) -> Drawing:
    """Place boxes in columns, centred vertically; curves to missing boxes are left out."""
    width = (WIDTH - GAP * (len(headings) - 1)) / len(headings)
    lines = {box.key: _wrap(box.text, width - 2 * PADDING) for box in boxes}
    heights = {key: len(text) * LINE + 2 * PADDING for key, text in lines.items()}
    columns = [[box for box in boxes if box.column == number] for number in range(len(headings))]
    column_heights = [sum(heights[box.key] + SPACE for box in column) for column in columns]
    placed: dict[str, PlacedBox] = {}
    for number, column in enumerate(columns):
        x, y = number * (width + GAP), HEADING + (max(column_heights) - column_heights[number]) / 2
        for box in column:
            placed[box.key] = PlacedBox(box, x, y, width, heights[box.key], lines[box.key])
            y += heights[box.key] + SPACE
    return Drawing(
        title,
        description,
        HEADING + max(column_heights),
        [(number * (width + GAP), heading) for number, heading in enumerate(headings)],
        list(placed.values()),
        [
            (_path(placed[curve.start], placed[curve.end]), curve.style)
            for curve in curves
            if curve.start in placed and curve.end in placed
        ],
    )


def _wrap(text: str, width: float) -> list[str]:
    """Lines of a text that fit the width, truncated to the maximum; at least one."""
    return textwrap.wrap(shorten(text, MAX_TEXT), int(width / CHARACTER), max_lines=MAX_LINES, placeholder=" …") or [""]


def _path(start: PlacedBox, end: PlacedBox) -> str:
    """A curve from the right side of a box to the left side of another."""
    x1, y1 = start.x + start.width, start.y + start.height / 2
    x2, y2 = end.x, end.y + end.height / 2
    middle = (x1 + x2) / 2
    return f"M {x1:.1f} {y1:.1f} C {middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"


MAX_EVIDENCE, MAX_SOURCES = 8, 12
"""Maximum rows of evidence and sources that are drawn."""


def draw_answer(answer: AnswerView, anchor: str) -> Drawing | None:
    """Curves lead from the answer to used evidence, and from the question to the other evidence; None without evidence.

    ``anchor``: Prefix of the ids of the evidence on the page.
    """
    if not answer.evidence:
        return None
    evidence = sorted(answer.evidence, key=lambda item: not item.is_used)[:MAX_EVIDENCE]
    question = answer.question["text"] if answer.question else f"question {answer.prediction['question_id']}"
    text = f"Answer: {answer.name or answer.answer_text}" if answer.has_answer else answer.answer_text
    boxes = [Box("question", 0, question), Box("answer", 0, text, "", "used" if answer.rows.used_ids else "shown")]
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
    n_used, n_all = sum(item.is_used for item in answer.evidence), len(answer.evidence)
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
