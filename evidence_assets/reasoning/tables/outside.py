"""Evidence from outside the table: what a text or a graph says where the table leaves a question or claim open.

Whether one sentence (or triple) that came with the cells says what is asked, word for word. It speaks only where no cell
does, and every step that rests on it begins by saying so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evidence_assets.reasoning.tables.cells import parse_values
from evidence_assets.reasoning.tables.claims import REFUTES, SUPPORTS
from evidence_assets.reasoning.tables.lexicon import says
from evidence_assets.reasoning.tables.text import plain_text, word_set
from evidence_assets.reasoning.tasks import OF_A_TABLE, EvidenceItem, Step

MARK = "Outside the table"
# The most support that outside evidence gives an option: less than any cell that is tied to the question.
_MOST_SUPPORT = 0.05
# A sentence speaks for an option if it holds the option and at least this share of the question's words.
_LEAST_OF_QUESTION = 0.5
# It says a claim, or says otherwise, if it holds this share of the claim's words.
_LEAST_OF_CLAIM = 0.8
CLAIM_SUPPORT = 0.6
"""Support of a label that outside evidence speaks for; the open verdict has at most half its own beside it."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^a-z])")


@dataclass(frozen=True)
class Outside:
    """What outside evidence says: for an option how strongly, for a claim which label."""

    support: float
    step: Step
    label: str = ""


def outside_items(evidence: Sequence[EvidenceItem]) -> list[EvidenceItem]:
    return [item for item in evidence if item.kind not in OF_A_TABLE]


def _sentences(items: Sequence[EvidenceItem]) -> Iterator[tuple[EvidenceItem, str]]:
    for item in items:
        for sentence in _SENTENCE_END.split(item.text.strip()):
            if sentence:
                yield item, sentence


def _step(item: EvidenceItem, sentence: str) -> Step:
    return Step(f"{MARK}, a {item.kind} says: “{sentence}”", (item.evidence_id,), (sentence,))


def says_option(question: str, option: str, items: Sequence[EvidenceItem]) -> Outside | None:
    """The sentence that holds an option and most of the question's words; None if none does."""
    wanted, asked = word_set(option), word_set(question)
    asked -= wanted
    best: Outside | None = None
    for item, sentence in _sentences(items):
        words = word_set(sentence)
        if not wanted or not asked or not wanted <= words:
            continue
        share = len(asked & words) / len(asked)
        if share >= _LEAST_OF_QUESTION and (best is None or _MOST_SUPPORT * share > best.support):
            best = Outside(_MOST_SUPPORT * share, _step(item, sentence))
    return best


def says_claim(claim: str, items: Sequence[EvidenceItem]) -> Outside | None:
    """The sentence that says a claim or contradicts it: the same words, and its numbers or others, denied or not."""
    numbers = {value.value for value in parse_values(plain_text(claim))}
    wanted = frozenset(word for word in word_set(claim) if not word[0].isdigit())
    best: tuple[float, Outside] | None = None
    for item, sentence in _sentences(items):
        share = len(wanted & word_set(sentence)) / len(wanted) if wanted else 0.0
        stated = {value.value for value in parse_values(plain_text(sentence))}
        if share < _LEAST_OF_CLAIM or (numbers and not stated) or (best is not None and share <= best[0]):
            continue
        agrees = (numbers <= stated) == (_denies(claim) == _denies(sentence))
        best = share, Outside(CLAIM_SUPPORT, _step(item, sentence), SUPPORTS if agrees else REFUTES)
    return best[1] if best else None


def _denies(text: str) -> bool:
    return says("not", text) or says("none", text)
