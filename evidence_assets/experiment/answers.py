"""From evidence to predictions, whoever answers, and to what is answered from a part of the evidence.

Belongs here: what every answerer gives, the writers of predictions and of counterfactuals (``necessity``), and the
answerer that most systems share, a solver that weighs options. Who answers in a few words is in ``short_answering``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from evidence_assets.experiment.chains import (
    LINEAGE,
    chain_of,
    choose_task,
    evidence_items,
    for_option,
    kept_of,
    option_task,
)
from evidence_assets.experiment.necessity import Case, check_batch
from evidence_assets.experiment.rows import TOGETHER, RowWriter
from evidence_assets.experiment.scores.metrics import probabilities
from evidence_assets.experiment.selection import Asked
from evidence_assets.experiment.step import Before, Made
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import GENERATED, SHOWN, USED
from evidence_assets.reasoning.tasks import (
    Chain,
    Choice,
    ChooseAnswer,
    EvidenceItem,
    ExplainOption,
    Failure,
    Reasoner,
    Reply,
    Solver,
)

Request = tuple[str, tuple[str, ...]]
"""A question, and the facts (content hashes of evidence) that it is answered from."""
CitedRow = tuple[str, str]
"""Id and content hash of a row of evidence that an answer rests on."""


@dataclass(frozen=True)
class UsedRow:
    """A row that an answer was read from, with the version that was read; what it weighs stands in the row itself."""

    kind: str
    id: str
    version: str
    rank: int


@dataclass(frozen=True)
class Answer:
    """What is answered to one question; ``ranked`` are options or nodes, with ``probabilities`` where they are known."""

    answer: str | None
    status: str
    supported: tuple[str, ...] = ()
    ranked: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()
    confidence: float | None = None
    error: str | None = None
    used: tuple[UsedRow, ...] = ()
    reply: Reply | None = None
    """What a language model replied, where one was asked for this answer itself."""
    shown: tuple[UsedRow, ...] = ()
    """All rows that the answerer was given; of those that are not ``used`` nothing was made."""

    @classmethod
    def failed(cls, reason: str, used: tuple[UsedRow, ...] = (), reply: Reply | None = None) -> Answer:
        """No answer, and why."""
        return cls(None, "failed", error=reason, used=used, reply=reply)


class Answerer(Reasoner, Protocol):
    """Answers questions from their evidence, and again from a part of it.

    Evidence is taken away by what it says, so that a fact that was picked for several options leaves all of them.
    """

    def input_of(self, question: Asked) -> str:
        """Hash of everything besides the answerer that decides the answer."""
        ...

    def answer(self, questions: Sequence[Asked]) -> Iterable[Answer]:
        """One answer a question, in order."""
        ...

    def case(self, prediction: Mapping[str, Any]) -> tuple[Case, list[CitedRow]]:
        """All facts of a question and those that its answer rests on, with the rows that state the latter."""
        ...

    def input_again(self, case: Case) -> str:
        """Hash of everything that an answer from all of the facts depends on."""
        ...

    def again(self, requests: Sequence[Request]) -> list[str]:
        """The answer to each question from these facts alone, or the status in place of one."""
        ...


def prediction_rows(
    answerer: Answerer, selector: str, questions: Sequence[Asked], before: Before | None = None
) -> Made:
    """One answer a question; what was answered before from the same input is taken over."""
    by_id = {content_id("prediction", q.question_id, selector, answerer.name, answerer.model_id): q for q in questions}
    inputs = {
        prediction_id: content_id(
            question.question_id, answerer.name, answerer.version, answerer.input_of(question), LINEAGE
        )
        for prediction_id, question in by_id.items()
    }
    writer = RowWriter("predictions", before, inputs, "prediction_id")
    answers = (
        answer
        for start in range(0, len(writer.todo), TOGETHER)
        for answer in answerer.answer([by_id[prediction_id] for prediction_id in writer.todo[start : start + TOGETHER]])
    )
    for prediction_id, said in zip(writer.todo, answers, strict=True):
        question = by_id[prediction_id]
        writer.add(
            {
                "prediction_id": prediction_id,
                "question_id": question.question_id,
                "benchmark": question.benchmark,
                "selector": selector,
                "reasoner": answerer.name,
                "model_id": answerer.model_id,
                "answer": said.answer,
                "ranked_answers": list(said.ranked),
                "probabilities": list(said.probabilities) or None,
                "supported_answers": list(said.supported),
                "status": said.status,
                "confidence": said.confidence,
                "error": said.error,
                **Reply.columns(said.reply),
                "content_hash": content_id(
                    "prediction", said.answer, said.ranked, said.probabilities, said.supported, said.status, said.error
                ),
            }
        )
        writer.link(prediction_id, USED, "question", question.question_id, question.question_id)
        for row in said.used:
            writer.link(prediction_id, USED, row.kind, row.id, row.version, row.rank)
        used = {(row.kind, row.id) for row in said.used}
        for row in said.shown:
            if (row.kind, row.id) not in used:
                writer.link(prediction_id, SHOWN, row.kind, row.id, row.version, row.rank)
        if said.reply:
            writer.link(prediction_id, GENERATED, "model", said.reply.model, said.reply.model)
        writer.settle()
    notes: dict[str, Any] = getattr(answerer, "notes", {})  # what some answerers have to say besides
    return writer.finish(**notes)


def counterfactual_rows(answerer: Answerer, predictions: pl.DataFrame, before: Before | None = None) -> Made:
    """One row an answered question: what is said without the evidence that it cites, and from that alone."""
    answered = predictions.filter((pl.col("status") == "answered") & pl.col("answer").is_not_null()).sort("question_id")
    by_question = {row["question_id"]: row for row in answered.iter_rows(named=True)}
    cases = {question_id: answerer.case(row) for question_id, row in by_question.items()}
    inputs = {
        question_id: content_id(row["content_hash"], answerer.input_again(case), case.cited, answerer.version)
        for question_id, row in by_question.items()
        for case, _ in (cases[question_id],)
    }
    writer = RowWriter("counterfactuals", before, inputs, "question_id")
    verdicts = check_batch(
        lambda requests: answerer.again(requests) if requests else [], [cases[each][0] for each in writer.todo]
    )
    for question_id, verdict in zip(writer.todo, verdicts, strict=True):
        row, (case, cited) = by_question[question_id], cases[question_id]
        outcome = {
            "answer": row["answer"],
            "cited": list(case.cited),
            "without_cited": verdict.without,
            "only_cited": verdict.alone,
            "necessary": verdict.necessary,
            "sufficient": verdict.sufficient,
            "needed": [fact for fact, needed in verdict.needed.items() if needed],
        }
        identifier = content_id("counterfactual", row["prediction_id"])
        kept = ("prediction_id", "question_id", "benchmark", "selector", "reasoner", "model_id")
        writer.add(
            {
                "counterfactual_id": identifier,
                **{name: row[name] for name in kept},
                **outcome,
                "content_hash": content_id("counterfactual", outcome),
            }
        )
        writer.link(identifier, USED, "prediction", row["prediction_id"], row["content_hash"])
        for rank, (evidence_id, content_hash) in enumerate(dict.fromkeys(cited), 1):
            writer.link(identifier, USED, "evidence", evidence_id, content_hash, rank)
    made = writer.finish()
    citing = pl.DataFrame(made.rows).filter(pl.col("necessary").is_not_null())
    made.metadata = {
        "answers_that_cite": citing.height,
        "necessity": citing["necessary"].mean(),
        "sufficiency": citing["sufficient"].mean(),
    }
    return made


def case_of(question_id: str, rows: Iterable[CitedRow], cited: Iterable[str]) -> tuple[Case, list[CitedRow]]:
    """The case of an answer from these rows of evidence that rests on those whose ids are ``cited``."""
    stated = dict(rows)
    resting = [(evidence_id, stated[evidence_id]) for evidence_id in cited]
    facts, resting_facts = (tuple(dict.fromkeys(found)) for found in (stated.values(), (fact for _, fact in resting)))
    return Case(question_id, facts, resting_facts), resting


def hashes_of(rows: Iterable[Mapping[str, Any]]) -> list[CitedRow]:
    return [(row["evidence_id"], row["content_hash"]) for row in rows]


def evidence_by_question(evidence: pl.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """Rows of evidence by question, best first."""
    return dict(evidence.sort("question_id", "rank").rows_by_key("question_id", named=True, include_key=True))


def used_evidence(rows: Iterable[Mapping[str, Any]]) -> Iterator[UsedRow]:
    """Rows of evidence as what an answer was read from, in their order."""
    for rank, row in enumerate(rows, 1):
        yield UsedRow("evidence", row["evidence_id"], row["content_hash"], rank)


def _supported_answer(choice: Choice) -> str:
    """The answer, or the status in place of one that the evidence does not support."""
    return choice.answer if choice.answer and choice.status != "insufficient" else choice.status


class WeighsOptions:
    """A solver that chooses among options, from the chains of all of them; without chains, from the evidence itself.

    An answer rests on what its chain cites; the exception among the options, on what the chains of all of them cite.
    Probabilities are the softmax of the solver's weights over ``temperature``, rounded to six decimals.
    """

    def __init__(
        self,
        solver: Solver,
        questions: Sequence[Asked],
        evidence: pl.DataFrame,
        chains: pl.DataFrame,
        temperature: float = 1.0,
    ) -> None:
        self._solver, self._evidence, self._temperature = solver, evidence_items(evidence), temperature
        self._questions = {q.question_id: q for q in questions}
        ordered = chains.sort("question_id", "hypothesis")
        self._chains = ordered.rows_by_key("question_id", named=True, include_key=True)
        self.name, self.model_id = solver.name, solver.model_id
        self.version = f"{solver.version}-{temperature}"

    def _chains_of(self, question: Asked) -> list[dict[str, Any]]:
        return self._chains.get(question.question_id, [])

    def _task(self, question: Asked) -> ChooseAnswer:
        chains = tuple(chain_of(row) for row in self._chains_of(question) if row["status"] != "failed")
        evidence = {label: for_option(self._evidence, question.question_id, label) for label in question.labels}
        return choose_task(question, chains, evidence)

    def input_of(self, question: Asked) -> str:
        """The chains, or without any the evidence with its scores."""
        if chains := self._chains_of(question):
            return content_id([(row["chain_id"], row["content_hash"], row["status"]) for row in chains])
        return content_id([(item.content_hash, item.score) for item in self._weighed(question)])

    def answer(self, questions: Sequence[Asked]) -> Iterator[Answer]:
        for question, choice in zip(questions, self._solver.choose([self._task(q) for q in questions]), strict=True):
            used = tuple(
                UsedRow("chain", row["chain_id"], row["content_hash"], rank)
                for rank, row in enumerate(self._chains_of(question), 1)
            ) or tuple(
                UsedRow("evidence", item.evidence_id, item.content_hash, rank)
                for rank, item in enumerate(self._weighed(question), 1)
            )
            if isinstance(choice, Failure):
                yield Answer.failed(choice.reason, used, choice.reply)
            else:
                known = probabilities(choice.weights, self._temperature) if choice.weights else {}
                shares = {label: round(p, 6) for label, p in known.items()}
                confidence = shares[choice.answer] if choice.answer and shares else choice.confidence
                yield Answer(
                    choice.answer,
                    choice.status,
                    tuple(choice.supported),
                    tuple(shares),
                    tuple(shares.values()),
                    confidence,
                    choice.error or None,
                    used,
                    choice.reply,
                )

    def _weighed(self, question: Asked) -> list[EvidenceItem]:
        """The evidence of a question without chains, each row once, in its order."""
        items = (for_option(self._evidence, question.question_id, label) for label in question.labels)
        return list({item.evidence_id: item for group in items for item in group}.values())

    def case(self, prediction: Mapping[str, Any]) -> tuple[Case, list[CitedRow]]:
        question = self._questions[prediction["question_id"]]
        items = [
            item for label, _ in question.hypotheses for item in for_option(self._evidence, question.question_id, label)
        ]
        stated = {item.evidence_id: item.content_hash for item in items}
        cited = [
            identifier
            for row in self._chains_of(question)
            if question.negated or row["hypothesis"] == prediction["answer"]
            for step in row["steps"]
            for identifier in step["cited"]
            if identifier in stated
        ]
        return case_of(question.question_id, stated.items(), cited)

    def input_again(self, case: Case) -> str:
        tasks = self._tasks((case.question_id, case.evidence))
        return content_id([(task.input_hash, self._solver.version) for task in tasks])

    def again(self, requests: Sequence[Request]) -> list[str]:
        """Every option is explained anew, and one chosen."""
        tasks = [self._tasks(request) for request in requests]
        distinct = {task.input_hash: task for group in tasks for task in group}
        chains = dict(zip(distinct, self._solver.explain(list(distinct.values())), strict=True))
        choices = []
        for (question_id, _), group in zip(requests, tasks, strict=True):
            results = tuple(c for task in group if isinstance(c := chains[task.input_hash], Chain))
            evidence = {task.hypothesis: task.evidence for task in group}
            choices.append(choose_task(self._questions[question_id], results, evidence))
        return [
            "failed" if isinstance(choice, Failure) else _supported_answer(choice)
            for choice in self._solver.choose(choices)
        ]

    def _tasks(self, request: Request) -> list[ExplainOption]:
        """What the solver is asked to explain of a question, from these facts."""
        question_id, kept = request
        question, stay = self._questions[question_id], set(kept)
        return [
            option_task(question, label, option, kept_of(for_option(self._evidence, question_id, label), stay))
            for label, option in question.hypotheses
        ]
