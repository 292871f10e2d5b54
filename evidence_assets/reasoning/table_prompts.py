"""Prompts for tasks on tables, and parsing of the replies.

Each cell starts with its id, so that ``[r3c1]`` in a reply cites the evidence in that cell. ``[caption]`` cites the
caption.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.tables.table import TableView
from evidence_assets.reasoning.tables.views import build_view
from evidence_assets.reasoning.tasks import (
    CAPTION,
    NOT_ENOUGH_INFORMATION,
    TABLE_CELL_KINDS,
    ChainStep,
    ChooseAnswer,
    EvidenceItem,
    ExplainOption,
)
from evidence_assets.reasoning.templates import (
    PACKAGED,
    Prompts,
    Template,
    fence,
    fenced_options,
    fenced_question,
    negation_field,
)

TABLE_TASKS = frozenset({"verification", "table_qa"})
STANCES = {"SUPPORTS": "supports", "REFUTES": "refutes", NOT_ENOUGH_INFORMATION: "unsettled"}
"""The template field of each label of a claim."""
EXPLAIN = Template.load(__package__, "table_explain", "question table option", *STANCES.values())
CHOOSE = Template.load(__package__, "table_choose", "question options table cases bare negated labels")
EXPLAIN_TOKENS = 1024
CHOOSE_TOKENS = 32
_ID = r"(?:r\d+c\d+|caption)"
_CITATION = re.compile(rf"\[{_ID}(?:\s*[,;&]\s*{_ID})*\]")
_QUOTE = re.compile(_CITATION.pattern + r"\s*[\"“]([^\"”]*)[\"”]")
_STEP = re.compile(r"^(?:[*_#]*\s*(?:step\s+)?\d+\s*[.):][*_]*|[-*•])\s+", re.IGNORECASE)


def is_table_task(task: ExplainOption | ChooseAnswer) -> bool:
    """Whether a task is a claim or table question with cells, rows or columns as evidence."""
    return task.question.task in TABLE_TASKS and any(item.kind in TABLE_CELL_KINDS for item in _task_evidence(task))


def explain_request(task: ExplainOption, prompts: Prompts = PACKAGED) -> Request:
    """Request the explanation of one label or option."""
    return prompts.customize(EXPLAIN).request(
        prompts.explanation_tokens or EXPLAIN_TOKENS,
        question=fenced_question(task.question),
        table=fenced_table(_task_evidence(task)),
        option="" if task.question.is_claim else fence(f"option {task.hypothesis}", task.option),
        **stance_fields(task),
    )


def choose_request(task: ChooseAnswer, prompts: Prompts = PACKAGED) -> Request:
    """Request exactly one label from the table and the explanations."""
    cases = []
    for chain in task.chains:
        steps = [f"{number}. {step.text}" for number, step in enumerate(chain.steps, start=1)]
        cases.append(fence(f"case for {chain.hypothesis}", "\n".join(steps) or "Nothing in the table leads here."))
    return prompts.customize(CHOOSE).request(
        CHOOSE_TOKENS,
        task.question.labels,
        question=fenced_question(task.question),
        options=fenced_options(task.question),
        table=fenced_table(_task_evidence(task)),
        cases="\n\n".join(cases),
        bare="" if cases else "bare",
        negated=negation_field(task.question),
        labels=", ".join(task.question.labels),
    )


def stance_fields(task: ExplainOption) -> dict[str, str]:
    """Template fields for the label of a claim: the field of its hypothesis is set, the others are empty."""
    stance = STANCES[task.hypothesis] if task.question.is_claim else ""
    return {field: field if field == stance else "" for field in STANCES.values()}


def table_text(view: TableView, *, with_ids: bool = True) -> str:
    """A table as text, cells separated by bars; ``with_ids`` adds a cell's id for citations."""
    lines = [f"[{CAPTION}] {view.caption}" if with_ids else f"Caption: {view.caption}"] if view.caption else []
    for i in (0, *view.body):
        cells = [view.cell((i, j)).plain for j in view.columns]
        if with_ids:
            cells = [f"[r{i}c{j}] {text or '(empty)'}" for j, text in zip(view.columns, cells, strict=True)]
        lines.append(" | ".join(cells))
    return "\n".join(lines)


def parse_steps(reply: str, task: ExplainOption) -> tuple[ChainStep, ...]:
    """Parse the steps of an explanation; raises UnusableReply for an empty reply or a citation of an unknown id.

    An empty cell is not evidence, so its citation keeps the cell's id, and the citation check returns ``absent``.
    """
    evidence_ids = _evidence_ids(task)
    steps = []
    for text in _split_steps(reply):
        cited = list(dict.fromkeys(re.findall(_ID, " ".join(_CITATION.findall(text)))))
        for cited_id in cited:
            if cited_id not in evidence_ids:
                raise UnusableReply(f"the reply cites {cited_id}, which is not in the table or beside it")
        steps.append(ChainStep(text, tuple(map(evidence_ids.__getitem__, cited)), tuple(_QUOTE.findall(text))))
    if not steps:
        raise UnusableReply("the reply holds no explanation")
    return tuple(dict.fromkeys(steps))


def _evidence_ids(task: ExplainOption) -> dict[str, str]:
    """Evidence ids by the ids that a reply may cite: all cells of the table and the caption."""
    view, ids = build_view(task.evidence)
    names = {(i, j): f"r{i}c{j}" for i, row in enumerate(view.grid) for j in range(len(row))}
    captions = {item.kind: item.evidence_id for item in task.evidence if item.kind == CAPTION}
    return {name: ids.get(place, name) for place, name in names.items()} | captions


def _split_steps(reply: str) -> list[str]:
    """The texts of the steps, without what introduces the first numbered one."""
    lines = [line.strip() for line in reply.splitlines() if line.strip()]
    first = next((number for number, line in enumerate(lines) if _STEP.match(line)), 0)
    steps: list[str] = []
    for line in lines[first:]:
        if _STEP.match(line) or not steps:
            steps.append(_STEP.sub("", line))
        else:
            steps[-1] += " " + line
    return steps


def fenced_table(evidence: Sequence[EvidenceItem], *, with_ids: bool = True) -> str:
    """The table of the cells, fenced."""
    return fence("table", table_text(build_view(evidence)[0], with_ids=with_ids))


def _task_evidence(task: ExplainOption | ChooseAnswer) -> list[EvidenceItem]:
    if isinstance(task, ExplainOption):
        return list(task.evidence)
    return list({item.evidence_id: item for items in task.evidence.values() for item in items}.values())
