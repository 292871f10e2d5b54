"""Candidates for short answers: spans of a sentence, and what kind of span a question asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from evidence_assets.text.words import NUMBER_WORDS, STOP_WORDS, read_word_lists, stem

MAX_CHUNK_WORDS = 5
"""Maximum words of a span within one run of content words."""
MAX_JOINED_WORDS = 3
"""Maximum words on each side of a word that joins two runs, such as "of"."""
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*(?:st|nd|rd|th|s)?\b|[^\W_]+(?:[-.][^\W_]+)*|['’]s\b|[^\w\s]")
_YEAR = re.compile(r"1\d{3}s?|20\d{2}s?")
_LISTS = read_word_lists("answer_words.txt")
DETERMINERS, PREPOSITIONS, AUXILIARIES = _LISTS["determiners"], _LISTS["prepositions"], _LISTS["auxiliaries"]
_VERBS = dict(pair.split("=") for pair in _LISTS["irregular_verbs"])
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
        return self.text.casefold()

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

    Within a run of content words every short span is one; runs are joined by words such as "of", names by particles,
    and lists by commas.
    """
    runs = _content_runs(words)
    spans: dict[tuple[int, int], None] = {}
    for start, end in runs:
        for first in range(start, end):
            for last in range(first + 1, min(end, first + MAX_CHUNK_WORDS) + 1):
                spans[first, last] = None
        if MAX_CHUNK_WORDS < end - start <= 2 * MAX_CHUNK_WORDS:
            spans[start, end] = None
    for (start, end), (next_start, next_end) in pairwise(runs):
        between = [word.lower for word in words[end:next_start]]
        if (
            not between
            or len(between) > 2
            or between[0] not in _LISTS["joining"]
            or not set(between[1:]) <= DETERMINERS
        ):
            continue
        for first in range(max(start, end - MAX_JOINED_WORDS), end):
            for last in range(next_start + 1, min(next_end, next_start + MAX_JOINED_WORDS) + 1):
                spans[first, last] = None
    for span in (*_names(words), *_lists(words, runs)):
        spans[span] = None
    return list(spans)


def _content_runs(words: Sequence[Word]) -> list[tuple[int, int]]:
    runs, start = [], None
    for number, word in enumerate([*words, Word(".", 0, 0)]):
        if word.is_content:
            start = number if start is None else start
        elif start is not None:
            runs.append((start, number))
            start = None
    return runs


def _names(words: Sequence[Word]) -> Iterator[tuple[int, int]]:
    """Capitalized words joined by particles, such as "William the Conqueror"."""
    number = 0
    while number < len(words):
        if not (words[number].is_capital and words[number].is_content):
            number += 1
            continue
        end = last = number + 1
        while end < len(words) and end - last <= 2:
            if words[end].is_content and (words[end].is_capital or words[end].text[0].isdigit()):
                last = end + 1
            elif words[end].lower not in _LISTS["particles"]:
                break
            end += 1
        if last - number > 1:
            yield number, last
        number = last


