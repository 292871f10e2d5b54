"""Statements with the words of a question and an answer of its kind, for questions that nothing else answers.

"Who does most of the operations?" has no sure span in "Tomasz Lis joined us in 2015 and does most of our operations.",
but the sentence answers it.
"""

from __future__ import annotations

from collections.abc import Sequence

from evidence_assets.extractive.spans.candidates import candidate_kind, find_candidates
from evidence_assets.extractive.spans.matching_sentences import agrees, is_content
from evidence_assets.extractive.spans.passages import Passage
from evidence_assets.extractive.spans.questions import QuestionFocus, analyze_question, can_be_answer
from evidence_assets.text.tokens import LISTS, Word, split_tokens

KINDS = ("person", "place", "time", "count", "amount", "reason")
KINDS_IN_CONTEXT = ("person", "count", "reason")
"""Kinds of questions of which fewer than half of the words may be in other sentences of the source instead."""
MIN_WORDS = 2
MIN_NEAR_WORDS = 3
"""Minimum content words of a question in the sentence: with all of them, and if others are in other sentences."""
_SEGMENT_MARKS = frozenset(",;–—-")
_DAYS = LISTS["days"] | LISTS["months"]


def find_complete_statement(question: str, passages: Sequence[Passage]) -> Passage | None:
    """The passage with most words of a question of those that answer it, the first of several; None without one."""
    focus = analyze_question(question)
    places = [n for n, word in enumerate(focus.words) if is_content(word) and _must_be_stated(n, focus)]
    stems = {focus.words[n].stem for n in places}
    if focus.kind not in KINDS or not focus.is_simple or len(stems) < MIN_WORDS:
        return None
    has_context = focus.kind in KINDS_IN_CONTEXT
    required = {focus.words[n].stem for n in places if not has_context or _must_be_near(n, focus)}
    complete: list[tuple[int, Passage]] = []
    for passage in passages:
        words = split_tokens(passage.text)
        missing = stems - {word.stem for word in words}
        has_enough = len(stems) - len(missing) >= max(MIN_NEAR_WORDS, len(missing) + 1)
        is_near = not missing or (required.isdisjoint(missing) and has_enough)
        if not is_near or not missing <= _context_stems(passage, passages) or not agrees(question, passage.text):
            continue
        if any(_is_answer(words, *span, focus, stems - missing) for span in find_candidates(words)):
            complete.append((len(missing), passage))
    return min(complete, key=lambda pair: pair[0])[1] if complete else None


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
    """Whether a person may be who is asked for: before the verb, or after "by" or a label.

    "Whom" and "did" ask for an object.
    """
    asked = [word.lower for word in focus.words[focus.wh : focus.wh + 2]]
    if not focus.is_subject:
        return asked[0] == "who" and asked[1] not in ("do", "did")
    verb = focus.words[focus.wh + 1].stem
    is_agent = [word.lower for word in words[:first]][-1:] in (["by"], [":"])
    return asked[0] == "who" and (is_agent or any(word.stem == verb for word in words[last:]))


def _segment_stems(words: Sequence[Word], first: int, last: int) -> set[str]:
    """The stems from the mark before a span to the mark after it."""
    marks = [n for n, word in enumerate(words) if word.text in _SEGMENT_MARKS]
    start = max((n for n in marks if n < first), default=-1)
    end = min((n for n in marks if n >= last), default=len(words))
    return {word.stem for word in words[start + 1 : end]}
