"""The typed tasks on tables as requests to a language model, and its replies as typed results.

A cell is led by its place, so that a reply's ``[r3c1]`` cites the evidence that stands there; ``[caption]`` cites the
caption, ``[o1]`` what is from outside the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.tables.solver import build_view
from evidence_assets.reasoning.tables.table import TableView
from evidence_assets.reasoning.tasks import (
    CAPTION,
    TABLE_CELL_KINDS,
    TABLE_KINDS,
    ChainStep,
    ChooseAnswer,
    EvidenceItem,
    ExplainOption,
)
from evidence_assets.reasoning.templates import (
    PACKAGED_PROMPTS,
    PromptSettings,
    Template,
    fence,
    fenced_options,
    fenced_question,
    is_claim,
    negation_field,
)

TABLE_TASKS = frozenset({"verification", "table_qa"})
STANCES = {"SUPPORTS": "supports", "REFUTES": "refutes", "NOT ENOUGH INFORMATION": "unsettled"}
"""The field of the template that stands for the label that a claim is explained under."""
EXPLAIN = Template.load(__package__, "table_explain", "question table alone outside option", *STANCES.values())
CHOOSE = Template.load(__package__, "table_choose", "question options table cases bare negated labels")
EXPLAIN_TOKENS = 1024
CHOOSE_TOKENS = 32
_CITATION = re.compile(r"\[(r\d+c\d+|o\d+|caption)\]")
_QUOTE = re.compile(_CITATION.pattern.replace("(", "(?:") + r"\s*[\"“]([^\"”]*)[\"”]")
_STEP = re.compile(r"^\s*(?:\d+[.)]|[-*•])\s+")


def is_table_task(task: ExplainOption | ChooseAnswer) -> bool:
    """Whether a task is one on a table: a claim or a table question with cells or columns as evidence."""
    return task.task in TABLE_TASKS and any(item.kind in TABLE_CELL_KINDS for item in _task_evidence(task))


def explain_request(task: ExplainOption, prompts: PromptSettings = PACKAGED_PROMPTS) -> Request:
    """Ask for the explanation of one label or option; cells of several tables are refused, and a label that is none."""
    outside = bool(outside_items(task.evidence))
    return prompts.of(EXPLAIN).request(
        EXPLAIN_TOKENS,
        question=fenced_question(task),
        table=fenced_table(_task_evidence(task)),
        alone="" if outside else "alone",
        outside="outside" if outside else "",
        option="" if is_claim(task) else fence(f"option {task.hypothesis}", task.option),
        **stance_fields(task),
    )


def choose_request(task: ChooseAnswer, prompts: PromptSettings = PACKAGED_PROMPTS) -> Request:
    """Ask for exactly one label, given the table and the explanations that there are."""
    cases = []
    for chain in task.chains:
        steps = [f"{number}. {step.text}" for number, step in enumerate(chain.steps, start=1)]
        cases.append(fence(f"case for {chain.hypothesis}", "\n".join(steps) or "Nothing in the table leads here."))
    return prompts.of(CHOOSE).request(
        CHOOSE_TOKENS,
        task.labels,
        question=fenced_question(task),
        options=fenced_options(task),
        table=fenced_table(_task_evidence(task)),
        cases="\n\n".join(cases),
        bare="" if cases else "bare",
        negated=negation_field(task),
        labels=", ".join(task.labels),
    )


def stance_fields(task: ExplainOption) -> dict[str, str]:
    """The fields of a template that stand for the label that a claim is explained under, of which one stands."""
    if is_claim(task) and task.hypothesis not in STANCES:
        raise ValueError(f"no such label: {task.hypothesis!r}; use one of {', '.join(STANCES)}")
    stance = STANCES[task.hypothesis] if is_claim(task) else ""
    return {field: field if field == stance else "" for field in STANCES.values()}


def outside_items(evidence: Sequence[EvidenceItem]) -> list[EvidenceItem]:
    """The evidence that is not of a table."""
    return [item for item in evidence if item.kind not in TABLE_KINDS]


def table_text(view: TableView, *, marked: bool = True) -> str:
    """A table as text with bars between cells, each ``marked`` one led by its place, so that it can be cited."""
    lines = [f"[{CAPTION}] {view.caption}" if marked else f"Caption: {view.caption}"] if view.caption else []
    for i in sorted({*view.header_rows, *view.sections, *view.body}):
        cells = [view.cell((i, j)).plain for j in view.columns]
        if marked:
            cells = [f"[r{i}c{j}] {text or '(empty)'}" for j, text in zip(view.columns, cells, strict=True)]
        lines.append(" | ".join(cells))
    return "\n".join(lines)


def parse_steps(reply: str, task: ExplainOption) -> tuple[ChainStep, ...]:
    """Steps of an explanation; a cell that is no evidence, as it was empty, is cited by its place and found absent.

    A reply without text is refused, and one that cites what was not given.
    """
    view, ids = build_view(task.evidence)
    places = {f"r{i}c{j}": ids.get((i, j), f"r{i}c{j}") for i, row in enumerate(view.grid) for j in range(len(row))}
    places |= {item.kind: item.evidence_id for item in task.evidence if item.kind == CAPTION}
    places |= {f"o{n}": item.evidence_id for n, item in enumerate(outside_items(task.evidence), 1)}
    parts: list[str] = []
    for line in filter(None, map(str.strip, reply.splitlines())):
        if _STEP.match(line) or not parts:
            parts.append(_STEP.sub("", line))
        else:
            parts[-1] += " " + line
    if not parts:
        raise UnusableReply("the reply holds no explanation")
    cited = [list(dict.fromkeys(_CITATION.findall(part))) for part in parts]
    for place in (place for places_ in cited for place in places_):
        if place not in places:
            raise UnusableReply(f"the reply cites {place}, which is not in the table or beside it")
    return tuple(
        ChainStep(part, tuple(places[place] for place in named), tuple(_QUOTE.findall(part)))
        for part, named in zip(parts, cited, strict=True)
    )


def fenced_table(given: Sequence[EvidenceItem], *, marked: bool = True) -> str:
    """The table that the cells show, what is from outside marked as such below it."""
    lines = [table_text(build_view(given)[0], marked=marked)]
    if beside := outside_items(given):
        lines += ["", "Outside the table:"]
        lines += [f"[o{number}] {' '.join(item.text.split())}" for number, item in enumerate(beside, 1)]
    return fence("table", "\n".join(lines))


def _task_evidence(task: ExplainOption | ChooseAnswer) -> list[EvidenceItem]:
    if isinstance(task, ExplainOption):
        return list(task.evidence)
    return list({item.evidence_id: item for items in task.evidence.values() for item in items}.values())
