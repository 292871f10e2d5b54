"""Sentences that may answer a question, and what a pronoun at their start stands for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evidence_assets.reasoning.tasks import EvidenceItem
from evidence_assets.text.referents import find_referent
from evidence_assets.text.sentences import sentence_spans, starts_with_pronoun
from evidence_assets.text.tokens import AUXILIARIES, is_verb_form, split_tokens

# A possessive quantifier: backtracking over a line of spaces would take quadratic time.
_ITEM = re.compile(r"[ \t]*+(?:[-*•|#>]|\d+[.)]\s|[A-Z][^.:\n]{0,30}:|[^\n]*\S {3,}\S)")
MAX_SHORT_LINE = 45
"""Maximum characters of a line that is not wrapped if a capital follows."""
MIN_CLAUSE_WORDS = 4
"""Minimum words of each clause of a sentence that is cut at its semicolons."""


@dataclass(frozen=True)
class Passage:
    """A sentence of evidence, with the position of the evidence in the ranking from 0."""

    item: EvidenceItem
    text: str
    rank: int
    referent: str = ""
    """What a pronoun at its start stands for: the subject before it and the title."""


def split_passages(texts: Sequence[EvidenceItem]) -> list[Passage]:
    """The sentences of texts in rank order, each with the referent of its pronoun."""
    passages = []
    for rank, item in enumerate(texts):
        for start, end in _clause_spans(item.text):
            sentence = item.text[start:end]
            referent = ""
            if sentence.rstrip("*_ ").endswith("?"):
                continue  # a question, such as a heading of frequent ones
            if is_heading(sentence) and not start and item.locator.partition(":")[0] in ("", "0"):
                continue
            if starts_with_pronoun(sentence):
                subject = find_referent(item.text, start) or item.referent
                referent = " – ".join(filter(None, (item.title, subject)))
            passages.append(Passage(item, sentence, rank, referent))
    return passages


def _clause_spans(text: str) -> Iterator[tuple[int, int]]:
    """Sentences, cut after a semicolon between clauses: "Adults pay 9 euros; children under six pay nothing."."""
    for start, end in (line for span in sentence_spans(text) for line in _line_spans(text, *span)):
        clauses = text[start:end].split("; ")
        if min(len(clause.split()) for clause in clauses) < MIN_CLAUSE_WORDS:
            clauses = [text[start:end]]
        for clause in clauses:
            yield start, start + len(clause)
            start += len(clause) + len("; ")


def _line_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A span, cut before list items, "Label: value" lines and table rows, and after short lines; wrapped lines stay."""
    position = start
    for line in text[start:end].split("\n")[:-1]:
        position += len(line) + 1
        starts_anew = text[position].isupper() or text[position].isdigit()
        if _ITEM.match(text, position) or (starts_anew and len(line) < MAX_SHORT_LINE):
            if text[start : position - 1].strip():
                yield start, position - 1
            start = position
    if text[start:end].strip():
        yield start, end


def is_heading(sentence: str) -> bool:
    """Whether a line is a heading: it begins with "#", or has no final mark, colon or form of a verb."""
    words = split_tokens(sentence)
    return sentence.startswith("#") or not (
        words[-1].is_mark or any(word.text == ":" or word.lower in AUXILIARIES or is_verb_form(word) for word in words)
    )
