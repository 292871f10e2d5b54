"""Short work for small models: one call for each question, which sees all evidence once and replies with one letter.

The log probabilities of the letters weigh the options. The request ends with the options: after a list of the letters
to choose from, a model of 1.5B prefers A (docs/with-a-real-model.md). Explanations are written on request only, in the
default style.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from string import ascii_uppercase

from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.model_calls import PromptedTask
from evidence_assets.reasoning.prompted_solver import PromptStyle, build_choice
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.reply_parsing import parse_answer
from evidence_assets.reasoning.table_prompts import fenced_table, is_table_task
from evidence_assets.reasoning.tasks import Choice, ChooseAnswer, EvidenceItem
from evidence_assets.reasoning.templates import PACKAGED, Prompts, Template, fence, fenced_question, negation_field

LETTER = Template.load(__package__, "choose_letter", "evidence question options negated")
LETTER_TOKENS = 8
"""A letter in brackets or after "The answer is"; a model may add a reason, which is not read."""


def option_letters(question: Question) -> Sequence[str]:
    """A letter for each label of the question, in order."""
    return ascii_uppercase[: len(question.labels)]


def letter_request(task: ChooseAnswer, prompts: Prompts = PACKAGED) -> Request:
    """Request the letter of one option from all evidence."""
    letters = option_letters(task.question)
    pairs = zip(letters, task.question.options, strict=True)
    lines = "\n".join(f"{letter}) {option}" for letter, option in pairs)
    request = prompts.customize(LETTER).request(
        LETTER_TOKENS,
        tuple(letters),
        evidence=_fenced_evidence(task),
        question=fenced_question(task.question),
        options=fence("options", lines),
        negated=negation_field(task.question),
    )
    return replace(request, rates_choices=True)


def _fenced_evidence(task: ChooseAnswer) -> str:
    """The table, or each fact once as a line; empty without evidence."""
    if is_table_task(task):
        return fenced_table(task.facts, with_ids=False)
    lines = [f"- {_one_line(item)}" for item in task.facts]
    return fence("facts", "\n".join(lines)) if lines else ""


def _one_line(item: EvidenceItem) -> str:
    return " ".join(item.text.split())


def parse_letter(reply: str, task: ChooseAnswer) -> Choice:
    """The label whose letter the reply names."""
    question = task.question
    letters = option_letters(question)
    letter = parse_answer(reply, letters, question.options)
    return build_choice(task, question.labels[letters.index(letter)])


SHORT_CHOICE = PromptedTask("choose_letter", (LETTER,), letter_request, parse_letter, accepts_truncated=True)
SHORT_STYLE = PromptStyle(None, SHORT_CHOICE)
