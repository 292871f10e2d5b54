"""The text of a document in units as a prompt has them: sentences, list items, headings and lines with placeholders.

Documents come as Markdown, text or the text of a PDF, where lines are broken anywhere and empty lines may be lost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evidence_assets.text.sentences import sentence_spans

PLACEHOLDER = re.compile(r"\{((?:[^{}\n]|\{[^{}\n]{1,20}\}){1,40})\}")
"""A name in braces, such as ``{claim}`` or ``{ex_{o_1}}``."""
SENTENCE = "s"
HEADING = "h"
ITEM = "i"
FORM = "a"
"""Kinds of units; FORM is a line such as ``Answer: <answer>``."""
BEGINNING = "R"
"""Kind of a sentence that addresses the model and so begins a prompt."""
FIRST_NUMBER = ord("\u2460") - 1
"""Code of the circled digits less one: the kinds of numbered list items."""
MAX_HEADING_WORDS = 3
MAX_WIDTH = 120
"""Longer lines are whole paragraphs, which say nothing of the page's width."""
_BULLET = re.compile(r"[-*•–◦▪]\s+")
_NUMBER = re.compile(r"(\d{1,2})[.)]\s+")
_LETTER = re.compile(r"[A-Z][.):]\s+")
_FORM = re.compile(r"[^<>]*:\s*<[^<>]{3,}>")
_LABEL = re.compile(r"[A-Z][\w ()-]{0,40}:\s*[{<]")
_CAPTION = re.compile(r"(?:Fig\.|Figure|Table|Algorithm)\s+\d")
_RULE = re.compile(r"[`'\"“”‘’~_=*-]*")
_LISTING_LINE = re.compile(r"\s*(\d{1,3})(?:\s+(.*))?")
_PAGE_NUMBER = re.compile(r"\d+|^[ivxlc]+$")
_SECTION_HEADING = re.compile(r"[#*\s]*(\d{1,2}(?:\.\d{1,2})+)\.?[*\s]+[A-Z]")
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "\u00a0": " "})
MAX_LISTING_GAP = 12
"""Lines without a number that a numbered listing may have between two with one, such as a figure's caption."""
MIN_LISTING = 3
"""Lines of a listing, so that two lines that happen to begin with 1 and 2 are none."""
MIN_REPEATED = 3
"""Pages that begin or end with the same line before it is a running head."""


@dataclass(frozen=True)
class Line:
    """A line of a document and where it is: ``line 12`` or ``page 3``."""

    text: str
    place: str


@dataclass(frozen=True)
class Unit:
    """A sentence, list item, heading or line with placeholders; ``separator`` joins it to the unit before."""

    text: str
    place: str
    kind: str
    separator: str = "\n"


def placeholder_name(text: str) -> str:
    """The letters and digits of a placeholder's name, in lower case.

    >>> placeholder_name("ex_{o_1}")
    'exo1'
    """
    return re.sub(r"[\W_]", "", text).casefold()


def numbered_kind(text: str) -> str:
    """A kind of its own for each number that a list item begins with; empty for other texts."""
    match = _NUMBER.match(text)
    return chr(FIRST_NUMBER + int(match[1])) if match else ""


def read_lines(pages: Sequence[str]) -> list[Line]:
    """The lines of a document's pages, without running heads and page numbers."""
    if len(pages) == 1:
        return [Line(text.translate(_LIGATURES), f"line {n}") for n, text in enumerate(pages[0].split("\n"), 1)]
    stripped_pages = [page.translate(_LIGATURES).strip().split("\n") for page in pages]
    heads = Counter(_without_numbers(lines[0]) for lines in stripped_pages)
    feet = Counter(_without_numbers(lines[-1]) for lines in stripped_pages)
    lines = []
    for number, page in enumerate(stripped_pages, 1):
        for position, text in enumerate(page):
            repeated = heads if position == 0 else feet if position == len(page) - 1 else Counter[str]()
            if repeated[_without_numbers(text)] < MIN_REPEATED:
                lines.append(Line(text, f"page {number}"))
    return lines


def _without_numbers(line: str) -> str:
    return _PAGE_NUMBER.sub("", line).strip()


