"""How each kind of system answers again from a part of its evidence: chains, short answers, ranked nodes.

Belongs here: what an answer rests on, and how facts are taken from the system that gave it. What is asked, and what the
answers then mean, is the same for all of them (`experiment.counterfactuals`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from evidence_assets.experiment.answering import evidence_items, for_option
from evidence_assets.experiment.counterfactuals import CitedRow, Request
from evidence_assets.experiment.necessity import Case
from evidence_assets.experiment.selection import Asked
from evidence_assets.experiment.short_answering import short_task
from evidence_assets.lake.ids import content_id
from evidence_assets.reasoning.short_answers import ShortAnswerSolver
from evidence_assets.reasoning.tasks import Chain, ChooseAnswer, EvidenceItem, ExplainOption, Failure, Solver


class ChainsAgain:
    """A solver that explains every option and chooses one.

    An answer rests on what its chain cites; the exception among the options, on what the chains of all of them cite.
    """

    def __init__(
        self, solver: Solver, questions: Sequence[Asked], evidence: pl.DataFrame, chains: pl.DataFrame
    ) -> None:
        self._solver, self._evidence = solver, evidence_items(evidence)
        self._questions = {q.question_id: q for q in questions}
        self._chains: dict[str, list[dict[str, Any]]] = {}
        for row in chains.sort("question_id", "hypothesis").iter_rows(named=True):
            self._chains.setdefault(row["question_id"], []).append(row)
        self.version = content_id(solver.name, solver.model_id, solver.version)

    def case(self, prediction: dict[str, Any]) -> tuple[Case, list[CitedRow]]:
        """See :class:`AskedAgain`."""
        question = self._questions[prediction["question_id"]]
        items = [
            item for label, _ in question.hypotheses for item in for_option(self._evidence, question.question_id, label)
        ]
        by_id = {item.evidence_id: item for item in items}
        cited = [
            by_id[identifier]
            for row in self._chains.get(question.question_id, [])
            if question.negated or row["hypothesis"] == prediction["answer"]
            for step in row["steps"]
            for identifier in step["cited"]
            if identifier in by_id
        ]
        facts = tuple(dict.fromkeys(item.content_hash for item in items))
        case = Case(question.question_id, facts, tuple(dict.fromkeys(item.content_hash for item in cited)))
        return case, [(item.evidence_id, item.content_hash) for item in cited]

    def input_of(self, case: Case) -> str:
        """See :class:`AskedAgain`."""
        tasks = self._tasks((case.question_id, case.evidence))
        return content_id([(task.input_hash, self._solver.task_version(task)) for task in tasks])

    def __call__(self, requests: Sequence[Request]) -> list[str]:
        tasks = [self._tasks(request) for request in requests]
        distinct = {task.input_hash: task for group in tasks for task in group}
        chains = dict(zip(distinct, self._solver.explain(list(distinct.values())), strict=True))
        choices = []
        for (question_id, _), group in zip(requests, tasks, strict=True):
            question, made = self._questions[question_id], [chains[task.input_hash] for task in group]
            choices.append(
                ChooseAnswer(
                    question.text,
                    question.labels,
                    question.options,
                    tuple(chain for chain in made if isinstance(chain, Chain)),
                    {task.hypothesis: task.evidence for task in group},
                    question.task,
                    question.negated,
                )
            )
        return [
            "failed" if isinstance(choice, Failure) else choice.answer or choice.status
            for choice in self._solver.choose(choices)
        ]

    def _tasks(self, request: Request) -> list[ExplainOption]:
        """What the solver is asked to explain of a question, from these facts."""
        question_id, kept = request
        question, stay = self._questions[question_id], set(kept)
        found: list[ExplainOption] = []
        for label, option in question.hypotheses:
            items: tuple[EvidenceItem, ...] = tuple(
                e for e in for_option(self._evidence, question_id, label) if e.content_hash in stay
            )
            found.append(ExplainOption(question.text, label, option, items, question.task, question.negated))
        return found


def evidence_by_question(evidence: pl.DataFrame) -> dict[str, list[dict[str, Any]]]:
    own: dict[str, list[dict[str, Any]]] = {}
    for row in evidence.sort("question_id", "rank").iter_rows(named=True):
        own.setdefault(row["question_id"], []).append(row)
    return own


class ShortAnswersAgain:
    """A solver that answers in a few words; an answer rests on the evidence that its prediction's lineage names."""

    def __init__(
        self, solver: ShortAnswerSolver, questions: Sequence[Asked], evidence: pl.DataFrame, lineage: pl.DataFrame
    ) -> None:
        self._solver, self._evidence = solver, evidence_by_question(evidence)
        self._questions = {q.question_id: q for q in questions}
        self._used: dict[str, set[str]] = {}
        for row in lineage.filter(pl.col("parent_kind") == "evidence").iter_rows(named=True):
            self._used.setdefault(row["child_id"], set()).add(row["parent_id"])
        self.version = content_id(solver.name, solver.model_id, solver.version)

    def case(self, prediction: dict[str, Any]) -> tuple[Case, list[CitedRow]]:
        """See :class:`AskedAgain`."""
        rows = self._evidence.get(prediction["question_id"], [])
        used = self._used.get(prediction["prediction_id"], set())
        return case_of(prediction["question_id"], rows, [row for row in rows if row["evidence_id"] in used])

    def input_of(self, case: Case) -> str:
        """See :class:`AskedAgain`."""
        rows = self._evidence.get(case.question_id, [])
        return content_id(self._questions[case.question_id].text, [(r["evidence_id"], r["why"]) for r in rows])

    def __call__(self, requests: Sequence[Request]) -> list[str]:
        tasks = []
        for question_id, kept in requests:
            stay = set(kept)
            rows = [row for row in self._evidence.get(question_id, []) if row["content_hash"] in stay]
            tasks.append(short_task(self._questions[question_id], rows))
        return [
            "failed" if isinstance(found, Failure) else found.answer or found.status
            for found in self._solver.answer(tasks)
        ]


def case_of(
    question_id: str, rows: Sequence[Mapping[str, Any]], cited: Sequence[Mapping[str, Any]]
) -> tuple[Case, list[CitedRow]]:
    facts = tuple(dict.fromkeys(row["content_hash"] for row in rows))
    resting = tuple(dict.fromkeys(row["content_hash"] for row in cited))
    return Case(question_id, facts, resting), [(row["evidence_id"], row["content_hash"]) for row in cited]
