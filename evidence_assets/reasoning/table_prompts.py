"""The typed tasks on tables as requests to a language model, and its replies as typed results.

What belongs here: filling the templates, and joining cells with evidence: a reply's ``[r3c1]`` is the citation of the
evidence that stands there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evidence_assets.models.protocols import Request
from evidence_assets.reasoning import table_tasks
from evidence_assets.reasoning.parsing import one_of
from evidence_assets.reasoning.requests import fenced
from evidence_assets.reasoning.tables.outside import outside_items
from evidence_assets.reasoning.tables.solver import view_of
from evidence_assets.reasoning.tasks import Chain, ChooseAnswer, EvidenceItem, ExplainOption, Step
from evidence_assets.reasoning.templates import PACKAGED, Template, Words

TASKS = frozenset({"verification", "table_qa"})
STANCES = {"SUPPORTS": "supports", "REFUTES": "refutes", "NOT ENOUGH INFORMATION": "unsettled"}
"""The field of the template that stands for the label that a claim is explained under."""
EXPLAIN = Template.load(__package__, "table_explain", "question table alone outside option", *STANCES.values())
CHOOSE = Template.load(__package__, "table_choose", "question options table cases bare negated labels")
EXPLAIN_TOKENS = 1024
CHOOSE_TOKENS = 32


def is_table_task(task: ExplainOption | ChooseAnswer) -> bool:
    """Whether a task is one on a table: a claim or a table question with cells as evidence."""
    return task.task in TASKS and any(item.kind == "cell" for item in _given(task))


def explain_request(task: ExplainOption, words: Words = PACKAGED) -> Request:
    """Ask for the explanation of one label or option.

    Raises
    ------
    ValueError
        If the cells are of several tables or a locator names no cell, or the label of a claim is none.
    """
    claim = task.task == "verification"
    if claim and task.hypothesis not in STANCES:
        raise ValueError(f"no such label: {task.hypothesis!r}; use one of {', '.join(STANCES)}")
    outside = bool(outside_items(task.evidence))
    stance = STANCES[task.hypothesis] if claim else ""
    return words.of(EXPLAIN).request(
        EXPLAIN_TOKENS,
        question=_question(task), table=shown_table(_given(task)), alone="" if outside else "alone",
        outside="outside" if outside else "", option="" if claim else fenced(f"option {task.hypothesis}", task.option),
        **{field: field if field == stance else "" for field in STANCES.values()},
    )  # fmt: skip


def choose_request(task: ChooseAnswer, words: Words = PACKAGED) -> Request:
    """Ask for exactly one label, given the table and the explanations that there are.

    Raises
    ------
    ValueError
        If the cells are of several tables or a locator names no cell.
    """
    claim = task.task == "verification"
    listed = "\n".join(f"{label}) {option}" for label, option in zip(task.labels, task.options, strict=True))
    cases = [fenced(f"case for {chain.hypothesis}", _written(chain)) for chain in task.chains]
    return words.of(CHOOSE).request(
        CHOOSE_TOKENS, task.labels,
        question=_question(task), options="" if claim else fenced("options", listed), table=shown_table(_given(task)),
        cases="\n\n".join(cases), bare="" if cases else "bare", negated="negated" if task.negated else "",
        labels=", ".join(task.labels),
    )  # fmt: skip


def _question(task: ExplainOption | ChooseAnswer) -> str:
    return fenced("claim" if task.task == "verification" else "question", task.question)


def parse_steps(reply: str, task: ExplainOption) -> tuple[Step, ...]:
    """Steps of an explanation; a cell that is no evidence, as it was empty, is cited by its place and found absent.

    Raises
    ------
    UnusableReply
        If there is no text, or it cites a place that the table does not have.
    """
    view, ids = view_of(task.evidence)
    beside = [item.evidence_id for item in outside_items(task.evidence)]
    steps = []
    for step in table_tasks.parse_explanation(reply, view):
        cells = [ids.get(place, f"r{place[0]}c{place[1]}") for place in step.cells]
        others = [beside[place] for place in table_tasks.outside_cited(step.text, len(beside))]
        steps.append(Step(step.text, (*cells, *others), step.quoted))
    return tuple(steps)


def parse_choice(reply: str, task: ChooseAnswer) -> str:
    """The one label that a reply consists of; see :func:`one_of`."""
    return one_of(reply, task.labels)


def shown_table(given: Sequence[EvidenceItem], *, marked: bool = True) -> str:
    """The table that the cells show, what is from outside marked as such below it."""
    table = table_tasks.table_text(view_of(given)[0], marked=marked)
    return fenced("table", table_tasks.with_outside(table, [item.text for item in outside_items(given)]))


def _given(task: ExplainOption | ChooseAnswer) -> list[EvidenceItem]:
    if isinstance(task, ExplainOption):
        return list(task.evidence)
    everything: Iterable[EvidenceItem] = (item for items in task.evidence.values() for item in items)
    return list({item.evidence_id: item for item in everything}.values())


def _written(chain: Chain) -> str:
    """A chain as numbered lines; its steps name their cells themselves."""
    lines = [f"{number}. {step.text}" for number, step in enumerate(chain.steps, start=1)]
    return "\n".join(lines) or "Nothing in the table leads here."
