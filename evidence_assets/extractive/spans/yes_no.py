"""Answers yes and no from one statement with all content words of the question, by its polarity."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from evidence_assets.extractive.spans.passages import Passage
from evidence_assets.extractive.spans.roles import have_equal_roles, key
from evidence_assets.text.negation import OPPOSITES, is_denial
from evidence_assets.text.sentences import split_clauses
from evidence_assets.text.tokens import AUXILIARIES, LISTS, Word, split_tokens

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
_RULE_WORDS = (LISTS["permissions"] | LISTS["prohibitions"]) - AUXILIARIES
_PAST = re.compile(r"^\s*(?:did|was|were|has|have|had)\b", re.IGNORECASE)
_FUTURE = re.compile(r"\b(?:will|would|shall)\b", re.IGNORECASE)
_UNFULFILLED = re.compile(
    r"\b(?:fail|tr[iy]|plan|hop|want|wish|mean|intend|refus|threaten|promis)(?:e|ed|ied|s|es|ies|ned|ning|ing)? to\b",
    re.IGNORECASE,
)
"""What need not have happened: "failed to win"."""
_USED_TO = re.compile(
    r"(?P<passive>(?:\b(?:is|are|was|were|be|been|being)|['’]s) +(?:\w+ly +|also +|often +)?)?\bused to\b", re.I
)
"""In "used to have a café" without a form of "be"."""
_FREE = re.compile(r"\b(?:free|gratis|complimentary|costs? nothing)\b", re.IGNORECASE)
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
    content = [word for word in words if _is_significant(word)]
    is_bound = _EMPTY_SUBJECT.match(question) or not any(word.lower in _UNBOUND for word in words)
    find_clause = _find_clause if len(content) >= MIN_CONTENT_WORDS else _find_rule
    if not is_bound:
        return
    for passage in passages:
        clause = find_clause(content, passage)
        if clause:
            yield Verdict(judge_clause(question, clause), passage)


def _is_significant(word: Word) -> bool:
    """Whether a statement that settles a question must have a word."""
    return word.is_content and (word.is_month or word.lower not in _MODAL) and word.lower not in LISTS["light_verbs"]


def _find_rule(content: Sequence[Word], passage: Passage) -> str:
    """A clause that permits or forbids just what the one content word of a question says: "Dogs are admitted"."""
    for clause in split_clauses(passage.text):
        words = split_tokens(clause)
        is_rule = not _RULE_WORDS.isdisjoint(word.lower for word in words)
        if is_rule and content and {word.stem for word in words if _is_significant(word)} == {content[0].stem}:
            return clause
    return ""


def _find_clause(content: Sequence[Word], passage: Passage) -> str:
    """The shortest clause with all content words, names in the same order; the whole passage if no clause has them."""
    for clause in [*split_clauses(passage.text), passage.text]:
        keys = [key(word) for word in split_tokens(f"{passage.item.title} {passage.referent} {clause}")]
        n_own = len({key(word) for word in split_tokens(clause)} & {key(word) for word in content})
        if n_own < MIN_CONTENT_WORDS:
            continue
        names = [keys.index(key(word)) for word in content[1:] if word.is_capital and key(word) in keys]
        if all(key(word) in keys for word in content) and names == sorted(names):
            return clause
    return ""


def _is_unfulfilled(question: str, clause: str) -> bool:
    """Whether a clause tells of attempts, plans or former times, and the question does not."""
    is_to_come = _PAST.match(question) is not None and _FUTURE.search(clause) is not None
    used_to = _USED_TO.search(clause)
    is_former = used_to is not None and not used_to["passive"]
    is_unfulfilled = is_former or _UNFULFILLED.search(clause) is not None
    return is_to_come or (is_unfulfilled and not _UNFULFILLED.search(question) and not _USED_TO.search(question))


def judge_clause(question: str, clause: str) -> YesNo | None:
    """What a clause with all content words of a question says to it; None if it does not settle it."""
    words = {word.lower for word in split_tokens(clause)}
    question_words = {word.lower for word in split_tokens(question)}
    if (words & LISTS["restrictions"]) - question_words or len(split_clauses(clause)) > 1:
        return None
    if _FREE.search(question) and not _FREE.search(clause):
        return None
    if _is_unfulfilled(question, clause) or not have_equal_roles(question, clause):
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
