"""Dates of birth and death in brackets after a name: "Anna Falk (1880–1951) founded the club."."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from evidence_assets.extractive.relation_words import find_meanings, join_meanings
from evidence_assets.extractive.spans.frequent_questions import CitedAnswer
from evidence_assets.extractive.spans.passages import Passage
from evidence_assets.extractive.spans.questions import analyze_question
from evidence_assets.text.tokens import Word, split_tokens
from evidence_assets.text.words import stem

Event = Literal["birth", "death"]
EVENTS: Sequence[Event] = ("birth", "death")
_MARKS = r"(?:{}) *(?:in |on |c\. |ca\. )?"
_BORN = _MARKS.format(r"born|b\.|\*")
_DIED = _MARKS.format(r"died|d\.|†")
_DATE = r"(?:\d{1,2}\.? )?(?:[A-Z][a-z]+ )?(?:\d{1,2}, )?\d{3,4}"
_LIFE = re.compile(
    rf"\((?:[^();]*; ?)*(?:{_BORN})?(?P<birth>{_DATE}) *[-–—] *(?:{_DIED})?(?P<death>{_DATE})\)"
    rf"|\({_BORN}(?P<born>{_DATE})\)|\({_DIED}(?P<died>{_DATE})\)"
)
_NAME_WORDS = 4
"""Words before the bracket that may be the name."""


def asked_event(question: str) -> Event | None:
    """The event whose time or place a question asks for: "Where did Ann die?"."""
    meanings = join_meanings([question])
    events = [event for event in EVENTS if event in meanings]
    has_kind = analyze_question(question).kind in ("time", "place")
    return events[0] if has_kind and len(events) == 1 else None


def lacks_event(question: str, sentence: str) -> bool:
    """Whether a question asks for a birth or death, and a sentence speaks of none: "Ann founded it in 1911"."""
    event = asked_event(question)
    return event is not None and event not in join_meanings([sentence])


def find_life_date(question: str, passages: Sequence[Passage]) -> CitedAnswer | None:
    """The date of birth or death after the name of the question; None without one or if they differ.

    The name has all capitalized words of the question, and its sentence the others: "Ann Holm (1880–1951)" answers
    neither "When was Ann Falk born?" nor "When was the mother of Ann Holm born?".
    """
    focus = analyze_question(question)
    event = asked_event(question)
    if event is None or focus.kind != "time":
        return None
    names = {word.stem for word in focus.words[1:] if word.is_capital}
    event_stems = {each for word in find_meanings(question) if event in word.meanings for each in word.stems}
    words = [focus.words[n] for n in focus.content]
    others = {word.stem for word in words if not word.is_capital and stem(word.text) not in event_stems}
    answers = [
        answer
        for passage in passages
        if others <= {word.stem for word in split_tokens(passage.text)}
        for answer in _find_in_passage(event, names, passage)
    ]
    return answers[0] if names and len({answer.text for answer in answers}) == 1 else None


def _find_in_passage(event: Event, names: set[str], passage: Passage) -> Iterator[CitedAnswer]:
    for life in _LIFE.finditer(passage.text):
        date = life[event] or life["born" if event == "birth" else "died"]
        if date and names <= _name_stems(split_tokens(passage.text[: life.start()])):
            yield CitedAnswer(date, (passage.item.evidence_id,), (passage.text,))


def _name_stems(words: Sequence[Word]) -> set[str]:
    """Stems of the capitalized words that end a text."""
    return {word.stem for word in words[-_NAME_WORDS:] if word.is_capital}
