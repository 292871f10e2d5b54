"""What a question asks for, and which spans can be its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from evidence_assets.extractive.spans.candidates import CANDIDATE_KINDS, candidate_kind
from evidence_assets.text.tokens import (
    AUXILIARIES,
    DETERMINERS,
    LISTS,
    PREPOSITIONS,
    SYMBOLS,
    Word,
    is_verb_form,
    split_tokens,
)

MEASURES = ("duration", "length", "money", "weight", "speed", "temperature", "volume", "power", "loudness")
_UNITS = {
    unit: frozenset(name for name in MEASURES if unit in LISTS[f"{name}_units"])
    for measure in MEASURES
    for unit in LISTS[f"{measure}_units"]
}
"""What each unit measures."""
QUESTION_KINDS = ("person", "place", "time", "count", "amount", "reason", "manner", "named", "thing")

_KIND_OF_QUESTION_WORD = {
    "who": "person",
    "whom": "person",
    "whose": "person",
    "where": "place",
    "when": "time",
    "why": "reason",
}
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
MIN_PHONE_DIGITS = 4
"""Minimum digits of a telephone number or extension."""


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
        if self.kind != "amount":
            return frozenset()
        words = self.words[self.wh + 1 :]
        if self.head:
            words = tuple(self.words[n] for n in self.head)
        elif self.wh >= 0 and self.words[self.wh].lower == "how" and words[0].lower != "much":
            words = words[:1]  # "how long is the power cord" asks for no power
        lowers = {word.lower for word in words}
        return frozenset(name for name in MEASURES if lowers & LISTS[f"{name}_measures"])

    def fits_time(self, span: Sequence[Word]) -> bool:
        """Whether a time is a clock time after "at what time", a year after "which year", a day after "which date"."""
        head = {self.words[n].lower for n in self.head}
        has_clock = any(":" in w.text or w.lower[-2:] in ("am", "pm") or w.lower in LISTS["clock_words"] for w in span)
        if head & {"time", "hour", "hours"}:
            return has_clock or self.words[0].lower == "within"
        if "year" in head:
            return any(word.is_year for word in span)
        has_letter = any(letter.isalpha() for word in span for letter in word.text)
        return not (head & {"day", "days", "date", "month", "deadline"}) or (has_letter and not has_clock)

    @cached_property
    def asks_for_phone(self) -> bool:
        """Whether it asks for a telephone number."""
        has_word = any(word.lower in LISTS["phone_words"] for word in self.words)
        return has_word and self.kind in ("amount", "thing", "named")

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
                return any(map(measures_of_unit, span))
            case _:
                verbs = [_last_stem(text) for text in (before, [w for w in self.words if not w.is_mark])]
                does_fit = verbs[0] == verbs[1] and not self.is_subject
        return does_fit and not any(word.stem in self.stems for word in span if word.is_content)

    @property
    def is_simple(self) -> bool:
        """Whether one sentence can answer it: it has one clause, names its subject and is not too long."""
        later = {word.lower for word in self.words[self.wh + 2 :]}
        has_focus = self.wh >= 0 or bool(self.head)
        return has_focus and not later & LISTS["compound"] and len(self.content) <= MAX_QUESTION_WORDS

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
    if wh >= 0 and words[wh].lower == "how":
        kind = _find_how_kind(words[wh + 1 : wh + 2])
    else:
        kind = _KIND_OF_QUESTION_WORD.get(words[wh].lower, "thing") if wh >= 0 else "thing"
    head = _find_head(words, wh, kind)
    if kind == "thing" and head:
        kind = _KIND_OF_HEAD.get(words[head[-1]].lower, "named")
    is_paid = not LISTS["paying"].isdisjoint(word.lower for word in words[wh + 2 :])
    if kind in ("thing", "named") and is_paid and [word.lower for word in words[-2:-1]] != ["for"]:
        kind = "amount"  # "what does the tent cost", but not "what do they pay for"
    return QuestionFocus(tuple(words), kind, head, wh)


def _find_how_kind(next_words: Sequence[Word]) -> str:
    """What "how" asks for: "how loud" for an amount, but not "how does", "how to" and "how quickly"."""
    for word in next_words:
        if word.lower == "many":
            return "count"
        is_adjective = word.is_content and not is_verb_form(word) and not word.lower.endswith("ly")
        if is_adjective or word.lower in LISTS["amount_adjectives"]:
            return "amount"
    return "manner"


def _find_head(words: Sequence[Word], wh: int, kind: str) -> tuple[int, ...]:
    """Places of the noun that names the answer: after "which", "what" and "how many", or after "what is the"."""
    if kind not in ("thing", "count", "person"):
        return ()
    start = _find_topic(words) if wh < 0 else wh + 1 + (kind == "count")
    if start >= len(words):
        return ()
    if words[start].lower not in AUXILIARIES:
        return () if kind == "person" else _find_noun(words, start, after_verb=False)
    is_definition = words[start].lower in LISTS["forms_of_be"] and not _ends_with_verb(words)
    has_article = any(word.lower in ("the", "a", "an", "one", "some") for word in words[start + 1 : start + 2])
    if not (is_definition and has_article):
        return ()  # "what does the bread contain", "what is the roof of the hall made of"
    return _find_noun(words, start + 2, after_verb=True)


def _find_topic(words: Sequence[Word]) -> int:
    """Start of the noun without a question word: "the foreman's phone number", but not "does the price rise"."""
    if words and words[0].lower in AUXILIARIES:
        return len(words)
    start = next((n + 1 for n, word in enumerate(words[:4]) if word.lower in ("'s", "’s")), 0)
    return start + any(word.lower in DETERMINERS for word in words[start : start + 1])


def _find_noun(words: Sequence[Word], first: int, *, after_verb: bool) -> tuple[int, ...]:
    """Places of a noun and the words before it, from ``first``; none after a verb, if a participle follows."""
    noun = list[int]()
    for number in range(first, min(len(words), first + 4)):
        if after_verb and is_verb_form(words[number]):  # "what is the roof made of"
            return ()
        if not words[number].is_content:
            return tuple(noun[:3])
        noun.append(number)
        if _KIND_OF_HEAD.get(words[number].lower):
            return tuple(noun[:3])
    return tuple(noun[:2])


def _ends_with_verb(words: Sequence[Word]) -> bool:
    """Whether the last word of a question, apart from prepositions and marks, is a participle."""
    last = next((word for word in reversed(words) if not word.is_mark and word.lower not in PREPOSITIONS), None)
    return last is not None and is_verb_form(last)


def measures_of_unit(word: Word) -> frozenset[str]:
    """What a unit measures, with or without its number: "kg", "20p"."""
    return _UNITS.get(word.lower.lstrip("0123456789.,"), frozenset())


def is_whole_answer(words: Sequence[Word], first: int, last: int, focus: QuestionFocus) -> bool:
    """Whether a number includes its symbol, its unit after "how much", and the counted noun after "how many".

    "12" of "12 euros" is not a complete amount; neither "17 apple trees" nor "two benches" says how many pear trees.
    """
    numbers = [n for n in range(first, last) if words[n].is_number]
    if not numbers:
        return True
    if _is_cut_number(words, first, last, focus):
        return False
    if focus.kind not in ("time", "amount", "count"):
        return True
    if all(words[n].is_ordinal for n in numbers) and (focus.kind != "time" or last - first == 1):
        return False  # "second cat", "First"
    end = next((n for n in range(numbers[-1] + 1, len(words)) if not words[n].is_content), len(words))
    noun = words[numbers[-1] + 1 : end]
    match focus.kind:
        case "time":
            return _is_time(words, first, last, focus)
        case "amount":
            return _is_amount(words[first:last], noun, focus)
        case _:
            has_function_word = any(word.is_function for word in words[numbers[0] : numbers[-1]])
            return not focus.head or (not has_function_word and _is_counted(noun, focus))


def _is_cut_number(words: Sequence[Word], first: int, last: int, focus: QuestionFocus) -> bool:
    """Whether a number at an end of a span has its symbol, or the unit of a time or amount, outside."""
    if first and words[first].is_number and words[first - 1].text in SYMBOLS:
        return True
    if last == len(words) or not words[last - 1].is_number:
        return False
    return words[last].text in SYMBOLS or (focus.kind in ("time", "amount") and bool(measures_of_unit(words[last])))


def _is_time(words: Sequence[Word], first: int, last: int, focus: QuestionFocus) -> bool:
    """Whether a span with a number is a time in the form that the question asks for, or a duration.

    "When" asks for no duration but one from an event: "after ten days", not "ten minutes on foot".
    """
    span = words[first:last]
    if not focus.fits_time(span) or candidate_kind(span) != "quantity":
        return focus.fits_time(span)
    asks_when = focus.wh >= 0 and focus.words[focus.wh].lower == "when"
    next_word = words[last].lower if last < len(words) else ""
    is_relative = not LISTS["from_event"].isdisjoint((_word_before(words, first), next_word))
    has_duration = any("duration" in measures_of_unit(word) for word in span)
    return has_duration and (is_relative or not asks_when)


def _word_before(words: Sequence[Word], first: int) -> str:
    """The word before a span, without determiners and the bounds of a number ("at least")."""
    skipped = DETERMINERS | LISTS["number_bounds"]
    return next((word.lower for word in reversed(words[:first]) if word.lower not in skipped), "")


def _is_amount(span: Sequence[Word], noun: Sequence[Word], focus: QuestionFocus) -> bool:
    """Whether an amount has a unit that the question allows; ``noun`` follows its last number."""
    is_number = len(span) == 1
    is_age = is_number and "old" in focus.stems and not noun  # "fifteen"
    if focus.measures and not is_age and not any(focus.measures & measures_of_unit(word) for word in span):
        return False
    return not span[-1].is_number or not noun or noun[0].stem in focus.stems or noun[0].is_capital


def _is_counted(noun: Sequence[Word], focus: QuestionFocus) -> bool:
    """Whether the noun after a number is what "how many" counts."""
    head = [focus.words[n].stem for n in focus.head]
    stems = [word.stem for word in noun]
    common = [stem for stem in head if stem in stems]
    if not noun or not common:
        return not noun
    modifiers = {*head[: head.index(common[-1])]}
    counted = {*stems[: stems.index(common[-1])]}
    return not modifiers or bool(modifiers & counted) or counted <= focus.stems


def _is_reason(words: Sequence[Word], first: int, last: int, focus: QuestionFocus) -> bool:
    """Whether a span is a whole clause after "because" that says why the sentence, not its negation, holds."""
    before = [word.lower for word in words[:first] if word.lower not in ("of", "to", "that")]
    is_clause = (last == len(words) or words[last].is_mark) and not words[first].is_number
    if not (is_clause and before and before[-1] in LISTS["reason_markers"]):
        return False
    is_circular = any(word.stem in focus.stems for word in words[first:last] if word.is_content)
    rest = (*words[:first], *words[last:])
    return not is_circular and (_is_negated(focus.words) or not _is_negated(rest))


def _is_negated(words: Sequence[Word]) -> bool:
    """Whether words deny something; "t" is the end of "isn't"."""
    return any(word.lower in ("not", "never", "nor", "without", "cannot", "t") for word in words)


def can_be_answer(words: Sequence[Word], first: int, last: int, focus: QuestionFocus) -> bool:
    """Whether a span is of a kind that the question asks for, and says more than the question."""
    span = words[first:last]
    if all(word.stem in focus.stems or word.lower in LISTS["titles"] for word in span if word.is_content):
        return False
    if focus.asks_for_phone:
        return sum(letter.isdigit() for word in span for letter in word.text) >= MIN_PHONE_DIGITS
    if _is_part(words, first, last, focus) or not _suits_kind(span, focus.kind):
        return False
    if focus.kind == "place" and _is_of_another_verb(words, first, focus):
        return False
    if focus.kind == "reason":
        return _is_reason(words, first, last, focus)
    is_admitted = candidate_kind(span, is_start=not first) in _ADMITTED.get(focus.kind, CANDIDATE_KINDS)
    return is_admitted and is_whole_answer(words, first, last, focus)


def _is_part(words: Sequence[Word], first: int, last: int, focus: QuestionFocus) -> bool:
    """Whether a span is a part of a firm, of a name that the question contains, or of a date."""
    neighbours = (*words[max(0, first - 1) : first], *words[last : last + 1])
    if any(word.text == "&" for word in neighbours):
        return True  # "Kettlewell & Sons"
    if focus.kind in ("person", "place"):
        name = (*words[first:last], *(word for word in neighbours if word.is_capital))
        return any(word.stem in focus.stems for word in name if word.is_content)
    return focus.kind == "time" and any(word.is_number or word.lower in LISTS["months"] for word in neighbours)


def _is_of_another_verb(words: Sequence[Word], first: int, focus: QuestionFocus) -> bool:
    """Whether the verb of a question has its place, and a span is in a clause that is joined to it.

    "The walk starts at the cricket ground and leads around Tarn Water" starts at no water.
    """
    verb = _last_stem([word for word in focus.words if not word.is_mark])
    place = next((n for n in reversed(range(first)) if words[n].stem == verb), first)
    between = [word.lower for word in words[place + 1 : first]]
    joint = next((n for n, word in enumerate(between) if word in LISTS["clause_joining"] - {","}), 0)
    return not LISTS["place_prepositions"].isdisjoint(between[:joint])


def _suits_kind(span: Sequence[Word], kind: str) -> bool:
    """Whether the words of a span can be a place, or a time, count or amount and no more."""
    if kind == "place":
        return not any(map(measures_of_unit, span))
    if kind not in ("time", "count", "amount"):
        return True
    if any(word.lower in ("in", "for") for word in span):
        return False  # "Ida Holm in 1894"
    if kind == "time":
        return True
    if not (span[0].is_number or span[0].text in SYMBOLS or measures_of_unit(span[0])):
        return False  # "costs 35p"
    return kind == "count" or not any(is_verb_form(word) or word.lower in LISTS["paying"] for word in span)
