"""The typed tasks on tables as requests to a language model, and its replies as typed results.

What belongs here: filling the templates, and joining cells with evidence: a cell is led by its place, so that a reply's
``[r3c1]`` is the citation of the evidence that stands there, and ``[caption]`` that of the caption; what is from
outside the table is numbered ``[o1]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.answers import one_of
from evidence_assets.reasoning.tables.outside import outside_items
from evidence_assets.reasoning.tables.solver import view_of
from evidence_assets.reasoning.tables.view import Place, TableView
from evidence_assets.reasoning.tasks import CAPTION, IN_A_TABLE, Chain, ChooseAnswer, EvidenceItem, ExplainOption, Step
from evidence_assets.reasoning.templates import PACKAGED, Template, Words, asked, fenced, is_claim, listed, negated

TASKS = frozenset({"verification", "table_qa"})
STANCES = {"SUPPORTS": "supports", "REFUTES": "refutes", "NOT ENOUGH INFORMATION": "unsettled"}
"""The field of the template that stands for the label that a claim is explained under."""
EXPLAIN = Template.load(__package__, "table_explain", "question table alone outside option", *STANCES.values())
CHOOSE = Template.load(__package__, "table_choose", "question options table cases bare negated labels")
EXPLAIN_TOKENS = 1024
CHOOSE_TOKENS = 32
_CITATION, _OUTSIDE = re.compile(r"\[r(\d+)c(\d+)\]"), re.compile(r"\[o(\d+)\]")
_QUOTE = re.compile(r"\[(?:r\d+c\d+|o\d+|caption)\]\s*[\"“]([^\"”]*)[\"”]")
_STEP = re.compile(r"^\s*(?:\d+[.)]|[-*•])\s+")


def is_table_task(task: ExplainOption | ChooseAnswer) -> bool:
    """Whether a task is one on a table: a claim or a table question with cells or columns as evidence."""
    return task.task in TASKS and any(item.kind in IN_A_TABLE for item in _given(task))


def explain_request(task: ExplainOption, words: Words = PACKAGED) -> Request:
    """Ask for the explanation of one label or option; cells of several tables are refused, and a label that is none."""
    outside = bool(outside_items(task.evidence))
    return words.of(EXPLAIN).request(
        EXPLAIN_TOKENS,
        question=asked(task),
        table=shown_table(_given(task)),
        alone="" if outside else "alone",
        outside="outside" if outside else "",
        option="" if is_claim(task) else fenced(f"option {task.hypothesis}", task.option),
        **stances(task),
    )


def choose_request(task: ChooseAnswer, words: Words = PACKAGED) -> Request:
    """Ask for exactly one label, given the table and the explanations that there are."""
    cases = [fenced(f"case for {chain.hypothesis}", _written(chain)) for chain in task.chains]
    return words.of(CHOOSE).request(
        CHOOSE_TOKENS,
        task.labels,
        question=asked(task),
        options=listed(task),
        table=shown_table(_given(task)),
        cases="\n\n".join(cases),
        bare="" if cases else "bare",
        negated=negated(task),
        labels=", ".join(task.labels),
    )


def stances(task: ExplainOption) -> dict[str, str]:
    """The fields of a template that stand for the label that a claim is explained under, of which one stands."""
    if is_claim(task) and task.hypothesis not in STANCES:
        raise ValueError(f"no such label: {task.hypothesis!r}; use one of {', '.join(STANCES)}")
    stance = STANCES[task.hypothesis] if is_claim(task) else ""
    return {field: field if field == stance else "" for field in STANCES.values()}


def table_text(view: TableView, *, marked: bool = True) -> str:
    """A table as text with bars between cells, each ``marked`` one led by its place, so that it can be cited."""
    lines = [f"[{CAPTION}] {view.caption}" if marked else f"Caption: {view.caption}"] if view.caption else []
    for i in sorted({*view.shape.header_rows, *view.shape.sections, *view.body}):
        cells = [view.cell((i, j)).plain for j in view.columns]
        if marked:
            cells = [f"[r{i}c{j}] {text or '(empty)'}" for j, text in zip(view.columns, cells, strict=True)]
        lines.append(" | ".join(cells))
    return "\n".join(lines)


def parse_steps(reply: str, task: ExplainOption) -> tuple[Step, ...]:
    """Steps of an explanation; a cell that is no evidence, as it was empty, is cited by its place and found absent.

    Whether a quotation is true is checked elsewhere. A reply without text is refused, and one that cites a place that
    the table does not have, or a piece from outside that was not given.
    """
    view, ids = view_of(task.evidence)
    beside = [item.evidence_id for item in outside_items(task.evidence)]
    above = next((item.evidence_id for item in task.evidence if item.kind == CAPTION), None)
    parts: list[str] = []
    for line in (line.strip() for line in reply.splitlines()):
        if _STEP.match(line) or (line and not parts):
            parts.append(_STEP.sub("", line))
        elif line:
            parts[-1] += " " + line
    if not parts:
        raise UnusableReply("the reply holds no explanation")
    return tuple(
        Step(part, tuple(_cited(part, view, ids, above, beside)), tuple(_QUOTE.findall(part))) for part in parts
    )


def _cited(
    part: str, view: TableView, ids: Mapping[Place, str], above: str | None, beside: Sequence[str]
) -> Iterator[str]:
    """The evidence that a step names, each once: the caption, cells by their places, then pieces from outside by their
    numbers."""
    if f"[{CAPTION}]" in part:
        if above is None:
            raise UnusableReply("the reply cites a caption, but the table has none")
        yield above
    for row, column in dict.fromkeys((int(row), int(column)) for row, column in _CITATION.findall(part)):
        if not (row < len(view.shape.grid) and column < view.shape.width):
            raise UnusableReply(f"the reply cites r{row}c{column}, but the table has no such cell")
        yield ids.get((row, column), f"r{row}c{column}")
    for number in dict.fromkeys(map(int, _OUTSIDE.findall(part))):
        if not 1 <= number <= len(beside):
            raise UnusableReply(f"the reply cites o{number}, but {len(beside) or 'no'} pieces from outside were given")
        yield beside[number - 1]


def parse_choice(reply: str, task: ChooseAnswer) -> str:
    """The one label that a reply consists of; see :func:`one_of`."""
    return one_of(reply, task.labels)


def shown_table(given: Sequence[EvidenceItem], *, marked: bool = True) -> str:
    """The table that the cells show, what is from outside marked as such below it."""
    lines = [table_text(view_of(given)[0], marked=marked)]
    if beside := outside_items(given):
        lines += ["", "Outside the table:"]
        lines += [f"[o{number}] {' '.join(item.text.split())}" for number, item in enumerate(beside, 1)]
    return fenced("table", "\n".join(lines))


def _given(task: ExplainOption | ChooseAnswer) -> list[EvidenceItem]:
    if isinstance(task, ExplainOption):
        return list(task.evidence)
    everything: Iterable[EvidenceItem] = (item for items in task.evidence.values() for item in items)
    return list({item.evidence_id: item for item in everything}.values())


def _written(chain: Chain) -> str:
    """A chain as numbered lines; its steps name their cells themselves."""
    lines = [f"{number}. {step.text}" for number, step in enumerate(chain.steps, start=1)]
    return "\n".join(lines) or "Nothing in the table leads here."
