"""What a question asks for, and which spans can be its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from evidence_assets.reasoning.spans.candidates import (
    AUXILIARIES,
    CANDIDATE_KINDS,
    DETERMINERS,
    LISTS,
    PREPOSITIONS,
    SYMBOLS,
    Word,
    candidate_kind,
    is_verb_form,
    split_tokens,
)

_MEASURES = ("duration", "length", "money", "weight", "speed", "temperature")
_UNITS = {
    unit: frozenset(name for name in _MEASURES if unit in LISTS[f"{name}_units"])
    for measure in _MEASURES
    for unit in LISTS[f"{measure}_units"]
}
"""What each unit measures."""
QUESTION_KINDS = ("person", "place", "time", "count", "amount", "reason", "manner", "named", "thing")

_KIND_OF_HEAD = {noun: kind for kind in ("time", "place", "person", "amount") for noun in LISTS[f"{kind}_nouns"]}
_ADMITTED = {
    "count": ("number", "quantity"),
    "amount": ("number", "quantity"),
    "time": ("date", "number", "quantity"),
    "person": ("name", "mixed", "phrase"),
    "place": ("name", "mixed", "phrase", "quantity"),
}
"""Kinds of spans that can answer a kind of question; all for other questions."""
MAX_QUESTION_WORDS = 10
"""Maximum content words of a question that one sentence can answer."""


@dataclass(frozen=True)
class QuestionFocus:
    """What a question asks for.

    ``kind``: One of :data:`QUESTION_KINDS`; ``named`` asks "which" or "what" with a noun, ``thing`` without.
    ``head``: Positions of the words that name the answer ("branch" of "what branch of science").
    ``wh``: Position of the question word; -1 if there is none.
    """

    words: tuple[Word, ...]
    kind: str
    head: tuple[int, ...]
    wh: int

    @cached_property
    def content(self) -> tuple[int, ...]:
        """Positions of the content words, without the head except where answers repeat it ("how many", "who")."""
        return tuple(
            n
            for n, w in enumerate(self.words)
            if w.is_content
            and (n not in self.head or self.kind in ("count", "person"))
            and (n != self.wh + 1 or self.kind != "amount")
            and w.lower not in LISTS["question_words"]
        )

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(word.stem for word in self.words)

    @cached_property
    def measures(self) -> frozenset[str]:
        """Measures that the requested amount can have ("how long": duration, length); empty means any."""
        lowers = {word.lower for word in self.words}
        return frozenset(n for n in _MEASURES if self.kind == "amount" and lowers & LISTS[f"{n}_measures"])

    def fits(self, kind: str, words: Sequence[Word], first: int, last: int) -> bool:
        """Whether a span of this kind is what the question word asks for, with no word of the question itself."""
        span = words[first:last]
        before = [word for word in words[:first] if word.lower not in DETERMINERS]
        preposition = before[-1].lower if before else ""
        match self.kind:
            case "person":
                does_fit = kind == "name"
            case "place":
                does_fit = kind == "name" or preposition in LISTS["place_prepositions"]
            case "time":
                does_fit = kind == "date"
            case "count":
                return span[0].is_number
            case "amount":
                return any(word.lower in _UNITS for word in span)
            case _:
                verbs = [_last_stem(text) for text in (before, [w for w in self.words if not w.is_mark])]
                does_fit = verbs[0] == verbs[1] and not self.is_subject
        return does_fit and not any(word.stem in self.stems for word in span if word.is_content)

    @property
    def is_simple(self) -> bool:
        """Whether one sentence can answer it: it has one clause, names its subject and is not too long."""
        later = {word.lower for word in self.words[self.wh + 2 :]}
        return self.wh >= 0 and not later & LISTS["compound"] and len(self.content) <= MAX_QUESTION_WORDS

    @property
    def is_subject(self) -> bool:
        """Whether the answer is the subject: the question word and head are followed by no auxiliary verb."""
        next_words = self.words[self.wh + 1 : self._next_word + 1]
        return self.wh >= 0 and bool(next_words) and not {next_words[0].lower, next_words[-1].lower} & AUXILIARIES

    @property
    def verb(self) -> int | None:
        """Position in ``content`` of the verb whose subject is the answer, such as "wrote" after "who"."""
        return self.content.index(self._next_word) if self.is_subject and self._next_word in self.content else None

    @property
    def _next_word(self) -> int:
        return 1 + (self.head[-1] if self.head else self.wh)


def _last_stem(words: Sequence[Word]) -> str:
    """Stem of the last word that is not a preposition."""
    return next((word.stem for word in reversed(words) if word.lower not in PREPOSITIONS), "")


def analyze_question(text: str) -> QuestionFocus:
    """The kind of answer that a question asks for, by its first question word.

    >>> analyze_question("In which year did the war end?").kind, analyze_question("Who won?").kind
    ('time', 'person')
    """
    words = split_tokens(text)
    wh = next((n for n, word in enumerate(words) if word.lower in LISTS["question_words"]), -1)
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
            kind = "count" if next_word == "many" else "amount" if next_word in LISTS["amount_adjectives"] else "manner"
        case _:
            kind = "thing"
    head = _find_head(words, wh, kind)
    if kind == "thing" and head:
        noun = words[head[-1]].lower
        kind = _KIND_OF_HEAD.get(noun, "named")
    return QuestionFocus(tuple(words), kind, head, wh)


def _find_head(words: Sequence[Word], wh: int, kind: str) -> tuple[int, ...]:
    """Places of the noun that names the answer: after "which", "what" and "how many", or after "what is the"."""
    if kind not in ("thing", "count", "person"):
        return ()
    start = wh + 1 + (kind == "count")
    first = start
    if start < len(words) and words[start].lower in AUXILIARIES:
        if words[start].lower not in LISTS["forms_of_be"] or _ends_with_verb(words):
            return ()  # "what does the bread contain", "what is the roof of the hall made of"
        first = start + 1
        if not (first < len(words) and words[first].lower in ("the", "a", "an", "one", "some")):
            return ()
        first += 1
    elif kind == "person":
        return ()
    head = []
    for number in range(first, min(len(words), first + 4)):
        if first > start and is_verb_form(words[number]):  # "what is the roof made of"
            return ()
        if not words[number].is_content:
            break
        head.append(number)
        if _KIND_OF_HEAD.get(words[number].lower):
            break
    else:
        head = head[:2]
    return tuple(head[:3])


def _ends_with_verb(words: Sequence[Word]) -> bool:
    """Whether the last word of a question, apart from prepositions and marks, is a participle."""
    last = next((word for word in reversed(words) if not word.is_mark and word.lower not in PREPOSITIONS), None)
    return last is not None and is_verb_form(last)


def is_whole_answer(words: Sequence[Word], first: int, last: int, focus: QuestionFocus) -> bool:
    """Whether a number includes its symbol, its unit after "how much", and the counted noun after "how many".

    "12" of "12 euros" is not a complete amount; neither "17 apple trees" nor "two benches" says how many pear trees.
    """
    numbers = [n for n in range(first, last) if words[n].is_number]
    if not numbers:
        return True
    next_text = words[last].text if last < len(words) else ""
    if (numbers[0] == first and first and words[first - 1].text in SYMBOLS) or (
        numbers[-1] == last - 1 and next_text in SYMBOLS
    ):
        return False
    end = next((n for n in range(numbers[-1] + 1, len(words)) if not words[n].is_content), len(words))
    noun = [word.stem for word in words[numbers[-1] + 1 : end]]
    measures = [_UNITS[word.lower] for word in words[first:last] if word.lower in _UNITS]
    if focus.measures and any(focus.measures.isdisjoint(names) for names in measures):
        return False
    if focus.kind == "amount":
        return numbers[-1] < last - 1 or not noun or noun[0] in focus.stems or words[last].is_capital
    head = [focus.words[n].stem for n in focus.head]
    if focus.kind != "count" or not head:
        return True
    if any(word.is_function for word in words[numbers[0] : numbers[-1]]):
        return False
    if not noun:
        return True
    common = [stem for stem in head if stem in noun]
    if not common:
        return False
    modifiers, counted = {*head[: head.index(common[-1])]}, {*noun[: noun.index(common[-1])]}
    return not modifiers or bool(modifiers & counted) or counted <= focus.stems


def can_be_answer(words: Sequence[Word], first: int, last: int, focus: QuestionFocus) -> bool:
    """Whether a span is of a kind that the question asks for, and says more than the question."""
    span = words[first:last]
    if all(word.stem in focus.stems for word in span if word.is_content):
        return False
    adjacent_words = (*words[max(0, first - 1) : first], *words[last : last + 1])
    if any(word.text == "&" for word in adjacent_words):
        return False  # a part of "Kettlewell & Sons"
    neighbours = [word for word in adjacent_words if word.is_capital]
    if focus.kind in ("person", "place") and any(w.stem in focus.stems for w in (*span, *neighbours) if w.is_content):
        return False  # a name that the question contains
    if focus.kind in ("time", "count", "amount") and any(word.lower in ("in", "for") for word in span):
        return False  # a name joined to a date, such as "Ida Holm in 1894"
    if focus.kind == "time" and any(word.is_number or word.lower in LISTS["months"] for word in adjacent_words):
        return False  # a part of "12 June 1941"
    if focus.kind == "place" and any(word.lower in _UNITS for word in span):
        return False
    is_admitted = candidate_kind(span, is_start=not first) in _ADMITTED.get(focus.kind, CANDIDATE_KINDS)
    return is_admitted and is_whole_answer(words, first, last, focus)
