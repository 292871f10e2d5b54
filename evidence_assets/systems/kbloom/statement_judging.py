"""The judging task: whether one statement is correct, by what a language model knows itself.

Belongs here: what a generator is asked and the strict reading of its reply. Which statements are judged, and what the
verdicts are worth, is the business of the system.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol

from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.asking import LanguageModel, PromptedTask
from evidence_assets.reasoning.parsing import one_of
from evidence_assets.reasoning.tasks import Failure
from evidence_assets.reasoning.templates import PACKAGED, Template, Words

VERDICTS = {"correct": True, "wrong": False}
_PROMPT = Template.load(__package__, "judge", "statement")


class Judge(Protocol):
    """Says of statements, in order, whether they are correct."""

    @property
    def model_id(self) -> str: ...
    @property
    def version(self) -> str: ...
    def judge(self, statements: Sequence[str]) -> list[bool | Failure]: ...


def judge_request(statement: str, words: Words = PACKAGED) -> Request:
    """Ask a generator for a verdict."""
    return words.of(_PROMPT).request(8, tuple(VERDICTS), statement=json.dumps(statement, ensure_ascii=False))


def parse_verdict(reply: str) -> bool:
    """One of the two words, alone; see :func:`one_of`.

    >>> parse_verdict("Correct."), parse_verdict("wrong")
    (True, False)
    """
    return VERDICTS[one_of(reply, tuple(VERDICTS))]


JUDGE = PromptedTask("judge", (_PROMPT,), judge_request, lambda reply, _: parse_verdict(reply))


class PromptedJudge:
    """Judges by a language model."""

    def __init__(self, model: LanguageModel) -> None:
        self._model, self.model_id = model, model.model_id
        self._said: dict[str, bool | Failure] = {}
        self.version = content_id("prompted_judge", JUDGE.version_in(model.words), model.version)

    def judge(self, statements: Sequence[str]) -> list[bool | Failure]:
        """One verdict or failure a statement; what it has judged before it is not asked again."""
        new = [text for text in dict.fromkeys(statements) if text not in self._said]
        self._said |= dict(zip(new, JUDGE.ask(self._model, new), strict=True)) if new else {}
        return [self._said[text] for text in statements]
