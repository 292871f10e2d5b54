"""The solver that puts the typed tasks to a language model and reads its replies.

Belongs here: what a usable reply means. How a model is asked is in ``asking``, the wording in ``prompts/``, the strict
reading in ``parsing`` and ``answers``; tasks on tables have their own in ``table_prompts``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning import parsing, requests, table_prompts
from evidence_assets.reasoning.asking import LanguageModel, PromptedTask
from evidence_assets.reasoning.citations import check
from evidence_assets.reasoning.table_prompts import is_table_task
from evidence_assets.reasoning.tasks import Chain, Choice, ChooseAnswer, ExplainOption, Failure
from evidence_assets.reasoning.templates import PACKAGED, Words

VERSION = "3"
"""Changes whenever equal replies may be read otherwise."""
NOT_ENOUGH = "NOT ENOUGH INFORMATION"


Once = PromptedTask[ChooseAnswer, tuple[Choice, Chain]]


@dataclass(frozen=True)
class Style:
    """What is asked of a question with options: an explanation of each and then a choice, or both at ``once``.

    A style that explains nothing chooses from the evidence, or from the question alone.
    """

    explain: PromptedTask[ExplainOption, Chain] | None
    choose: PromptedTask[ChooseAnswer, Choice] | None
    once: Once | None = None

    @property
    def tasks(self) -> tuple[PromptedTask[Any, Any], ...]:
        return tuple(task for task in (self.explain, self.choose, self.once) if task is not None)


class PromptedSolver:
    """Answers the typed tasks by asking a language model, in our own way or as a paper does.

    The label is the model's; which options count as supported is not: those whose chain has a citation that verifies.
    Asked in our own way, the status is ``insufficient`` whatever the model says where evidence was given and no chain
    cites it rightly. Confidence is the share of the chosen chain's citations that verify, 0 without a chain.
    """

    name = "prompted"

    def __init__(self, model: LanguageModel, style: Style | None = None) -> None:
        self._model, self.model_id, self._style = model, model.model_id, style or OURS
        self.version = content_id(VERSION, model.version, *(t.version_in(model.words) for t in self._style.tasks))

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        assert self._style.explain is not None, "who explains nothing is asked for no explanation"
        chains: list[Chain | Failure] = []
        for result, reply in self._style.explain.ask_with_cost(self._model, tasks):
            told = replace(result, reply=reply)
            chains.append(replace(told, prompt_hash=reply.prompt_hash) if isinstance(told, Chain) and reply else told)
        return chains

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        """One label a question."""
        assert self._style.choose is not None, "who answers at once is asked for no choice"
        asked = self._style.choose.ask_with_cost(self._model, tasks)
        return [replace(result, reply=reply) for result, reply in asked]


def _explain_request(task: ExplainOption, words: Words = PACKAGED) -> Request:
    ask = table_prompts.explain_request if is_table_task(task) else requests.explain_request
    return ask(task, words)


def _chain(reply: str, task: ExplainOption) -> Chain:
    parse = table_prompts.parse_steps if is_table_task(task) else parsing.parse_steps
    return Chain(task.hypothesis, parse(reply, task))


def _choose_request(task: ChooseAnswer, words: Words = PACKAGED) -> Request:
    ask = table_prompts.choose_request if is_table_task(task) else requests.choose_request
    return ask(task, words)


def _choice(reply: str, task: ChooseAnswer) -> Choice:
    parse = table_prompts.parse_choice if is_table_task(task) else parsing.parse_choice
    return judged(task, parse(reply, task), vetoes=True)


EXPLAINING = PromptedTask("explain", (requests.EXPLAIN, table_prompts.EXPLAIN), _explain_request, _chain)
CHOOSING = PromptedTask(
    "choose", (requests.CHOOSE, requests.CHOOSE_CLOSED, table_prompts.CHOOSE), _choose_request, _choice
)


OURS = Style(EXPLAINING, CHOOSING)


def judged(task: ChooseAnswer, answer: str | None, *, vetoes: bool = False) -> Choice:
    """A model's label with its citations' verdicts; ``vetoes``: whether an answer that none supports is withheld."""
    shares = {}
    for chain in task.chains:
        verdicts = [citation.verdict for citation in check(chain, task.evidence.get(chain.hypothesis, ()))]
        shares[chain.hypothesis] = verdicts.count("verified") / len(verdicts) if verdicts else 0.0
    supported = tuple(label for label in task.labels if shares.get(label, 0) > 0)
    if vetoes and answer == NOT_ENOUGH and task.task == "verification":
        # That nothing settles a claim is an answer, for which no cell need speak.
        return Choice(answer, (answer,), "insufficient", round(shares.get(answer, 0.0), 6))
    unfounded = vetoes and bool(task.chains) and any(task.evidence.values()) and not supported
    if answer is None or unfounded:
        return Choice(None, supported, "insufficient", 0.0)
    return Choice(answer, supported, "answered", round(shares.get(answer, 0.0), 6))
