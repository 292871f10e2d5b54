"""Short work for small models: a call sees all evidence of a question once and replies with one letter.

The log probabilities of the letters weigh the options. A small model prefers some letters, whatever stands there. So a
model that rates letters is called again with the second half of the options first, and both calls count the same
(docs/with-a-real-model.md). Explanations are written on request only, in the default style.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase

import numpy as np
from scipy.special import log_softmax

from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.model_calls import LanguageModel, PromptedTask
from evidence_assets.reasoning.prompted_solver import PromptStyle, build_choice
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.reply_parsing import parse_answer
from evidence_assets.reasoning.table_prompts import fenced_table, is_table_task
from evidence_assets.reasoning.tasks import Choice, ChooseAnswer, EvidenceItem, Failure, ReplyCost
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


Outcome = tuple[Choice | Failure, ReplyCost | None]
"""Of one call, or of both for a question."""


@dataclass(frozen=True)
class LetterTask(PromptedTask[ChooseAnswer, Choice]):
    """A choice of letters, from the mean of the log probabilities of two orders of the options."""

    def version_with(self, prompts: Prompts = PACKAGED) -> str:
        return content_id(super().version_with(prompts), "two orders")

    def ask_with_cost(self, model: LanguageModel, tasks: Sequence[ChooseAnswer]) -> list[Outcome]:
        """One choice per task, in order; a model that rates no letters is called once."""
        outcomes = super().ask_with_cost(model, tasks)
        rated = [number for number, outcome in enumerate(outcomes) if _log_probs(outcome)]
        turned = super().ask_with_cost(model, [turn_options(tasks[number]) for number in rated])
        for number, other in zip(rated, turned, strict=True):
            outcomes[number] = _combine(tasks[number], outcomes[number], other)
        return outcomes


def turn_options(task: ChooseAnswer) -> ChooseAnswer:
    """The task with the second half of its options first."""
    options = task.question.options
    middle = len(options) // 2
    return replace(task, question=replace(task.question, options=(*options[middle:], *options[:middle])))


def _log_probs(outcome: Outcome) -> tuple[float, ...]:
    """Log probabilities of the letters of a usable reply; empty if the model rates none."""
    result, cost = outcome
    return cost.choice_log_probs if cost and isinstance(result, Choice) else ()


def _combine(task: ChooseAnswer, first: Outcome, turned: Outcome) -> Outcome:
    """The choice by the mean log probability of both orders; that of the first if the second reply is unusable."""
    cost = first[1]
    assert cost is not None, "a rated reply has a cost"
    total = cost.plus(turned[1]) if turned[1] else cost
    log_probs = log_softmax(_log_probs(first))
    if _log_probs(turned):
        middle = len(log_probs) // 2
        log_probs = (log_probs + np.roll(log_softmax(_log_probs(turned)), middle)) / 2
    best = task.question.labels[int(log_probs.argmax())]
    return build_choice(task, best), replace(total, choice_log_probs=tuple(log_probs.tolist()))


SHORT_CHOICE = LetterTask("choose_letter", (LETTER,), letter_request, parse_letter, accepts_truncated=True)
SHORT_STYLE = PromptStyle(None, SHORT_CHOICE)
