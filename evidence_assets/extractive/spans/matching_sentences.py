"""Answers from sentences with all content words of a question and, besides them, only the answer.

"Who locks the gate at dusk?" is answered by "The gate is locked at dusk by the caretaker.", and "What must visitors
bring?" by the list below "Visitors must bring:". The answer must have the role in the sentence that is asked for: "Tom
was helped by Ann" does not say whom Tom helped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from evidence_assets.extractive.spans.frequent_questions import CitedAnswer, iterate_lines, rows_below
from evidence_assets.extractive.spans.passages import Passage
from evidence_assets.extractive.spans.questions import QuestionFocus, analyze_question
from evidence_assets.reasoning.tasks import EvidenceItem
from evidence_assets.text.negation import is_denial
from evidence_assets.text.tokens import AUXILIARIES, DETERMINERS, LISTS, PREPOSITIONS, Word, split_tokens

KINDS = ("person", "named", "thing")
"""Kinds of questions that are answered; numbers, times, places and reasons have rules of their own."""
MIN_CONTENT_WORDS = 2
"""Minimum content words of a question: fewer fit many sentences."""
_FUNCTION_WORDS = DETERMINERS | PREPOSITIONS | AUXILIARIES | LISTS["list_joining"] | LISTS["question_words"]
"""Words that may differ; stop words such as "give" and "keep" may not."""
_IN_ANSWER = LISTS["list_joining"] | DETERMINERS | {"of", "from", "&"}
_BE = LISTS["forms_of_be"] | {"be", "been", "being"}
_MODALS = LISTS["permissions"] | LISTS["prohibitions"] | LISTS["necessities"]
_LIMITS = LISTS["restrictions"] | LISTS["hedges"]
_LIST_MARK = re.compile(r"^[ \t]*(?:[-*•]|\d+[.)]|[a-z][.)])[ \t]+(?=\S)")
_INTRODUCING = frozenset(("following", "these"))


def find_matching_answer(
    question: str, texts: Sequence[EvidenceItem], passages: Sequence[Passage]
) -> CitedAnswer | None:
    """The answer that all matching sentences and lists give; None without one or if they differ."""
    focus = analyze_question(question)
    if focus.kind not in KINDS or not focus.is_simple or len(content_stems(focus.words)) < MIN_CONTENT_WORDS:
        return None
    answers = [*_find_lists(focus, question, texts), *_find_in_sentences(focus, question, passages)]
    different = {answer.text.casefold() for answer in answers}
    return answers[0] if len(different) == 1 else None


def is_content(word: Word) -> bool:
    """Whether a word must be in a sentence that matches a question."""
    return word.is_month or not (word.is_mark or word.lower in _FUNCTION_WORDS)


def content_stems(words: Sequence[Word]) -> list[str]:
    """The stems of the content words in order, each once."""
    return list(dict.fromkeys(word.stem for word in words if is_content(word)))


def agrees(question: str, sentence: str) -> bool:
    """Whether a sentence has the polarity and the modal verbs of a question, and no restriction that it lacks."""
    words, others = ({*_lower_words(text)} for text in (question, sentence))
    has_limit = not _LIMITS.isdisjoint(others - words) or not _MODALS.isdisjoint(words ^ others)
    return not has_limit and is_denial(question) == is_denial(sentence)


def _lower_words(text: str) -> Iterator[str]:
    """The words of a text without the month May, which is no modal verb."""
    return (word.lower for word in split_tokens(text) if not word.is_month)


def _introduces(text: str, focus: QuestionFocus) -> bool:
    """Whether a text before a colon has the words of a question: "The following dogs are admitted", "Two tools are"."""
    words = [word for word in split_tokens(text) if not (word.is_number or word.lower in _INTRODUCING)]
    return content_stems(words) == content_stems(focus.words)


def _find_lists(focus: QuestionFocus, question: str, texts: Sequence[EvidenceItem]) -> Iterator[CitedAnswer]:
    """The items of lists below a line with the words of the question, such as "Visitors must bring:"."""
    for line, below in iterate_lines(texts):
        if not (line.rstrip("*_ ").endswith(":") and _introduces(line, focus) and agrees(question, line)):
            continue
        listed = takewhile(lambda row: _LIST_MARK.match(row[0]), rows_below(*below))
        rows = [(_LIST_MARK.sub("", text).strip(), evidence_id) for text, evidence_id in listed]
        if len(rows) > 1:
            ids = dict.fromkeys([below[1][0].evidence_id, *(evidence_id for _, evidence_id in rows)])
            quoted = tuple(text for text, _ in rows)
            yield CitedAnswer("; ".join(quoted), tuple(ids), quoted)


def _find_in_sentences(focus: QuestionFocus, question: str, passages: Sequence[Passage]) -> Iterator[CitedAnswer]:
    """What sentences with all words of the question say after a colon, or besides these words."""
    question_stems = {*content_stems(focus.words)}
    for passage in passages:
        has_all = question_stems <= {word.stem for word in split_tokens(passage.text)}
        if not (has_all and agrees(question, passage.text)):
            continue
        introduction, _, listed = passage.text.partition(": ")
        text = listed.rstrip(" .") if _introduces(introduction, focus) else _find_remainder(passage.text, focus)
        if text:
            yield CitedAnswer(" ".join(text.split()), (passage.item.evidence_id,), (passage.text,))


def _find_remainder(text: str, focus: QuestionFocus) -> str:
    """The one span of a sentence with all its content words that are not of the question, if it has the role.

    Empty if the question names what the answer is: "What magnitude was the earthquake?" asks for no other quality.
    """
    if focus.kind == "named" and focus.wh + 1 in focus.head:
        return ""
    words = split_tokens(text)
    is_asked = [word.stem in content_stems(focus.words) for word in words]
    counts = {n for n, word in enumerate(words[:-1]) if word.is_number and is_asked[n + 1]}  # "three tools"
    rest = [n for n, word in enumerate(words) if is_content(word) and not is_asked[n] and n not in counts]
    if not rest or any(words[n].is_number for n in rest):
        return ""
    span = range(rest[0], rest[-1] + 1)
    is_one = all(not is_asked[n] and (is_content(words[n]) or words[n].lower in _IN_ANSWER) for n in span)
    return text[words[rest[0]].start : words[rest[-1]].end] if is_one and _has_role(words, span, focus) else ""


def _has_role(words: Sequence[Word], span: range, focus: QuestionFocus) -> bool:
    """Whether a span is in the place of the question word: subject, agent or object."""
    before = next((word.lower for word in reversed(words[: span.start]) if word.lower not in DETERMINERS), "")
    after = [word for word in words[span.stop :] if not word.is_mark]
    question_words = [word.lower for word in focus.words if not word.is_mark]
    has_be = not _BE.isdisjoint(word.lower for word in words)
    if before == "by":
        return has_be and (focus.is_subject or "by" in question_words) and _may_be_agent(words[span[0]], focus)
    if focus.is_subject:
        return not before and not has_be and _is_in_order(after, focus)
    if before in PREPOSITIONS:
        return before == question_words[-1]
    if has_be == _BE.isdisjoint(question_words) or "by" in question_words:
        return False
    if before:
        is_object = (not has_be or before in LISTS["forms_of_be"]) and not content_stems(after)
        return is_object and _is_in_order(words[: span.start], focus)
    return bool(after) and after[0].lower in LISTS["forms_of_be"] and _is_in_order(after, focus)


def _may_be_agent(word: Word, focus: QuestionFocus) -> bool:
    """Whether what "by" names may be the person that is asked for: not "card", "noon" and "the river"."""
    return focus.kind != "person" or word.lower not in LISTS["no_agents"] | LISTS["months"] | LISTS["days"]


def _is_in_order(words: Sequence[Word], focus: QuestionFocus) -> bool:
    """Whether words have the content words of a question in its order."""
    question_stems = content_stems(focus.words)
    return [stem for stem in content_stems(words) if stem in question_stems] == question_stems
