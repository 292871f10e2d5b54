"""What a pronoun at the start of a sentence stands for."""

from __future__ import annotations

from evidence_assets.text.sentences import sentence_spans, starts_with_pronoun
from evidence_assets.text.tokens import is_verb_form, split_tokens


def find_subject(sentence: str) -> str:
    """The first words of a sentence, to the end of its first name or noun.

    >>> find_subject("The payroll system of our team was bought in 2015."), find_subject("Maria Lopez founded it.")
    ('The payroll system', 'Maria Lopez')
    """
    last = None
    has_name = False
    for word in split_tokens(sentence):
        if not word.is_content or word.is_number or is_verb_form(word) or (has_name and not word.is_capital):
            if last:
                break
            continue
        has_name = word.is_capital
        last = word
    return sentence[: last.end] if last else ""


def find_referent(text: str, start: int) -> str:
    """The subject of the last sentence before ``start`` that begins with no pronoun; empty if there is none."""
    sentences = [text[a:b] for a, b in sentence_spans(text[:start])]
    return next((find_subject(sentence) for sentence in reversed(sentences) if not starts_with_pronoun(sentence)), "")
