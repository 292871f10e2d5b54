"""Calls of the solver on a whole table, as the assets make them."""

from collections.abc import Sequence
from dataclasses import dataclass

from evidence_assets.benchmarks.records import CLAIM_LABELS
from evidence_assets.extractive.tables.claims import explain_claim
from evidence_assets.extractive.tables.questions import explain_option
from evidence_assets.extractive.tables.solver import TableSolver
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.tables.table import TableChain, TableView
from evidence_assets.reasoning.tasks import Chain, ChainStep, Choice, ChooseAnswer, EvidenceItem
from evidence_assets_tests.reasoning.small_questions import make_question


@dataclass(frozen=True)
class SolverAnswer:
    """The choice of the solver, and its chains with cell locations."""

    choice: Choice
    chains: tuple[TableChain, ...]

    @property
    def answer(self) -> str:
        assert self.choice.answer is not None
        return self.choice.answer

    @property
    def status(self) -> str:
        return self.choice.status

    @property
    def supported(self) -> tuple[str, ...]:
        return self.choice.supported

    def chain(self, label: str) -> TableChain:
        return next(chain for chain in self.chains if chain.hypothesis == label)


def _solve(view: TableView, question: Question, chains: tuple[TableChain, ...]) -> SolverAnswer:
    grid = {(i, j): cell.plain for i, row in enumerate(view.grid) for j, cell in enumerate(row) if cell.plain}
    cells = tuple(EvidenceItem(f"r{i}c{j}", "cell", "t", f"r{i}c{j}", cell_text) for (i, j), cell_text in grid.items())
    task_chains = tuple(
        Chain(
            chain.hypothesis,
            tuple(
                ChainStep(s.text, tuple(f"r{i}c{j}" for i, j in s.cells), tuple(map(view.text_at, s.cells)))
                for s in chain.steps
            ),
            chain.support,
        )
        for chain in chains
        if chain.hypothesis in question.labels
    )
    (choice,) = TableSolver().choose([ChooseAnswer(question, task_chains, dict.fromkeys(question.labels, cells))])
    assert isinstance(choice, Choice)
    return SolverAnswer(choice, chains)


def verify_claim(view: TableView, claim: str, labels: Sequence[str] = CLAIM_LABELS) -> SolverAnswer:
    return _solve(view, make_question(claim, *labels, task="verification"), explain_claim(view, claim))


def answer_choice(view: TableView, text: str, options: Sequence[str], *, negated: bool = False) -> SolverAnswer:
    question = make_question(text, *options, task="table_qa", negated=negated)
    return _solve(view, question, tuple(explain_option(view, text, *pair) for pair in question.hypotheses))
