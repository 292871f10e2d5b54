"""Questions and claims answered from cells of a table by the extractive solver, as the assets answer them."""

from __future__ import annotations

from evidence_assets.benchmarks.records import QuestionRecord
from evidence_assets.experiment.question_rows import hide_gold
from evidence_assets.extractive.tables.solver import TableSolver
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.tasks import CAPTION, Chain, Choice, ChooseAnswer, EvidenceItem, ExplainOption
from evidence_assets.systems.ucret.system import TableEvidence

SOLVER = TableSolver()


def choose(question: Question, cells: tuple[EvidenceItem, ...]) -> Choice:
    """Explain each option, then choose one."""
    explained = SOLVER.explain([ExplainOption(question, label, cells) for label in question.labels])
    chains = tuple(chain for chain in explained if isinstance(chain, Chain))
    [choice] = SOLVER.choose([ChooseAnswer(question, chains, dict.fromkeys(question.labels, cells))])
    if not isinstance(choice, Choice):
        raise ValueError(f"{question.text!r} was not answered: {choice.reason}")
    return choice


def answer_from_evidence(record: QuestionRecord, evidence: TableEvidence, caption: str) -> Choice:
    """The choice from the selected cells and the caption."""
    table_id = evidence.question.table_id
    cells = [((f"r{row}c{column}"), "cell", text) for (row, column), text in evidence.cells.items()]
    if caption:
        cells.append((CAPTION, CAPTION, caption))
    items = tuple(EvidenceItem(locator, kind, table_id, locator, text) for locator, kind, text in cells)
    return choose(hide_gold(record), items)


def is_answered_rightly(question: QuestionRecord, evidence: TableEvidence, caption: str) -> bool:
    """Whether the gold label is chosen from the selected cells and the caption."""
    return answer_from_evidence(question, evidence, caption).answer in question.gold
