"""Words, numbers and marks of a text, with their places and classes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from evidence_assets.text.words import NUMBER_WORDS, STOP_WORDS, read_word_lists, stem

_TOKEN = re.compile(
    r"\d[\d:.,]{0,9}[–-]\d+(?:[:.,]\d+)*\b|°[CF]\b|\d\d?:\d\d\b|\d+(?:[.,]\d+)*(?:st|nd|rd|th|s)?\b|(?:[^\W\d_]\.){2,}"
    r"|\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St)\.(?=\s[A-Z])"
    r"|[^\W_]+(?:[-./][^\W_]+)*|['’]s\b|[^\w\s]"
)
_YEAR = re.compile(r"1\d{3}s?|20\d{2}s?")
_ASKS_FOR_SEVERAL = re.compile(
    r"(?:who|what|which) (?:are|were)\b|(?:what|which) (?!(?:does|was)\b)\w\w+[^\Wsui]s\b|(?:list|name) (?:all|the)\b",
    re.IGNORECASE,
)
LISTS = read_word_lists("answer_words.txt")
DETERMINERS = LISTS["determiners"]
PREPOSITIONS = LISTS["prepositions"]
AUXILIARIES = LISTS["auxiliaries"]
_VERBS = dict(pair.split("=") for pair in LISTS["irregular_verbs"])
_FUNCTION_WORDS = (STOP_WORDS - NUMBER_WORDS) | DETERMINERS | PREPOSITIONS | AUXILIARIES | {"who", "which", "such"}
SYMBOLS = frozenset(("$", "€", "£", "%", "°", "°C", "°F", "×"))


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
    def is_ordinal(self) -> bool:
        return self.lower in LISTS["ordinals"] or bool(re.fullmatch(r"\d+(?:st|nd|rd|th)", self.lower))

    @property
    def is_function(self) -> bool:
        return self.lower in _FUNCTION_WORDS and not (self.is_number or self.is_month)

    @property
    def is_month(self) -> bool:
        """Whether it is the month May, and no modal verb."""
        return self.text == "May" and self.start > 0

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


def is_verb_form(word: Word) -> bool:
    """Whether a word is a past tense or participle by its form."""
    return word.lower in _VERBS or (word.lower.endswith("ed") and not word.is_capital)


def asks_for_several(question: str) -> bool:
    """Whether a question asks for several things by a plural.

    >>> asks_for_several("Which buses go?"), asks_for_several("Who are they?"), asks_for_several("Which bus goes?")
    (True, True, False)
    """
    return _ASKS_FOR_SEVERAL.match(question) is not None


def asks_yes_or_no(question: str) -> bool:
    """Whether a question begins with an auxiliary verb.

    >>> asks_yes_or_no("Can I bring a dog?"), asks_yes_or_no("When can I come?"), asks_yes_or_no("Is it A or B?")
    (True, False, False)
    """
    words = [word.lower for word in split_tokens(question)]
    return bool(words) and words[0] in LISTS["yes_no_starts"] and "or" not in words
