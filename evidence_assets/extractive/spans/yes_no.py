"""Answers yes and no from one statement with all content words of the question, by its polarity."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from evidence_assets.extractive.spans.passages import Passage
from evidence_assets.text.negation import OPPOSITES, is_denial
from evidence_assets.text.sentences import split_clauses
from evidence_assets.text.tokens import LISTS, Word, split_tokens

YesNo = Literal["yes", "no"]
MIN_CONTENT_WORDS = 2
"""Minimum content words of a question that a statement can settle."""
_UNBOUND = frozenset(("it", "this", "that", "these", "they", "them", "he", "she", "him", "her", "one", "there"))
"""Subjects that another sentence explains; "it" of "is it allowed" stands for nothing."""
_EMPTY_SUBJECT = re.compile(r"^\s*(?:is|was|will|would)\s+(?:it\b.*\b(?:to|that)|there)\b", re.IGNORECASE)
_NECESSITY = re.compile(
    r"^\s*(?:must|should|do(?:es)?\b.*\b(?:have|need)\s+to|(?:is|are)\b.*\b(?:necessary|required))\b", re.I
)
_PERMISSION = re.compile(
    r"^\s*(?:can|could|may|am|(?:is|are)\b.*\b(?:allowed|permitted|forbidden|prohibited))\b", re.IGNORECASE
)
_MODAL = LISTS["permissions"] | LISTS["prohibitions"] | LISTS["necessities"]


@dataclass(frozen=True)
class Verdict:
    """A passage that settles a question, or has all its words without settling it (``answer`` is None)."""

    answer: YesNo | None
    passage: Passage

    @property
    def inverted(self) -> Verdict:
        """The verdict on the opposite question."""
        return Verdict("no" if self.answer == "yes" else "yes", self.passage)


def find_verdict(question: str, passages: Sequence[Passage]) -> Verdict | None:
    """The first passage with all content words of the question that settles it, else the first that does not.

    None if there is no such passage or if two say the opposite. "The museum is closed on Mondays" settles whether it
    is open, too.
    """
    verdicts = list(_find_verdicts(question, passages))
    for word in split_tokens(question):
        if word.lower in OPPOSITES:
            opposite = f"{question[: word.start]}{OPPOSITES[word.lower]}{question[word.end :]}"
            verdicts += [verdict.inverted for verdict in _find_verdicts(opposite, passages) if verdict.answer]
    answers = {verdict.answer for verdict in verdicts if verdict.answer}
    if len(answers) > 1:
        return None
    return next((verdict for verdict in verdicts if verdict.answer), verdicts[0] if verdicts else None)


def _find_verdicts(question: str, passages: Sequence[Passage]) -> Iterator[Verdict]:
    words = split_tokens(question)
    content = [w for w in words if w.is_content and w.lower not in _MODAL and w.lower not in LISTS["light_verbs"]]
    is_bound = _EMPTY_SUBJECT.match(question) or not any(word.lower in _UNBOUND for word in words)
    if len(content) < MIN_CONTENT_WORDS or not is_bound:
        return
    for passage in passages:
        clause = _find_clause(content, passage)
        if clause:
            yield Verdict(judge_clause(question, clause), passage)


def _find_clause(content: Sequence[Word], passage: Passage) -> str:
    """The shortest clause with all content words, names in the same order; the whole passage if no clause has them."""
    for clause in [*split_clauses(passage.text), passage.text]:
        stems = [word.stem for word in split_tokens(f"{passage.item.title} {passage.referent} {clause}")]
        n_own = len({word.stem for word in split_tokens(clause)} & {word.stem for word in content})
        if n_own < MIN_CONTENT_WORDS:
            continue
        names = [stems.index(word.stem) for word in content[1:] if word.is_capital and word.stem in stems]
        if all(word.stem in stems for word in content) and names == sorted(names):
            return clause
    return ""


def judge_clause(question: str, clause: str) -> YesNo | None:
    """What a clause with all content words of a question says to it; None if it does not settle it."""
    words = {word.lower for word in split_tokens(clause)}
    question_words = {word.lower for word in split_tokens(question)}
    if (words & LISTS["restrictions"]) - question_words or len(split_clauses(clause)) > 1:
        return None
    is_denied = is_denial(clause) != bool(words & LISTS["prohibitions"])
    is_asked_denied = is_denial(question) != bool(question_words & LISTS["prohibitions"])
    has_necessity = bool(words & LISTS["necessities"])
    if _NECESSITY.match(question):
        if not has_necessity:
            return None
    elif _PERMISSION.match(question):
        is_exemption = is_denied and has_necessity and not words & {"must", "shall", "should"}
        if is_exemption or (words & LISTS["hedges"]) - LISTS["permissions"] - LISTS["necessities"]:
            return None  # "need not" permits nothing
    elif (words & LISTS["hedges"]) - question_words:
        return None
    return "yes" if is_denied == is_asked_denied else "no"
