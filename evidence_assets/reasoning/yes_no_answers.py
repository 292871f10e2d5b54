"""Yes or no by a small language model, which reads one row of evidence at a time and replies with a letter.

Small models tend to say yes and then justify it. So the model reads each row alone and replies with the letter of yes,
of no, or that the text does not say, in two orders of these, because it prefers some letters whatever stands there. A
multinomial logistic regression decides by three signals: the largest log probabilities of yes and of no among the rows,
and the smallest one of neither (docs/with-a-real-model.md).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from scipy.special import log_softmax

from evidence_assets.lake.ids import content_id
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.models.protocols import Request
from evidence_assets.models.vectors import softmax
from evidence_assets.reasoning.confidence import Signals
from evidence_assets.reasoning.model_calls import LanguageModel, PromptedTask
from evidence_assets.reasoning.reply_parsing import parse_answer
from evidence_assets.reasoning.short_answers import NO_ANSWER, ShortAnswer, ShortTask
from evidence_assets.reasoning.short_choices import LETTER_TOKENS
from evidence_assets.reasoning.tasks import ChainStep, EvidenceItem, Failure, ReplyCost
from evidence_assets.reasoning.templates import PACKAGED, Prompts, Template
from evidence_assets.text.tokens import asks_yes_or_no

VERSION = "2"
"""Raise it whenever equal replies may become other answers."""
DECISION_FILE = Path(__file__).with_suffix(".yaml")
TEMPLATE = Template.load(__package__, "yes_no", "text question letters")
ROWS = 5
"""Best rows that are read, each alone."""
LETTERS = ("A", "B", "C")
Verdict = Literal["yes", "no", "unknown"]
OPTIONS: Mapping[Verdict, str] = {"yes": "yes", "no": "no", "unknown": "the text does not say"}
ORDERS: Sequence[tuple[Verdict, ...]] = (("yes", "no", "unknown"), ("unknown", "yes", "no"))
"""Orders of the options, in which each option has two letters."""
UNRATED_PROBABILITY = 0.6
"""Probability of a verdict whose letter a server does not rate; a row with two verdicts decides nothing."""
LogProbs = Mapping[Verdict, float]


@dataclass(frozen=True)
class RowQuestion:
    """A question to one row, with the order of its options."""

    question: str
    row: EvidenceItem
    order: tuple[Verdict, ...]


def yes_no_request(task: RowQuestion, prompts: Prompts = PACKAGED) -> Request:
    """Request the letter of the verdict."""
    letters = zip(LETTERS, task.order, strict=True)
    request = prompts.customize(TEMPLATE).request(
        LETTER_TOKENS,
        LETTERS,
        text=task.row.titled_text,
        question=json.dumps(task.question, ensure_ascii=False),
        letters="\n".join(f"{letter}) {OPTIONS[verdict]}" for letter, verdict in letters),
    )
    return replace(request, rates_choices=True)


def parse_verdict(text: str, task: RowQuestion) -> Verdict:
    """The verdict whose letter a reply names."""
    letter = parse_answer(text, LETTERS, [OPTIONS[verdict] for verdict in task.order])
    return task.order[LETTERS.index(letter)]


YES_NO = PromptedTask("yes_no", (TEMPLATE,), yes_no_request, parse_verdict, accepts_truncated=True)


def verdict_log_probs(task: RowQuestion, verdict: Verdict, cost: ReplyCost | None) -> LogProbs:
    """Log probability of each verdict: of its letter or, from a server that rates none, by the letter of the reply."""
    if cost and cost.choice_log_probs:
        return dict(zip(task.order, log_softmax(cost.choice_log_probs).tolist(), strict=True))
    rest = (1 - UNRATED_PROBABILITY) / 2
    return {each: math.log(UNRATED_PROBABILITY if each == verdict else rest) for each in task.order}


def verdict_signals(rows: Sequence[LogProbs]) -> dict[str, float]:
    """The largest log probability of yes and of no among rows, and the smallest one of neither."""
    return {
        "yes": round(max(row["yes"] for row in rows), 6),
        "no": round(max(row["no"] for row in rows), 6),
        "unknown": round(min(row["unknown"] for row in rows), 6),
    }


@dataclass(frozen=True)
class YesNoDecision:
    """Weights of the signals for yes and for no, and the minimum probability, by ``bench/answers/fit_yes_no.py``.

    The probabilities of yes, no and neither are the softmax of the weighted sums, 0 for neither.
    """

    yes: Signals
    no: Signals
    min_probability: float

    @property
    def version(self) -> str:
        return content_id("yes or no", sorted(self.yes.items()), sorted(self.no.items()), self.min_probability)

    def probabilities(self, signals: Signals) -> dict[Verdict, float]:
        """Probabilities of yes and no."""
        values = {"intercept": 1.0, **signals}
        sums = [math.fsum(weight * values[name] for name, weight in each.items()) for each in (self.yes, self.no)]
        yes, no, _ = softmax([*sums, 0.0]).tolist()
        return {"yes": round(yes, 6), "no": round(no, 6)}

    def decide(self, rows: Sequence[EvidenceItem], log_probs: Sequence[LogProbs]) -> ShortAnswer:
        """The verdict with its probability and the row that says it most clearly, or no answer."""
        probabilities = self.probabilities(verdict_signals(log_probs))
        verdict = max(probabilities, key=lambda each: probabilities[each])
        if probabilities[verdict] < self.min_probability:
            return NO_ANSWER
        _, row = max(zip(log_probs, rows, strict=True), key=lambda pair: pair[0][verdict])
        step = ChainStep(verdict, (row.evidence_id,), (row.text,))
        return ShortAnswer.of_steps([step], probabilities[verdict])


@lru_cache
def load_yes_no_decision() -> YesNoDecision:
    """The packaged weights."""
    return YesNoDecision(**read_yaml_mapping(DECISION_FILE)["values"])


RowOutcome = tuple[LogProbs | Failure, ReplyCost | None]
"""What the model reads in a row, and its cost."""


def ask_rows(model: LanguageModel, tasks: Sequence[ShortTask]) -> list[list[RowOutcome]]:
    """What the model reads in each of the best rows of each task, in order.

    Both prompts of a row begin equally. The second ones are sent after the first, so that a server that keeps what it
    has read need not read the row again.
    """
    pairs = [(task.question.text, row) for task in tasks for row in task.texts[:ROWS]]
    by_order = [_ask_in_order(model, [RowQuestion(*pair, order) for pair in pairs]) for order in ORDERS]
    outcomes = iter([_combine(both) for both in zip(*by_order, strict=True)])
    return [[next(outcomes) for _ in task.texts[:ROWS]] for task in tasks]


def _ask_in_order(model: LanguageModel, calls: Sequence[RowQuestion]) -> list[RowOutcome]:
    replies = YES_NO.ask_with_cost(model, calls)
    return [
        (verdict if isinstance(verdict, Failure) else verdict_log_probs(call, verdict, cost), cost)
        for call, (verdict, cost) in zip(calls, replies, strict=True)
    ]


def _combine(outcomes: Sequence[RowOutcome]) -> RowOutcome:
    """The mean log probabilities of a row, or its failure, with the total cost."""
    cost = ReplyCost.total(cost for _, cost in outcomes)
    log_probs = list[LogProbs]()
    for outcome, _ in outcomes:
        if isinstance(outcome, Failure):
            return outcome, cost
        log_probs.append(outcome)
    return {verdict: math.fsum(each[verdict] for each in log_probs) / len(log_probs) for verdict in OPTIONS}, cost


def needs_verdict(task: ShortTask, by_rules: ShortAnswer) -> bool:
    """Whether a question asks for yes or no and the rules have no answer."""
    return asks_yes_or_no(task.question.text) and by_rules.status != "answered"


class YesNoAnswers:
    """Answers questions for yes or no with the verdict and the row that gives it.

    A question whose call fails has failed, so that another run asks again.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._decision = load_yes_no_decision()
        prompts = YES_NO.version_with(model.prompts)
        self.version = content_id("yes or no", VERSION, prompts, model.version, self._decision.version)

    def answer(self, tasks: Sequence[ShortTask]) -> list[ShortAnswer | Failure]:
        """One answer per task, in order; a task without evidence is not sent."""
        results = list[ShortAnswer | Failure]()
        for task, outcomes in zip(tasks, ask_rows(self._model, tasks), strict=True):
            failures = [outcome for outcome, _ in outcomes if isinstance(outcome, Failure)]
            log_probs = [outcome for outcome, _ in outcomes if not isinstance(outcome, Failure)]
            answer = self._decision.decide(task.texts[:ROWS], log_probs) if outcomes and not failures else NO_ANSWER
            result = failures[0] if failures else answer
            results.append(replace(result, reply=ReplyCost.total(cost for _, cost in outcomes)))
        return results
