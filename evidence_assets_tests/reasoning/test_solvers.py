"""The contract of every solver: one class, inherited by each, with a case that the solver can answer."""

import dataclasses
import json
from pathlib import Path

import pytest

from evidence_assets.extractive.options import ExtractiveSolver, TopScoreSolver
from evidence_assets.extractive.tables.solver import TableSolver
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.citations import check_citations
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.prompted_solver import VERSION, PromptedSolver
from evidence_assets.reasoning.tasks import Chain, Choice, ChooseAnswer, EvidenceItem, ExplainOption, Failure, Solver
from evidence_assets_tests.reasoning.small_questions import make_question
from evidence_assets_tests.systems.small_models import ScriptedGenerator, load_minilm, scripted_solver

TRANSCRIPT = Path(__file__).with_name("prompted_transcript.txt")
"""Version, prompts and results of the prompted solver."""
DRUGS = (
    EvidenceItem("e1", "chunk", "d1", "0", "Aspirin may treat pain. It is sold as tablets.", 0.9),
    EvidenceItem("e2", "triple", "g", "edge", "gold is no remedy for pain", 0.2),
)
CELLS = tuple(
    EvidenceItem(f"c{row}{column}", "cell", "t", f"r{row}c{column}", text, 0.5)
    for row, texts in enumerate((("River", "Length (km)"), ("Rhine", "1230"), ("Elbe", "1094")))
    for column, text in enumerate(texts)
)


class SolverContract:
    """Properties that all solvers must have."""

    question = "What may treat pain?"
    options = ("aspirin", "gold", "paper")
    evidence = DRUGS
    task = "mcqa"
    right = "aspirin"

    def solver(self) -> Solver:
        raise NotImplementedError

    def tasks(self, options: tuple[str, ...] | None = None) -> tuple[list[ExplainOption], ChooseAnswer]:
        question = make_question(self.question, *(options or self.options), task=self.task)
        evidence = {label: self.evidence_of(option) for label, option in question.hypotheses}
        explain = [ExplainOption(question, label, items) for label, items in evidence.items()]
        return explain, ChooseAnswer(question, (), evidence)

    def evidence_of(self, option: str) -> tuple[EvidenceItem, ...]:
        return self.evidence

    def answer(self, options: tuple[str, ...] | None = None) -> tuple[list[Chain], Choice]:
        explain, choose = self.tasks(options)
        solver = self.solver()
        chains = [chain for chain in solver.explain(explain) if isinstance(chain, Chain)]
        assert [chain.hypothesis for chain in chains] == list(choose.question.labels), "one chain a task, in order"
        (choice,) = solver.choose([dataclasses.replace(choose, chains=tuple(chains))])
        assert isinstance(choice, Choice)
        return chains, choice

    def test_it_answers_with_one_of_the_labels(self) -> None:
        chains, choice = self.answer()
        assert choice.status in ("answered", "ambiguous", "insufficient")
        assert not choice.weights or choice.answer == max(choice.weights, key=lambda label: choice.weights[label])
        assert choice.answer is not None and self.options["ABCDE".index(choice.answer)] == self.right
        assert set(choice.supported) <= {chain.hypothesis for chain in chains}
        assert all(chain.support is None or 0 <= chain.support <= 1 for chain in chains)

    def test_it_cites_only_its_evidence_and_verbatim(self) -> None:
        chains, _ = self.answer()
        for chain, task in zip(chains, self.tasks()[0], strict=True):
            assert {citation.verdict for citation in check_citations(chain, task.evidence)} <= {"verified"}

    def test_it_is_deterministic_and_a_task_does_not_depend_on_its_neighbours(self) -> None:
        chains, _ = self.answer()
        assert self.answer() == self.answer()
        alone = [self.solver().explain([task])[0] for task in self.tasks()[0]]
        assert alone == chains

    def test_the_order_of_the_options_is_irrelevant(self) -> None:
        turned = self.options[::-1]
        _, choice = self.answer(turned)
        assert choice.answer is not None and turned["ABCDE".index(choice.answer)] == self.right

    def test_no_tasks_and_no_evidence(self) -> None:
        assert self.solver().explain([]) == self.solver().choose([]) == []
        task = dataclasses.replace(self.tasks()[0][0], evidence=())
        (result,) = self.solver().explain([task])
        assert isinstance(result, Failure) or not [step for step in result.steps if step.cited]


class TestExtractive(SolverContract):
    def solver(self) -> Solver:
        return ExtractiveSolver(load_minilm())


class TestTopScore(SolverContract):
    def solver(self) -> Solver:
        return TopScoreSolver()

    def evidence_of(self, option: str) -> tuple[EvidenceItem, ...]:
        return DRUGS[:1] if option == self.right else DRUGS[1:]

    @pytest.mark.parametrize(
        ("scores", "question", "expected"),
        [
            ((0.1, 0.3, 0.2), "Which one?", ("B", ("B",), "answered")),
            ((0.3, 0.3, 0.2), "Which one?", ("A", ("A", "B"), "ambiguous")),
            ((0.3, 0.1, 0.2), "Which is NOT a fruit?", ("B", ("B",), "answered")),
            ((None, -0.5, None), "Which one?", ("B", ("B",), "answered")),
            ((None, None, None), "Which one?", (None, (), "insufficient")),
        ],
    )
    def test_the_option_with_the_highest_score_is_selected(
        self, scores: tuple[float | None, ...], question: str, expected: tuple[object, ...]
    ) -> None:
        evidence = {
            label: () if score is None else (EvidenceItem(label, "chunk", "s", "", "t", score),)
            for label, score in zip("ABC", scores, strict=True)
        }
        (choice,) = TopScoreSolver().choose([ChooseAnswer(make_question(question, "a", "b", "c"), (), evidence)])
        assert isinstance(choice, Choice)
        assert (choice.answer, choice.supported, choice.status) == expected


class TestTableSolver(SolverContract):
    question, options, right = "Which river is the longest?", ("Elbe", "Rhine"), "Rhine"
    evidence, task = CELLS, "table_qa"

    def solver(self) -> Solver:
        return TableSolver()


class TestPrompted(SolverContract):
    """A model that cites the first evidence and selects the correct option."""

    def reply(self, request: Request) -> str:
        if not request.choices:
            steps = [{"text": "It does.", "evidence": [1], "quotes": ["may treat pain"]}]
            return json.dumps({"steps": steps if "Aspirin" in request.user else []})
        lines = request.user.splitlines()
        return next(lines[i - 1].split()[2] for i, line in enumerate(lines) if line == self.right)

    def solver(self) -> Solver:
        return scripted_solver(self.reply)

    def test_a_changed_output_needs_a_new_version(self) -> None:
        """After an intended change, raise VERSION of ``prompted_solver`` and store the new transcript.

        For a changed template, which has a version of its own, only store the transcript.
        """
        generator = ScriptedGenerator(self.reply)
        solver = PromptedSolver(LanguageModel(generator))
        explain, choose = self.tasks()
        results = [*solver.explain(explain[:1]), *solver.choose([choose])]
        parts = [f"version {VERSION}"]
        for request, result in zip(generator.requests, results, strict=True):
            parts += [request.system, request.user, f"replies: {request.choices or request.json_schema}", repr(result)]
        assert "\n\n".join(parts) + "\n" == TRANSCRIPT.read_text(encoding="utf-8")
