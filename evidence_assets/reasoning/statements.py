"""Evidence read as statements: its sentences and clauses, each with the sentence that it stands in.

Belongs here: what the extractive reasoner needs to compare a text with a question. Everything is a pure function of its
text; nothing in a text is ever obeyed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from evidence_assets.reasoning.tasks import EvidenceItem
from evidence_assets.text.negation import denies
from evidence_assets.text.sentences import clauses, sentence_spans
from evidence_assets.text.words import STOP_WORDS, stem

_ASKED = re.compile(r"\b(?:which|what|whose)\s+((?:[\w-]+\s+){0,3}[\w-]+)", re.IGNORECASE)
_PRONOUN = re.compile(r"\s*(?:it|its|they|their|them|this|these|those|he|his|she|her|such)\b", re.IGNORECASE)


def asked_kind(question: str) -> frozenset[str]:
    """Stems of the words right after "which" or "what": they name the kind of the answer, not the topic.

    >>> sorted(asked_kind("Into which product do soybeans go?"))
    ['product']
    """
    kinds = set()
    for match in _ASKED.finditer(question):
        for word in match[1].casefold().split():
            if word in STOP_WORDS:
                break
            kinds.add(stem(word))
    return frozenset(kinds)


@dataclass(frozen=True)
class Statement:
    """A clause of one evidence row.

    ``text`` is the clause, ``quote`` the whole sentence around it (with the one before, where it begins with a
    pronoun), a verbatim part of the evidence's text.
    """

    evidence_id: str
    text: str
    quote: str
    denies: bool


def statements(item: EvidenceItem) -> Iterator[Statement]:
    """Statements of one evidence row: the clauses of its sentences, and its whole sentences where they have several."""
    if item.kind in ("triple", "path", "cell", "column", "row"):
        yield Statement(item.evidence_id, item.text, item.text, denies(item.text))
        return
    spans = sentence_spans(item.text)
    for number, (start, end) in enumerate(spans):
        if number and _PRONOUN.match(item.text, start):
            start = spans[number - 1][0]
            yield _statement(item, start, end, item.text[start:end])
            continue
        for clause in clauses(item.text[start:end]):
            yield _statement(item, start, end, clause)


def _statement(item: EvidenceItem, start: int, end: int, clause: str) -> Statement:
    return Statement(item.evidence_id, clause, item.text[start:end], denies(clause))
