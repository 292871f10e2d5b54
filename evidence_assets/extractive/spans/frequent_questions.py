"""Questions in a text, such as those of a FAQ, with the text below them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evidence_assets.extractive.spans.questions import analyze_question
from evidence_assets.extractive.spans.roles import have_equal_prepositions
from evidence_assets.reasoning.tasks import EvidenceItem
from evidence_assets.text.negation import is_denial
from evidence_assets.text.tokens import split_tokens

_QUESTION_LINE = re.compile(
    r"^[ \t]*+(?:#+ |[-*•>] |\d+[.)] )?[*_]*(?:Q(?:uestion)?: ?)?[*_]*(?P<text>[^\n?]+\?)[*_ \t]*$"
)
_ANSWER_LABEL = re.compile(r"^[*_]*(?:A|Answer)[*_]*:[*_]* *")
MAX_GAP = 4
"""Maximum characters between a row of evidence and the next one below it."""
MIN_SHARED_WORDS = 2
"""Minimum content words of a question that is asked in other words than those of the text."""


@dataclass(frozen=True)
class CitedAnswer:
    """An answer, the evidence that it is of, and the words of that evidence that give it."""

    text: str
    evidence_ids: tuple[str, ...]
    quoted: tuple[str, ...]


def find_text_below(question: str, items: Sequence[EvidenceItem]) -> CitedAnswer | None:
    """The text below the question, if the question or one with the same content words is a line of the evidence.

    None if there are several such lines, as below different headings, with other texts.
    """
    answers = {answer.text: answer for answer in _find_texts_below(question, items)}
    return next(iter(answers.values())) if len(answers) == 1 else None


def _find_texts_below(question: str, items: Sequence[EvidenceItem]) -> Iterator[CitedAnswer]:
    for line, (lines, rows) in iterate_lines(items):
        match = _QUESTION_LINE.match(line)
        if match is None or not is_same_question(question, match["text"]):
            continue
        below = list(rows_below(lines, rows))
        quoted = tuple(text for text, _ in below)
        text = _ANSWER_LABEL.sub("", " ".join(" ".join(quoted).split()))
        if text:
            evidence_ids = dict.fromkeys([rows[0].evidence_id, *(each for _, each in below)])
            yield CitedAnswer(text, tuple(evidence_ids), quoted)


def iterate_lines(items: Sequence[EvidenceItem]) -> Iterator[tuple[str, tuple[Sequence[str], Sequence[EvidenceItem]]]]:
    """Each line of evidence by its place, with the lines below it in its row, and the rows from its own on."""
    by_place = sorted(items, key=lambda item: (item.source_id, _start(item)))
    for number, item in enumerate(by_place):
        lines = item.text.split("\n")
        for line_number, line in enumerate(lines):
            yield line, (lines[line_number + 1 :], by_place[number:])


def rows_below(lines: Sequence[str], items: Sequence[EvidenceItem]) -> Iterator[tuple[str, str]]:
    """The lines below a question to the next question or heading, with their evidence, while rows adjoin."""
    end = _start(items[0])
    for number, item in enumerate(items):
        if item.source_id != items[0].source_id or _start(item) - end > MAX_GAP:
            return
        for line in lines if number == 0 else item.text.split("\n"):
            if _QUESTION_LINE.match(line) or line.startswith("#"):
                return
            if line.strip():
                yield line, item.evidence_id
        end = _start(item) + len(item.text)


def _start(item: EvidenceItem) -> int:
    """Position of a row in its source; 0 for a whole chunk."""
    start = item.locator.partition(":")[0]
    return int(start) if start.isdecimal() else 0


def is_same_question(a: str, b: str) -> bool:
    """Whether two questions have the same words, or the same content words, kind, polarity and prepositions.

    >>> is_same_question("Can I renew my card?", "can I renew a card?"), is_same_question("Who cooks?", "When is it?")
    (True, False)
    """
    if _words(a) == _words(b):
        return True
    content = _content(a)
    return (
        len(content) >= MIN_SHARED_WORDS
        and content == _content(b)
        and _kind(a) == _kind(b)
        and is_denial(a) == is_denial(b)
        and have_equal_prepositions(a, b)
    )


def _words(text: str) -> list[str]:
    return [word.lower for word in split_tokens(text) if not word.is_mark]


def _content(text: str) -> list[str]:
    return [word.stem for word in split_tokens(text) if word.is_content]


def _kind(text: str) -> tuple[str, str]:
    """What a question asks for, and its question word if it has one."""
    focus = analyze_question(text)
    return focus.kind, focus.words[focus.wh].lower if focus.wh >= 0 else ""
