"""Candidates for short answers: spans of a sentence, and what kind of span a question asks for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from evidence_assets.text.words import NUMBER_WORDS, STOP_WORDS, read_word_lists, stem

MAX_WORDS = 6
"""Maximum words of a span."""
_TOKEN = re.compile(
    r"\d\d?:\d\d\b|\d+(?:[.,]\d+)*(?:st|nd|rd|th|s)?\b|(?:[^\W\d_]\.){2,}|[^\W_]+(?:[-./][^\W_]+)*|['’]s\b|[^\w\s]"
)
_YEAR = re.compile(r"1\d{3}s?|20\d{2}s?")
LISTS = read_word_lists("answer_words.txt")
DETERMINERS, PREPOSITIONS, AUXILIARIES = LISTS["determiners"], LISTS["prepositions"], LISTS["auxiliaries"]
_VERBS = dict(pair.split("=") for pair in LISTS["irregular_verbs"])
_FUNCTION_WORDS = (STOP_WORDS - NUMBER_WORDS) | DETERMINERS | PREPOSITIONS | AUXILIARIES | {"who", "which", "such"}
SYMBOLS = frozenset("$€£%°")


@dataclass(frozen=True)
class Word:
    """A word, number or symbol of a text with its place."""

    text: str
    start: int
    end: int

    @cached_property
    def lower(self) -> str:
        return self.text.casefold().rstrip(".") or self.text

    @cached_property
    def stem(self) -> str:
        return stem(_VERBS.get(self.lower, self.lower))

    @property
    def is_number(self) -> bool:
        return self.text[0].isdigit() or self.lower in NUMBER_WORDS

    @property
    def is_year(self) -> bool:
        return _YEAR.fullmatch(self.text) is not None

    @property
    def is_function(self) -> bool:
        return self.lower in _FUNCTION_WORDS and not self.is_number

    @property
    def is_mark(self) -> bool:
        return not self.text[0].isalnum() and self.text not in SYMBOLS

    @property
    def is_content(self) -> bool:
        return not (self.is_mark or self.is_function)

    @property
    def is_capital(self) -> bool:
        return self.text[0].isupper()


def split_tokens(text: str) -> list[Word]:
    """Words, numbers and marks of a text in order."""
    return [Word(match.group(), *match.span()) for match in _TOKEN.finditer(text)]


def find_candidates(words: Sequence[Word]) -> list[tuple[int, int]]:
    """Spans of a sentence that may answer a question, as first and last-plus-one word.

    They begin and end with a content word and have no words between but content words and those that join them, such
    as "of" and commas.
    """
    spans = []
    for first in range(len(words)):
        if not words[first].is_content:
            continue
        for last in range(first, min(len(words), first + MAX_WORDS)):
            if words[last].is_content:
                spans.append((first, last + 1))
            elif words[last].lower not in LISTS["joining"]:
                break
    return spans


def is_verb_form(word: Word) -> bool:
    """Whether a word is a past tense or participle by its form."""
    return word.lower in _VERBS or (word.lower.endswith("ed") and not word.is_capital)


CANDIDATE_KINDS = ("date", "quantity", "number", "name", "mixed", "phrase")


def candidate_kind(words: Sequence[Word], *, is_start: bool = False) -> str:
    """One of :data:`CANDIDATE_KINDS` for the words of a span.

    ``is_start``: Whether the span starts its sentence, where a capital says nothing.
    """
    lowers = {word.lower for word in words}
    has_number = any(word.is_number for word in words)
    if any(word.is_year or ":" in word.text for word in words) or lowers & (LISTS["clear_months"] | LISTS["days"]):
        return "date"
    if has_number and lowers & (LISTS["months"] | LISTS["date_units"]):
        return "date"
    if has_number:
        return "number" if len(words) == 1 else "quantity"
    content = [word for word in words if word.is_content]
    n_capital = sum(word.is_capital for word in content)
    if is_start and n_capital == 1 and words[0].is_capital:
        return "phrase" if len(content) == 1 or words[0].lower.endswith(("ly", "ed")) else "mixed"
    if n_capital and n_capital == len(content):
        return "name"
    return "mixed" if n_capital else "phrase"