def find_sections(lines: Sequence[Line], number: str) -> list[list[Line]]:
    """The lines below each heading with this number, up to the next numbered heading."""
    headings = [(i, match[1]) for i, line in enumerate(lines) if (match := _SECTION_HEADING.match(line.text))]
    ends = [i for i, _ in headings[1:]] + [len(lines)]
    return [list(lines[i + 1 : end]) for (i, name), end in zip(headings, ends, strict=True) if name == number]


def split_units(lines: Sequence[Line], fields: Mapping[str, str]) -> list[Unit]:
    """Split a section into units; the kind of one with a placeholder is its field's value in ``fields``."""
    return [unit for line in _join_lines(_strip_listings(lines)) for unit in _units_of(line, fields)]


def _strip_listings(lines: Sequence[Line]) -> Iterator[Line]:
    """The lines without the numbers of numbered listings; rules, fences and captions become empty lines."""
    listed_texts = _find_listed_texts(lines)
    for position, line in enumerate(lines):
        text = listed_texts.get(position, line.text.strip())
        is_empty = _RULE.fullmatch(text) or text.startswith("```") or _CAPTION.match(text)
        yield Line("" if is_empty else text, line.place)


def _find_listed_texts(lines: Sequence[Line]) -> dict[int, str]:
    """Position and text of the lines of each listing with lines numbered from 1, without numbers and captions."""
    listings: list[dict[int, str]] = []
    for position, line in enumerate(lines):
        match = _LISTING_LINE.fullmatch(line.text)
        if match is None:
            continue
        text = (match[2] or "").strip()
        if int(match[1]) == 1:
            listings.append({position: text})
        elif listings and int(match[1]) == len(listings[-1]) + 1 and position - max(listings[-1]) <= MAX_LISTING_GAP:
            listings[-1][position] = text
    texts: dict[int, str] = {}
    for listing in listings:
        if len(listing) < MIN_LISTING:
            continue
        texts |= listing
        is_caption = False
        for position in range(min(listing), max(listing)):
            is_caption = position not in listing and (is_caption or bool(_CAPTION.match(lines[position].text.strip())))
            if is_caption:
                texts[position] = ""
    return texts


def _join_lines(lines: Iterator[Line]) -> Iterator[Line]:
    """Lines as they were before the page's width broke them."""
    stripped_lines = list(lines)
    width = max((len(line.text) for line in stripped_lines if len(line.text) <= MAX_WIDTH), default=0)
    joined = ""
    place = ""
    last_line = ""
    is_after_gap = False
    for line in stripped_lines:
        if not line.text:
            is_after_gap = True
            continue
        if joined and _continues(last_line, line.text, width, is_after_gap):
            no_space = last_line.endswith("-") or line.text[0] in ".,;:)!?"
            joined += line.text if no_space else f" {line.text}"
        else:
            if joined:
                yield Line(joined, place)
            joined = line.text
            place = line.place
        last_line = line.text
        is_after_gap = False
    if joined:
        yield Line(joined, place)


def _continues(last_line: str, line: str, width: int, is_after_gap: bool) -> bool:
    """Whether the line continues the sentence of the last one."""
    if line[0] in ".,;:)!?":
        return True
    if _is_listed(line) or line[0] in "{<" or _LABEL.match(line) or last_line[-1] in ":!?>}":
        return False
    if line[0].islower() or (line[0] == "(" and line[1:2].islower()):
        return True
    first_word = line.split()[0]
    would_fit = len(last_line) + 1 + len(first_word) <= width
    return not (is_after_gap or last_line[-1] == "." or would_fit or line[0] == "(")


def _is_listed(text: str) -> bool:
    return any(mark.match(text) for mark in (_BULLET, _NUMBER, _LETTER))


def _units_of(line: Line, fields: Mapping[str, str]) -> Iterator[Unit]:
    kinds = [fields[name] for name in map(placeholder_name, PLACEHOLDER.findall(line.text)) if name in fields]
    if kinds or _is_listed(line.text):
        yield Unit(line.text, line.place, kinds[0] if kinds else numbered_kind(line.text) or ITEM)
        return
    separator = "\n"
    for start, end in sentence_spans(line.text):
        text = line.text[start:end]
        yield Unit(text, line.place, _kind_of(text), separator)
        separator = " "


def _kind_of(text: str) -> str:
    if _FORM.fullmatch(text):
        return FORM
    if text.endswith(":") or (len(text.split()) <= MAX_HEADING_WORDS and text[-1] not in ".!?"):
        return HEADING
    return BEGINNING if text.startswith("You are ") else SENTENCE
