"""Model tasks on statements, which are triples verbalised with a template: judge and reword."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal

from evidence_assets.reasoning.model_calls import LanguageModel, PromptedTask
from evidence_assets.reasoning.reply_parsing import parse_answer
from evidence_assets.reasoning.templates import Template
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets.text.prompt_text import as_sentence, fill_prompt

VERDICTS = {"correct": True, "wrong": False}
REWORDINGS_PER_STATEMENT = 5
"""Rewordings requested in one reply."""
_PROMPT = Template.load(__package__, "judge", "statement")
_REWORD = Template.load(__package__, "reword", "statement number")


JUDGE: PromptedTask[str, bool] = PromptedTask(
    "judge",
    (_PROMPT,),
    lambda statement, prompts: prompts.customize(_PROMPT).request(
        8, tuple(VERDICTS), statement=json.dumps(statement, ensure_ascii=False)
    ),
    lambda reply, _: VERDICTS[parse_answer(reply, tuple(VERDICTS), tuple(VERDICTS))],
)


def parse_rewordings(reply: str) -> list[str]:
    """Parse rewordings: one per line, without bullets, numbers and an introduction that ends in a colon.

    >>> parse_rewordings("1. A saw serves to cut." + chr(10) + "- To cut, one takes a saw.")
    ['A saw serves to cut.', 'To cut, one takes a saw.']
    """
    lines = (re.sub(r"^\s*(?:[-*•]|\d+[.)])\s*", "", line).strip().strip('"') for line in reply.splitlines())
    return [line for line in lines if line and not line.endswith(":")]


REWORD: PromptedTask[str, list[str]] = PromptedTask(
    "reword",
    (_REWORD,),
    lambda statement, prompts: prompts.customize(_REWORD).request(
        40 * REWORDINGS_PER_STATEMENT,
        statement=json.dumps(statement, ensure_ascii=False),
        number=str(REWORDINGS_PER_STATEMENT),
    ),
    lambda reply, _: parse_rewordings(reply),
)


def reword_statements(model: LanguageModel, statements: Sequence[str]) -> list[list[str]]:
    """Reword each statement with a language model; an unusable reply gives no rewordings."""
    return [replies if isinstance(replies, list) else [] for replies in REWORD.ask(model, statements)]


StatementForm = Literal["template", "prompt"]
"""Text of a relation that states a triple: its template, or its initial prompt as published."""


def verbalise_triple(relation: Relation, head: str, tail: str, form: StatementForm = "template") -> str:
    """Write a triple as a sentence with its relation's template or initial prompt."""
    return as_sentence(fill_prompt(getattr(relation, form), head, tail))
