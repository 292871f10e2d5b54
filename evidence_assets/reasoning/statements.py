"""Statements of evidence rows: clauses of texts, or whole triples and table parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evidence_assets.reasoning.tasks import EvidenceItem
from evidence_assets.text.negation import is_denial
from evidence_assets.text.sentences import sentence_spans, split_clauses, starts_with_pronoun

TEXT_KINDS = ("chunk", "sentence")
"""Kinds of evidence that are texts."""
YES_NO_MAYBE = ("yes", "no", "maybe")


@dataclass(frozen=True)
class Statement:
    """A clause of an evidence row; ``quote`` is its sentence, with the previous one if it starts with a pronoun."""

    evidence_id: str
    text: str
    quote: str
    is_denial: bool


def split_statements(item: EvidenceItem) -> Iterator[Statement]:
    """Statements of an evidence row: the clauses of its sentences; a triple, path or table part is one statement."""
    if item.kind in ("triple", "path", "cell", "column", "row"):
        yield Statement(item.evidence_id, item.text, item.text, is_denial(item.text))
        return
    spans = sentence_spans(item.text)
    for number, (start, end) in enumerate(spans):
        if number and starts_with_pronoun(item.text, start):
            quote = item.text[spans[number - 1][0] : end]
            clauses = [quote]
        else:
            quote = item.text[start:end]
            clauses = split_clauses(quote)
        for clause in clauses:
            yield Statement(item.evidence_id, clause, quote, is_denial(clause))


def is_yes_no_maybe(option: str) -> bool:
    """Whether an option is yes, no or maybe."""
    return option.strip().casefold() in YES_NO_MAYBE
