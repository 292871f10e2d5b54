"""Drawings of boxes in columns with curves between them; the template ``layers.html`` writes them as SVG."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width

from evidence_assets.explorer.pages import shorten


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
class Size:
    """Sizes of a drawing in pixels; ``character`` is the assumed width of a character."""

    name: str
    width: int
    gap: int
    line: int
    character: float
    max_lines: int


SIZES = (Size("broad", 1_140, 70, 18, 7.8, 3), Size("narrow", 350, 14, 14, 6.8, 6))
"""The page shows one of them, by the width of the screen."""
PADDING, HEADING, SPACE = 6, 26, 10
"""Pixels around a box's text, for the columns' headings, and between boxes."""
MAX_TEXT = 300
"""Maximum characters of a box's full text, which is its tooltip and its name for screen readers."""


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
    """One size of a drawing: headings with their positions, boxes, and paths of the curves with their style."""

    size: Size
    height: float
    headings: list[tuple[float, str]]
    boxes: list[PlacedBox]
    paths: list[tuple[str, str]]


@dataclass(frozen=True)
class Layers:
    """A drawing in all sizes, with its title and description for screen readers."""

    title: str
    description: str
    drawings: list[Drawing]


def draw_layers(
    title: str, description: str, headings: Sequence[str], boxes: Sequence[Box], curves: Sequence[Curve]
) -> Layers:
    """Place boxes in columns, centred vertically; curves to missing boxes are left out."""
    return Layers(title, description, [_draw(size, headings, boxes, curves) for size in SIZES])


def _draw(size: Size, headings: Sequence[str], boxes: Sequence[Box], curves: Sequence[Curve]) -> Drawing:
    width = (size.width - size.gap * (len(headings) - 1)) / len(headings)
    lines = {box.key: _wrap(box.text, width - 2 * PADDING, size) for box in boxes}
    heights = {key: len(text) * size.line + 2 * PADDING for key, text in lines.items()}
    columns = [[box for box in boxes if box.column == number] for number in range(len(headings))]
    column_heights = [sum(heights[box.key] + SPACE for box in column) for column in columns]
    placed: dict[str, PlacedBox] = {}
    for number, column in enumerate(columns):
        x, y = number * (width + size.gap), HEADING + (max(column_heights) - column_heights[number]) / 2
        for box in column:
            placed[box.key] = PlacedBox(box, x, y, width, heights[box.key], lines[box.key])
            y += heights[box.key] + SPACE
    return Drawing(
        size,
        HEADING + max(column_heights),
        [(number * (width + size.gap), heading) for number, heading in enumerate(headings)],
        list(placed.values()),
        [
            (_path(placed[curve.start], placed[curve.end]), curve.style)
            for curve in curves
            if curve.start in placed and curve.end in placed
        ],
    )


def _wrap(text: str, width: float, size: Size) -> list[str]:
    """Lines of a text that fit the width, truncated to the maximum; at least one."""
    characters = int(width / size.character)
    if any(east_asian_width(character) in "WF" for character in text):
        characters //= 2
    return textwrap.wrap(shorten(text, MAX_TEXT), characters, max_lines=size.max_lines, placeholder=" …") or [""]


def _path(start: PlacedBox, end: PlacedBox) -> str:
    """A curve from the right side of a box to the left side of another."""
    x1, y1 = start.x + start.width, start.y + start.height / 2
    x2, y2 = end.x, end.y + end.height / 2
    middle = (x1 + x2) / 2
    return f"M {x1:.1f} {y1:.1f} C {middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
