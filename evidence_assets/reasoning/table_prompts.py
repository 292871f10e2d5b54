"""The typed tasks on tables as requests to a language model, and its replies as typed results.

What belongs here: joining the typed tasks with the texts and parsers of `table_tasks`; cells are evidence, and a reply's
``[r3c1]`` is the citation of the evidence that stands there.
"""

from __future__ import annotations

from collections.abc import Iterable

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.models.protocols import Completion, Request
from evidence_assets.reasoning import table_tasks
from evidence_assets.reasoning.tables.outside import outside_items
from evidence_assets.reasoning.tables.solver import view_of
from evidence_assets.reasoning.tasks import Chain, ChooseAnswer, EvidenceItem, ExplainOption, Step

TASKS = frozenset({"verification", "table_qa"})
_SYSTEM = (
    "You examine tables. You rely on their cells alone, name the cells you rely on, and keep to the form asked for."
)


def is_table_task(task: ExplainOption | ChooseAnswer) -> bool:
    """Whether a task is one on a table: a claim or a table question with cells as evidence."""
    return task.task in TASKS and any(item.kind == "cell" for item in _given(task))


def explain_request(task: ExplainOption) -> Request:
    """Ask for the explanation of one label or option.

    Raises
    ------
    ValueError
        If the cells are of several tables or a locator names no cell, or the label of a claim is none.
    """
    table = _table(_given(task))
    if task.task == "verification":
        text = table_tasks.explain_claim(task.question, task.hypothesis, table)
    else:
        text = table_tasks.explain_option(task.question, task.hypothesis, task.option, table)
    return Request(_SYSTEM, text, table_tasks.EXPLANATION_TOKENS)


def choose_request(task: ChooseAnswer) -> Request:
    """Ask for exactly one label, given the table and the explanations that there are.

    Raises
    ------
    ValueError
        If the cells are of several tables or a locator names no cell.
    """
    table = _table(_given(task))
    cases = {chain.hypothesis: _written(chain) for chain in task.chains}
    if task.task == "verification":
        text = table_tasks.verify_claim_task(task.question, task.labels, table, cases)
    else:
        text = table_tasks.choose_option_task(
            task.question, task.labels, task.options, table, cases, negated=task.negated
        )
    return Request(_SYSTEM, text, table_tasks.VERDICT_TOKENS, choices=task.labels)


def parse_steps(completion: Completion, task: ExplainOption) -> tuple[Step, ...]:
    """Steps of an explanation; a cell that is no evidence, as it was empty, is cited by its place and found absent.

    Raises
    ------
    UnusableReply
        If there is no text, it was cut off, or it cites a place that the table does not have.
    """
    if completion.finish_reason == "length":
        raise UnusableReply("it was cut off at the token limit")
    view, ids = view_of(task.evidence)
    beside = [item.evidence_id for item in outside_items(task.evidence)]
    steps = []
    for step in table_tasks.parse_explanation(completion.text, view):
        cells = [ids.get(place, f"r{place[0]}c{place[1]}") for place in step.cells]
        others = [beside[place] for place in table_tasks.outside_cited(step.text, len(beside))]
        steps.append(Step(step.text, (*cells, *others), step.quoted))
    return tuple(steps)


def parse_choice(completion: Completion, task: ChooseAnswer) -> str:
    """The one label that a reply consists of.

    Raises
    ------
    UnusableReply
        If it is anything else.
    """
    return table_tasks.parse_label(completion.text, task.labels)


def _table(given: list[EvidenceItem]) -> str:
    """The table that the cells show, what is from outside marked as such below it."""
    return table_tasks.with_outside(
        table_tasks.table_text(view_of(given)[0]), [item.text for item in outside_items(given)]
    )


def _given(task: ExplainOption | ChooseAnswer) -> list[EvidenceItem]:
    if isinstance(task, ExplainOption):
        return list(task.evidence)
    everything: Iterable[EvidenceItem] = (item for items in task.evidence.values() for item in items)
    return list({item.evidence_id: item for item in everything}.values())


def _written(chain: Chain) -> str:
    """A chain as numbered lines; its steps name their cells themselves."""
    lines = [f"{number}. {step.text}" for number, step in enumerate(chain.steps, start=1)]
    return "\n".join(lines) or "Nothing in the table leads here."
