"""The solver that puts the typed tasks to a language model and reads its replies.

Belongs here: what a usable reply means. How a model is asked is in ``asking``, the wording in ``prompts/``, the strict
reading in ``parsing`` and ``answers``; tasks on tables have their own in ``table_prompts``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning import parsing, requests, table_prompts
from evidence_assets.reasoning.asking import LanguageModel, PromptedTask
from evidence_assets.reasoning.citations import check
from evidence_assets.reasoning.table_prompts import is_table_task
from evidence_assets.reasoning.tasks import Chain, Choice, ChooseAnswer, EvidenceItem, ExplainOption, Failure

VERSION = "3"
"""Changes whenever equal replies may be read otherwise."""
NOT_ENOUGH = "NOT ENOUGH INFORMATION"


class PromptedSolver:
    """Answers the typed tasks by asking a language model.

    The label is the model's; which options count as supported is not: those whose chain has a citation that verifies.
    Where evidence was given and no chain cites it rightly, the status is ``insufficient`` whatever the model says.
    Confidence is the share of the chosen chain's citations that verify, 0 without a chain.
    """

    name = "prompted"

    def __init__(self, model: LanguageModel) -> None:
        self._model, self.model_id = model, model.model_id
        self.version = content_id(VERSION, model.version, EXPLAINING.version, CHOOSING.version)

    def task_version(self, task: ExplainOption) -> str:
        """The version: nothing else bears on a task."""
        return self.version

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        """One chain an option."""
        return [replace(result, reply=reply) for result, reply in EXPLAINING.ask_with_cost(self._model, tasks)]

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        """One label a question."""
        return [replace(result, reply=reply) for result, reply in CHOOSING.ask_with_cost(self._model, tasks)]


def _explain_request(task: ExplainOption) -> Request:
    return table_prompts.explain_request(task) if is_table_task(task) else requests.explain_request(task)


def _chain(reply: str, task: ExplainOption) -> Chain:
    parse = table_prompts.parse_steps if is_table_task(task) else parsing.parse_steps
    request = _explain_request(task)
    return Chain(task.hypothesis, parse(reply, task), None, content_id(request.system, request.user))


def _choose_request(task: ChooseAnswer) -> Request:
    return table_prompts.choose_request(task) if is_table_task(task) else requests.choose_request(task)


def _choice(reply: str, task: ChooseAnswer) -> Choice:
    parse = table_prompts.parse_choice if is_table_task(task) else parsing.parse_choice
    return _judged(task, parse(reply, task))


EXPLAINING = PromptedTask("explain", (requests.EXPLAIN, table_prompts.EXPLAIN), _explain_request, _chain)
CHOOSING = PromptedTask(
    "choose", (requests.CHOOSE, requests.CHOOSE_CLOSED, table_prompts.CHOOSE), _choose_request, _choice
)


def _judged(task: ChooseAnswer, answer: str | None) -> Choice:
    """A model's label with what the citations say to it."""
    shares = {}
    for chain in task.chains:
        verdicts = [citation.verdict for citation in check(chain, _evidence_of(task, chain))]
        shares[chain.hypothesis] = verdicts.count("verified") / len(verdicts) if verdicts else 0.0
    supported = tuple(label for label in task.labels if shares.get(label, 0) > 0)
    if answer == NOT_ENOUGH and task.task == "verification":
        # That nothing settles a claim is an answer, for which no cell need speak.
        return Choice(answer, (answer,), "insufficient", round(shares.get(answer, 0.0), 6))
    unfounded = bool(task.chains) and any(task.evidence.values()) and not supported
    if answer is None or unfounded:
        return Choice(None, supported, "insufficient", 0.0)
    return Choice(answer, supported, "answered", round(shares.get(answer, 0.0), 6))


def _evidence_of(task: ChooseAnswer, chain: Chain) -> tuple[EvidenceItem, ...]:
    return task.evidence.get(chain.hypothesis, ())
