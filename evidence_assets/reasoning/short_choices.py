"""Short work for small models: a call sees the best fact, or a table, and replies with one letter.

The log probabilities of the letters weigh the options. A small model prefers some letters, whatever stands there. So a
model that rates letters is called again with the second half of the options first, and both calls count the same.
It also believes wrong facts, so it is asked without the fact, too, and a fact that is far from the question does not
count (docs/with-a-real-model.md). Explanations are written on request only.
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
from evidence_assets.reasoning.prompted_solver import EXPLAIN_TASK, PromptStyle, build_choice
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.reply_parsing import parse_answer
from evidence_assets.reasoning.table_prompts import fenced_table, is_table_task
from evidence_assets.reasoning.tasks import Choice, ChooseAnswer, Failure, ReplyCost
from evidence_assets.reasoning.templates import PACKAGED, Prompts, Template, negation_field

LETTER = Template.load(__package__, "choose_letter", "evidence question options negated")
LETTER_TOKENS = 8
"""A letter in brackets or after "The answer is"; a model may add a reason, which is not read."""
FACTS = 1
"""Facts of a question that a call sees. The right one helps a small model, and others mislead it."""
FACT_WEIGHT = 0.4
"""Largest weight of the log probabilities with the fact; those without it have the rest. A small model believes any
fact. So a larger weight is worse where facts are wrong, and a smaller one where the model knows nothing."""
UNRELATED = 0.35
"""Closeness of a question and its fact up to which the fact does not count. A fact about an option only, such as a
triple of its name, makes answers worse."""
RELATED = 0.6
"""Closeness from which a fact has its whole weight."""


def fact_weight(closeness: float) -> float:
    """Weight of a fact: it grows with the closeness to the question.

    >>> [round(fact_weight(closeness), 2) for closeness in (0.3, 0.5, 0.9)]
    [0.0, 0.24, 0.4]
    """
    share = (closeness - UNRELATED) / (RELATED - UNRELATED)
    return FACT_WEIGHT * min(1.0, max(0.0, share))


def option_letters(question: Question) -> Sequence[str]:
    """A letter for each label of the question, in order."""
    return ascii_uppercase[: len(question.labels)]


def letter_request(task: ChooseAnswer, prompts: Prompts = PACKAGED) -> Request:
    """Request the letter of one option; each question, option and fact has its own line, so that none can be two."""
    question = task.question
    letters = option_letters(question)
    lines = [f"{letter}. {_one_line(option)}" for letter, option in zip(letters, question.options, strict=True)]
    request = prompts.customize(LETTER).request(
        LETTER_TOKENS,
        tuple(letters),
        evidence=_evidence_lines(task),
        question=f"{'Claim' if question.is_claim else 'Question'}: {_one_line(question.text)}",
        options="\n".join(lines),
        negated=negation_field(question),
    )
    return replace(request, rates_choices=True)


def _evidence_lines(task: ChooseAnswer) -> str:
    """The table, or each fact once as a line; empty without evidence."""
    if is_table_task(task):
        return fenced_table(task.facts, with_ids=False)
    return "\n".join(f"Fact: {_one_line(item.text)}" for item in task.facts)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def parse_letter(reply: str, task: ChooseAnswer) -> Choice:
    """The label whose letter the reply names."""
    question = task.question
    letters = option_letters(question)
    letter = parse_answer(reply, letters, question.options)
    return build_choice(task, question.labels[letters.index(letter)])


Outcome = tuple[Choice | Failure, ReplyCost | None]
"""Of one call, or of all calls for a question."""


@dataclass(frozen=True)
class LetterTask(PromptedTask[ChooseAnswer, Choice]):
    """A choice of letters: with the best fact and without, in two orders of the options each."""

    def version_with(self, prompts: Prompts = PACKAGED) -> str:
        return content_id(super().version_with(prompts), "two orders", FACTS, FACT_WEIGHT, UNRELATED, RELATED)

    def ask_with_cost(self, model: LanguageModel, tasks: Sequence[ChooseAnswer]) -> list[Outcome]:
        """One choice per task, in order; a model that rates no letters is called once."""
        outcomes = self.ask_in_both_orders(model, tasks)
        with_facts = [n for n, task in enumerate(tasks) if _log_probs(outcomes[n]) and _has_facts(task)]
        closed = self.ask_in_both_orders(model, [replace(tasks[number], evidence={}) for number in with_facts])
        for number, other in zip(with_facts, closed, strict=True):
            task = tasks[number]
            outcomes[number] = _combine(task, outcomes[number], other, 1 - fact_weight(task.closeness))
        return outcomes

    def ask_in_both_orders(self, model: LanguageModel, tasks: Sequence[ChooseAnswer]) -> list[Outcome]:
        """One choice per task with the facts that it has, in order."""
        outcomes = super().ask_with_cost(model, tasks)
        rated = [number for number, outcome in enumerate(outcomes) if _log_probs(outcome)]
        turned = super().ask_with_cost(model, [turn_options(tasks[number]) for number in rated])
        for number, other in zip(rated, turned, strict=True):
            outcomes[number] = _combine(tasks[number], outcomes[number], _turn_back(tasks[number], other), 0.5)
        return outcomes


def turn_options(task: ChooseAnswer) -> ChooseAnswer:
    """The task with the second half of its options first."""
    options = task.question.options
    middle = len(options) // 2
    return replace(task, question=replace(task.question, options=(*options[middle:], *options[:middle])))


def _turn_back(task: ChooseAnswer, outcome: Outcome) -> Outcome:
    """The outcome of the turned task, with the log probabilities in the order of the options."""
    result, cost = outcome
    if cost is None or not _log_probs(outcome):
        return outcome
    log_probs = np.roll(cost.choice_log_probs, len(task.question.options) // 2)
    return result, replace(cost, choice_log_probs=tuple(log_probs.tolist()))


def _has_facts(task: ChooseAnswer) -> bool:
    return bool(task.facts) and not is_table_task(task)


def _log_probs(outcome: Outcome) -> tuple[float, ...]:
    """Log probabilities of the letters of a usable reply; empty if the model rates none."""
    result, cost = outcome
    return cost.choice_log_probs if cost and isinstance(result, Choice) else ()


def _combine(task: ChooseAnswer, outcome: Outcome, other: Outcome, weight: float) -> Outcome:
    """The choice by the mean log probability, where ``weight`` is that of the other; by the first if it has none."""
    cost = outcome[1]
    assert cost is not None, "a rated reply has a cost"
    total = cost.plus(other[1]) if other[1] else cost
    log_probs = log_softmax(_log_probs(outcome))
    if _log_probs(other):
        log_probs = (1 - weight) * log_probs + weight * log_softmax(_log_probs(other))
    best = task.question.labels[int(log_probs.argmax())]
    return build_choice(task, best), replace(total, choice_log_probs=tuple(log_probs.tolist()))


SHORT_CHOICE = LetterTask(
    "choose_letter", (LETTER,), letter_request, parse_letter, accepts_truncated=True, requests_per_task=4
)
SHORT_STYLE = PromptStyle(None, SHORT_CHOICE, facts=FACTS)
EXPLAINED_SHORT_STYLE = PromptStyle(EXPLAIN_TASK, SHORT_CHOICE, facts=FACTS)
"""Explanations on request. The choice does not read them: those of a small model argue for whatever option they get."""
