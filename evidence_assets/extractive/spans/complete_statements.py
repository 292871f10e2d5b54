"""Statements with the words of a question and an answer of its kind, for questions that nothing else answers.

"Who does most of the operations?" has no sure span in "Tomasz Lis joined us in 2015 and does most of our operations.",
but the sentence answers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evidence_assets.extractive.spans.candidates import candidate_kind, find_candidates
from evidence_assets.extractive.spans.matching_sentences import agrees, is_content
from evidence_assets.extractive.spans.passages import Passage
from evidence_assets.extractive.spans.questions import QuestionFocus, analyze_question, can_be_answer
from evidence_assets.text.tokens import LISTS, PREPOSITIONS, Word, split_tokens

KINDS = ("person", "place", "time", "count", "amount", "reason")
KINDS_IN_CONTEXT = ("person", "count", "reason")
"""Kinds of questions of which fewer than half of the words may be in other sentences of the source instead."""
MIN_WORDS = 2
MIN_NEAR_WORDS = 3
"""Minimum content words of a question in the sentence: with all of them, and if others are in other sentences."""
_SEGMENT_MARKS = frozenset(",;–—-")
_DAYS = LISTS["days"] | LISTS["months"]


class _Query(NamedTuple):
    """A question with the stems that a statement or its context has, and those that the statement itself has."""

    text: str
    focus: QuestionFocus
    stems: set[str]
    required: set[str]


def find_complete_statement(question: str, passages: Sequence[Passage]) -> Passage | None:
    """The passage with most words of a question of those that answer it, the first of several; None without one."""
    query = _read_question(question)
    if query.focus.kind not in KINDS or not query.focus.is_simple or len(query.stems) < MIN_WORDS:
        return None
    complete = [passage for passage in passages if _states_answer(query, passage, passages)]
    return min(complete, key=lambda passage: len(_find_missing(query, split_tokens(passage.text))), default=None)


def _read_question(question: str) -> _Query:
    focus = analyze_question(question)
    places = [n for n, word in enumerate(focus.words) if is_content(word) and _must_be_stated(n, focus)]
    has_context = focus.kind in KINDS_IN_CONTEXT
    required = {focus.words[n].stem for n in places if not has_context or _must_be_near(n, focus)}
    return _Query(question, focus, {focus.words[n].stem for n in places}, required)


def _find_missing(query: _Query, words: Sequence[Word]) -> set[str]:
    return query.stems - {word.stem for word in words}


def _states_answer(query: _Query, passage: Passage, passages: Sequence[Passage]) -> bool:
    """Whether a passage has the words of a question, as far as they are required, and an answer of its kind."""
    words = split_tokens(passage.text)
    missing = _find_missing(query, words)
    relations = {word.lower for word in query.focus.words} & LISTS["from_event"]
    if not relations <= {word.lower for word in words}:
        return False  # "Who was director before Ida Roth?"
    near_stems = query.stems - missing
    has_enough = len(near_stems) >= max(MIN_NEAR_WORDS, len(missing) + 1)
    if missing and not (has_enough and query.required.isdisjoint(missing)):
        return False
    if not missing <= _context_stems(passage, passages) or not agrees(query.text, passage.text):
        return False
    return any(_is_answer(words, *span, query.focus, near_stems) for span in find_candidates(words))


def _must_be_stated(number: int, focus: QuestionFocus) -> bool:
    """Whether a word is in a statement that answers: all but those that name the answer, such as "year" and "many"."""
    is_quantity = focus.words[number].lower in ("much", "many")
    return not is_quantity and (number not in focus.head or focus.kind in ("count", "person"))


def _must_be_near(number: int, focus: QuestionFocus) -> bool:
    """Whether a word must be in the sentence itself: a name, a number, what is counted, and the verb of "who"."""
    word = focus.words[number]
    is_name = word.is_number or (number > 0 and word.is_capital)
    is_verb = focus.kind == "person" and focus.is_subject and number == focus.wh + 1
    return is_name or is_verb or (focus.kind == "count" and number in focus.head)


def _context_stems(passage: Passage, passages: Sequence[Passage]) -> set[str]:
    """The stems of the title, the referent of a pronoun, and the other sentences of the source."""
    texts = [other.text for other in passages if other.item.source_id == passage.item.source_id]
    return {word.stem for text in (passage.item.title, passage.referent, *texts) for word in split_tokens(text)}


def _is_answer(words: Sequence[Word], first: int, last: int, focus: QuestionFocus, stems: set[str]) -> bool:
    """Whether a span is of the kind that is asked for; a place, time or number in one segment with the stems."""
    if not can_be_answer(words, first, last, focus):
        return False
    if focus.kind == "reason":
        return True
    is_fitting = focus.fits(candidate_kind(words[first:last], is_start=not first), words, first, last)
    has_day = any({word.lower, word.stem} & _DAYS for word in words[first:last])
    match focus.kind:
        case "person":
            return is_fitting and not has_day and _has_role(words, first, last, focus)
        case "place":
            follows_preposition = any(word.lower in LISTS["place_prepositions"] for word in words[:first][-2:])
            has_number = any(word.is_number for word in words[first : last + 2])
            is_fitting = is_fitting and follows_preposition and not (has_day or has_number)
        case "amount":
            is_fitting = is_fitting and bool(focus.measures)
    return is_fitting and stems <= _segment_stems(words, first, last)


def _has_role(words: Sequence[Word], first: int, last: int, focus: QuestionFocus) -> bool:
    """Whether a person may be who is asked for: before the verb, or after "by" or a label, not "in Bergen".

    "Whom" and "did" ask for an object.
    """
    before = [word.lower for word in words[:first]][-1:]
    if focus.words[focus.wh].lower != "who" or not (PREPOSITIONS - {"by"}).isdisjoint(before):
        return False
    if not focus.is_subject:
        return focus.words[focus.wh + 1].lower not in ("do", "did")
    verb = focus.words[focus.wh + 1].stem
    return before in (["by"], [":"]) or any(word.stem == verb for word in words[last:])


def _segment_stems(words: Sequence[Word], first: int, last: int) -> set[str]:
    """The stems from the mark before a span to the mark after it."""
    marks = [n for n, word in enumerate(words) if word.text in _SEGMENT_MARKS]
    start = max((n for n in marks if n < first), default=-1)
    end = min((n for n in marks if n >= last), default=len(words))
    return {word.stem for word in words[start + 1 : end]}