def _lists(words: Sequence[Word], runs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Runs joined by commas and "and" or "or"."""
    joins = [
        {word.lower for word in words[end:start]} <= _LISTS["list_joining"] for (_, end), (start, _) in pairwise(runs)
    ]
    for first in range(len(runs)):
        last = first
        while last < len(joins) and joins[last]:
            last += 1
            if last - first >= 1:
                yield runs[first][0], runs[last][1]


QUESTION_KINDS = ("person", "place", "time", "count", "amount", "reason", "manner", "named", "thing")
CANDIDATE_KINDS = ("date", "quantity", "number", "name", "mixed", "phrase")

_KIND_OF_HEAD = {noun: kind for kind in ("time", "place", "person", "amount") for noun in _LISTS[f"{kind}_nouns"]}
_ADMITTED = {
    "count": ("number", "quantity"),
    "amount": ("number", "quantity"),
    "time": ("date", "number", "quantity"),
    "person": ("name", "mixed", "phrase"),
    "place": ("name", "mixed", "phrase"),
}
"""Kinds of spans that can answer a kind of question; all for other questions."""
MAX_QUESTION_WORDS = 10
"""Maximum content words of a question that one sentence can answer."""


@dataclass(frozen=True)
class QuestionFocus:
    """What a question asks for.

    ``kind``: One of :data:`QUESTION_KINDS`; ``named`` asks "which" or "what" with a noun, ``thing`` without.
    ``head``: Places of the words that name the answer ("branch" of "what branch of science").
    ``wh``: Place of the question word; -1 without.
    """

    words: tuple[Word, ...]
    kind: str
    head: tuple[int, ...]
    wh: int

    @cached_property
    def content(self) -> tuple[int, ...]:
        """Places of the content words that are not the head."""
        return tuple(
            n
            for n, w in enumerate(self.words)
            if w.is_content and n not in self.head and w.lower not in _LISTS["question_words"]
        )

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(word.stem for word in self.words)

    @property
    def is_simple(self) -> bool:
        """Whether one sentence can answer it: it asks one thing about what it names, and is not too long."""
        later = {word.lower for word in self.words[self.wh + 2 :]}
        return self.wh >= 0 and not later & _LISTS["compound"] and len(self.content) <= MAX_QUESTION_WORDS

    def admits(self, kind: str) -> bool:
        """Whether a span of this kind can be the answer: "how many" asks for a number."""
        return kind in _ADMITTED.get(self.kind, CANDIDATE_KINDS)

    @property
    def is_subject(self) -> bool:
        """Whether the answer is the subject: the question word and head are followed by no auxiliary verb."""
        next_word = self.wh + 1 + len(self.head)
        return self.wh >= 0 and next_word < len(self.words) and self.words[next_word].lower not in AUXILIARIES

    @property
    def verb(self) -> int | None:
        """Position in ``content`` of the verb whose subject is the answer, such as "wrote" after "who"."""
        next_word = self.wh + 1 + len(self.head)
        return self.content.index(next_word) if self.is_subject and next_word in self.content else None


def analyze_question(text: str) -> QuestionFocus:
    """The kind of answer that a question asks for, by its first question word.

    >>> analyze_question("In which year did the war end?").kind, analyze_question("Who won?").kind
    ('time', 'person')
    """
    words = split_tokens(text)
    wh = next((n for n, word in enumerate(words) if word.lower in _LISTS["question_words"]), -1)
    if wh < 0:
        return QuestionFocus(tuple(words), "thing", (), wh)
    next_word = words[wh + 1].lower if wh + 1 < len(words) else ""
    match words[wh].lower:
        case "who" | "whom" | "whose":
            kind: str = "person"
        case "where":
            kind = "place"
        case "when":
            kind = "time"
        case "why":
            kind = "reason"
        case "how":
            kind = (
                "count" if next_word == "many" else "amount" if next_word in _LISTS["amount_adjectives"] else "manner"
            )
        case _:
            kind = "thing"
    head = _find_head(words, wh, kind)
    if kind == "thing" and head:
        noun = words[head[-1]].lower
        kind = _KIND_OF_HEAD.get(noun, "named")
    return QuestionFocus(tuple(words), kind, head, wh)


def _find_head(words: Sequence[Word], wh: int, kind: str) -> tuple[int, ...]:
    """Places of the noun that names the answer: after "which", "what" and "how many", or after "what is the"."""
    if kind not in ("thing", "count"):
        return ()
    start = wh + 1 + (kind == "count")
    first = start
    if start < len(words) and words[start].lower in AUXILIARIES:
        first = start + 1
        if not (first < len(words) and words[first].lower in ("the", "a", "an", "one", "some")):
            return ()
        first += 1
    head = []
    for number in range(first, min(len(words), first + 4)):
        if not words[number].is_content:
            break
        head.append(number)
        if _KIND_OF_HEAD.get(words[number].lower):
            break
    else:
        head = head[:2]
    return tuple(head[:3])


def candidate_kind(words: Sequence[Word], *, is_start: bool = False) -> str:
    """One of :data:`CANDIDATE_KINDS` for the words of a span.

    ``is_start``: Whether the span starts its sentence, where a capital says nothing.
    """
    lowers = {word.lower for word in words}
    has_number = any(word.is_number for word in words)
    if any(word.is_year for word in words) or lowers & (_LISTS["clear_months"] | _LISTS["days"]):
        return "date"
    if has_number and lowers & (_LISTS["months"] | _LISTS["date_units"]):
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
