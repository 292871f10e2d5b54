"""Evidence from outside the table: a sentence that says, word for word, what the table leaves open.

It speaks only where no cell does, and every step that rests on it begins by saying so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from evidence_assets.reasoning.tables.cells import parse_values
from evidence_assets.reasoning.tables.claims import REFUTES, SUPPORTS
from evidence_assets.reasoning.tables.lexicon import says
from evidence_assets.reasoning.tables.text import plain_text, word_set
from evidence_assets.reasoning.tasks import OF_A_TABLE, EvidenceItem, Step

MARK = "Outside the table"
# The most support that outside evidence gives an option: less than any cell that is tied to the question.
_MOST_SUPPORT = 0.05
# A sentence speaks for an option, or says a claim or its contrary, if it holds this share of the question's or
# claim's words.
_LEAST_OF_QUESTION, _LEAST_OF_CLAIM = 0.5, 0.8
CLAIM_SUPPORT = 0.6
"""Support of a label that outside evidence speaks for; the open verdict has at most half its own beside it."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^a-z])")


class Outside(NamedTuple):
    """What outside evidence says: for an option how strongly, for a claim which label."""

    support: float
    step: Step
    label: str = ""


def outside_items(evidence: Sequence[EvidenceItem]) -> list[EvidenceItem]:
    """The evidence that is not of a table."""
    return [item for item in evidence if item.kind not in OF_A_TABLE]


def _sentences(items: Sequence[EvidenceItem], wanted: frozenset[str]) -> Iterator[tuple[float, str, Step]]:
    """The share of some words that each sentence holds, the sentence, and the step that cites it."""
    for item in items:
        for sentence in filter(None, _SENTENCE_END.split(item.text.strip())):
            step = Step(f"{MARK}, a {item.kind} says: “{sentence}”", (item.evidence_id,), (sentence,))
            yield len(wanted & word_set(sentence)) / max(1, len(wanted)), sentence, step


def says_option(question: str, option: str, items: Sequence[EvidenceItem]) -> Outside | None:
    """The sentence that holds an option and most of the question's words; None if none does."""
    wanted = word_set(option)
    fitting = [
        Outside(_MOST_SUPPORT * share, step)
        for share, sentence, step in _sentences(items, word_set(question) - wanted)
        if share >= _LEAST_OF_QUESTION and wanted and wanted <= word_set(sentence)
    ]
    return max(fitting, key=lambda outside: outside.support, default=None)


def says_claim(claim: str, items: Sequence[EvidenceItem]) -> Outside | None:
    """The sentence that says a claim or contradicts it: the same words, and its numbers or others, denied or not."""
    numbers = _numbers(claim)
    words = frozenset(word for word in word_set(claim) if not word[0].isdigit())
    fitting = [
        (share, sentence, step)
        for share, sentence, step in _sentences(items, words)
        if share >= _LEAST_OF_CLAIM and (_numbers(sentence) or not numbers)
    ]
    if not fitting:
        return None
    _, sentence, step = max(fitting, key=lambda item: item[0])
    agrees = (numbers <= _numbers(sentence)) == (_denies(claim) == _denies(sentence))
    return Outside(CLAIM_SUPPORT, step, SUPPORTS if agrees else REFUTES)


def _numbers(text: str) -> set[float]:
    return {value.value for value in parse_values(plain_text(text))}


def _denies(text: str) -> bool:
    return says("not", text) or says("none", text)
