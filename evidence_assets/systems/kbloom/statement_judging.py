"""The judging task: whether one statement is correct, by what a language model knows itself.

Belongs here: what a generator is asked and the strict reading of its reply. Which statements are judged, and what the
verdicts are worth, is the business of the system.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Generator, Request
from evidence_assets.reasoning.asking import PromptedTask
from evidence_assets.reasoning.tasks import Failure
from evidence_assets.reasoning.templates import Template

VERDICTS = {"correct": True, "wrong": False}
_PROMPT = Template.load(__package__, "judge")


class Judge(Protocol):
    """Says of statements, in order, whether they are correct."""

    @property
    def model_id(self) -> str: ...
    @property
    def version(self) -> str: ...
    def judge(self, statements: Sequence[str]) -> list[bool | Failure]: ...


def judge_request(statement: str) -> Request:
    """Ask a generator for a verdict."""
    return _PROMPT.request(8, tuple(VERDICTS), statement=json.dumps(statement, ensure_ascii=False))


def parse_verdict(reply: str) -> bool:
    """One of the two words, alone; a full stop after it does no harm.

    >>> parse_verdict("Correct."), parse_verdict("wrong")
    (True, False)
    """
    verdict = VERDICTS.get(reply.strip().rstrip(".").casefold())
    if verdict is None:
        raise UnusableReply(f"the verdict is neither correct nor wrong: {reply.strip()[:40]!r}")
    return verdict


JUDGE = PromptedTask("judge", (_PROMPT,), judge_request, lambda completion, _: parse_verdict(completion.text))


class PromptedJudge:
    """Judges by a generator that keeps its completions."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self.model_id = generator.model_id
        self.version = content_id(
            "prompted_judge", JUDGE.version, generator.model_id, generator.revision, generator.parameters
        )

    def judge(self, statements: Sequence[str]) -> list[bool | Failure]:
        """One verdict or failure a statement; equal statements are asked once."""
        return JUDGE.ask(self._generator, None, statements)
