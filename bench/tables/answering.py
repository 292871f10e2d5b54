"""Questions and claims answered from cells of a table by the extractive solver, as the assets answer them."""

from __future__ import annotations

from collections.abc import Sequence

from evidence_assets.benchmarks.records import QuestionRecord
from evidence_assets.experiment.evidence.selection import Question
from evidence_assets.extractive.tables.solver import TableSolver
from evidence_assets.reasoning.tasks import CAPTION, Chain, Choice, ChooseAnswer, EvidenceItem, ExplainOption
from evidence_assets.systems.ucret.system import TableEvidence

SOLVER = TableSolver()


def choose(
    text: str, task: str, labels: Sequence[str], options: Sequence[str], cells: tuple[EvidenceItem, ...]
) -> Choice:
    """Explain each option, then choose one."""
    pairs = zip(labels, options, strict=True)
    explained = SOLVER.explain([ExplainOption(text, *pair, cells, task) for pair in pairs])
    chains = tuple(chain for chain in explained if isinstance(chain, Chain))
    label_evidence = dict.fromkeys(labels, cells)
    [choice] = SOLVER.choose([ChooseAnswer(text, tuple(labels), tuple(options), chains, label_evidence, task)])
    if not isinstance(choice, Choice):
        raise ValueError(f"{text!r} was not answered: {choice.reason}")
    return choice


def answer_from_evidence(question: QuestionRecord, evidence: TableEvidence, caption: str) -> Choice:
    """The choice from the selected cells and the caption."""
    table_id = evidence.question.table_id
    cells = [((f"r{row}c{column}"), "cell", text) for (row, column), text in evidence.cells.items()]
    if caption:
        cells.append((CAPTION, CAPTION, caption))
    items = tuple(EvidenceItem(locator, kind, table_id, locator, text) for locator, kind, text in cells)
    options = question.options if question.task == "table_qa" else question.labels
    return choose(question.text, question.task, question.labels, options, items)


def is_answered_rightly(question: QuestionRecord, evidence: TableEvidence, caption: str) -> bool:
    """Whether the gold label is chosen from the selected cells and the caption."""
    return answer_from_evidence(question, evidence, caption).answer in question.gold


def to_question(record: QuestionRecord) -> Question:
    """The question as selectors get it."""
    return Question(
        record.question_id, record.benchmark, record.task, record.text, record.options, record.table_id or ""
    )
