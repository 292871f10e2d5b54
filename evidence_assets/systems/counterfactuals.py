"""Would an answer stand without the evidence it cites, and does that evidence alone give it?

Belongs here: asking a solver again with less evidence, and the rows of what it then says. What necessary and sufficient
mean stands in `methods.counterfactual`. Evidence is taken away by what it says, so that a fact that was picked for
several options leaves all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import USED, edge
from evidence_assets.methods.counterfactual import Case, check_batch
from evidence_assets.reasoning.tasks import Chain, ChooseAnswer, EvidenceItem, ExplainOption, Failure, Solver
from evidence_assets.systems.answering import evidence_items, for_option
from evidence_assets.systems.selection import Asked, Rows, take_over

VERSION = "1"

Evidence = dict[tuple[str, str], tuple[EvidenceItem, ...]]
Request = tuple[str, tuple[str, ...]]


class Again:
    """Answers questions with a part of their evidence; remembers what it said."""

    def __init__(self, solver: Solver, questions: Sequence[Asked], evidence: Evidence) -> None:
        self._solver, self._evidence = solver, evidence
        self._questions = {q.question_id: q for q in questions}
        self.said: dict[Request, str] = {}

    def __call__(self, requests: Sequence[Request]) -> list[str]:
        """The answer to each question with the evidence of these content hashes alone, or the status instead of one."""
        tasks = [self.tasks(*request) for request in requests]
        distinct = {task.input_hash: task for group in tasks for task in group}
        chains = dict(zip(distinct, self._solver.explain(list(distinct.values())) if distinct else [], strict=True))
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
        answers = []
        for request, choice in zip(requests, self._solver.choose(choices) if choices else [], strict=True):
            answers.append("failed" if isinstance(choice, Failure) else choice.answer or choice.status)
            self.said[request] = answers[-1]
        return answers

    def tasks(self, question_id: str, kept: tuple[str, ...]) -> list[ExplainOption]:
        """What the solver is asked to explain of a question, with the evidence of these content hashes."""
        question, stay = self._questions[question_id], set(kept)
        return [
            ExplainOption(
                question.text,
                label,
                option,
                tuple(e for e in for_option(self._evidence, question_id, label) if e.content_hash in stay),
                question.task,
                question.negated,
            )
            for label, option in question.hypotheses
        ]


def _case(question: Asked, answer: str, chains: pl.DataFrame, evidence: Evidence) -> tuple[Case, list[EvidenceItem]]:
    """All facts of a question and those that its answer rests on, with the rows that state the latter.

    An answer rests on what its chain cites; the exception among the options, on what the chains of all of them cite.
    """
    items = [item for label, _ in question.hypotheses for item in for_option(evidence, question.question_id, label)]
    by_id = {item.evidence_id: item for item in items}
    cited = [
        by_id[identifier]
        for row in chains.sort("hypothesis").iter_rows(named=True)
        if question.negated or row["hypothesis"] == answer
        for step in row["steps"]
        for identifier in step["cited"]
        if identifier in by_id
    ]
    facts = tuple(dict.fromkeys(item.content_hash for item in items))
    return Case(question.question_id, facts, tuple(dict.fromkeys(item.content_hash for item in cited))), cited


def counterfactual_rows(
    solver: Solver,
    questions: Sequence[Asked],
    evidence: pl.DataFrame,
    chains: pl.DataFrame,
    predictions: pl.DataFrame,
    previous: pl.DataFrame,
    lineage: pl.DataFrame,
) -> Rows:
    """One row an answered question; what was asked before in the same way is taken over."""
    items, by_question = evidence_items(evidence), {q.question_id: q for q in questions}
    again = Again(solver, questions, items)
    chains_of = {str(key[0]): group for key, group in chains.group_by("question_id")}
    answered = predictions.filter((pl.col("status") == "answered") & pl.col("answer").is_not_null()).sort("question_id")
    cases: dict[str, tuple[Case, list[EvidenceItem]]] = {}
    wanted: dict[str, str] = {}
    for row in answered.iter_rows(named=True):
        key = row["question_id"]
        case, _ = cases[key] = _case(by_question[key], row["answer"], chains_of.get(key, chains.clear()), items)
        asked = [(task.input_hash, solver.task_version(task)) for task in again.tasks(key, case.evidence)]
        wanted[key] = content_id(
            VERSION, row["content_hash"], asked, case.cited, solver.name, solver.model_id, solver.version
        )
    made, settled = take_over(previous, lineage, wanted, by="question_id", row_id="counterfactual_id")
    todo = [row for row in answered.iter_rows(named=True) if row["question_id"] not in settled]
    verdicts = check_batch(again, [cases[row["question_id"]][0] for row in todo])
    for row, verdict in zip(todo, verdicts, strict=True):
        key, (case, cited) = row["question_id"], cases[row["question_id"]]
        rest = tuple(fact for fact in case.evidence if fact not in set(case.cited))
        alone = tuple(fact for fact in case.evidence if fact in set(case.cited))
        found = {
            "answer": row["answer"],
            "cited": list(case.cited),
            "without_cited": again.said[key, rest] if case.cited else None,
            "only_cited": again.said[key, alone] if case.cited else None,
            "necessary": verdict.necessary,
            "sufficient": verdict.sufficient,
            "needed": [fact for fact, needed in verdict.needed.items() if needed],
        }
        identifier = content_id("counterfactual", row["prediction_id"])
        made.rows.append(
            {
                "counterfactual_id": identifier,
                **{name: row[name] for name in ("prediction_id", "question_id", "benchmark", "selector", "reasoner", "model_id")},
                **found,
                "content_hash": content_id("counterfactual", found),
                "input_hash": wanted[key],
            }
        )  # fmt: skip
        made.lineage.append(
            edge("counterfactual", identifier, USED, "prediction", row["prediction_id"], row["content_hash"])
        )
        made.lineage += [
            edge("counterfactual", identifier, USED, "evidence", item.evidence_id, item.content_hash, rank)
            for rank, item in enumerate({item.evidence_id: item for item in cited}.values(), 1)
        ]
    citing = [row for row in made.rows if row["necessary"] is not None]
    made.metadata = {
        "answers_that_cite": len(citing),
        "necessity": sum(row["necessary"] for row in citing) / len(citing) if citing else None,
        "sufficiency": sum(row["sufficient"] for row in citing) / len(citing) if citing else None,
    }
    return made
