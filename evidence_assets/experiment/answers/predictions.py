"""From evidence to predictions, whoever answers, and to counterfactuals: answers from a part of the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import polars as pl

from evidence_assets.experiment.answers.chains import LINEAGE
from evidence_assets.experiment.evidence.selection import Question
from evidence_assets.experiment.rows import TASKS_PER_BATCH, RowWriter
from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import GENERATED, USED, WAS_SHOWN
from evidence_assets.reasoning.tasks import Reasoner, ReplyCost

FactRequest = tuple[str, tuple[str, ...]]
"""A question, and the facts (content hashes of evidence) that it is answered from."""
CitedRow = tuple[str, str]
"""Id and content hash of a row of evidence that an answer rests on."""


class CounterfactualCase(NamedTuple):
    """One answered question: all facts of its evidence in their order, and those that the answer cites."""

    question_id: str
    evidence: tuple[str, ...]
    cited: tuple[str, ...]

    @property
    def subsets(self) -> list[tuple[str, ...]]:
        """The facts to answer from: all, all but the cited, the cited alone, and all but each cited one."""
        if not self.cited:
            return []
        return [
            self.evidence,
            tuple(fact for fact in self.evidence if fact not in self.cited),
            tuple(fact for fact in self.evidence if fact in self.cited),
            *(tuple(fact for fact in self.evidence if fact != left_out) for left_out in self.cited),
        ]


@dataclass(frozen=True)
class UsedRow:
    """A row that an answer was read from, with the version that was read; what it weighs stands in the row itself."""

    kind: str
    id: str
    version: str
    rank: int


@dataclass(frozen=True)
class Answer:
    """The answer to one question; ``ranked`` are options or nodes, with ``probabilities`` where they are known."""

    answer: str | None
    status: str
    supported_answers: tuple[str, ...] = ()
    ranked_answers: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()
    confidence: float | None = None
    error: str | None = None
    used_rows: tuple[UsedRow, ...] = ()
    reply: ReplyCost | None = None
    """What a language model replied, where one was asked for this answer itself."""
    given_rows: tuple[UsedRow, ...] = ()
    """All rows that the answerer was given; of those that are not ``used`` nothing was made."""

    @classmethod
    def failed(cls, reason: str, used: tuple[UsedRow, ...] = (), reply: ReplyCost | None = None) -> Answer:
        """No answer, and why."""
        return cls(None, "failed", error=reason, used_rows=used, reply=reply)


class Answerer(Reasoner, Protocol):
    """Answers questions from their evidence."""

    def input_of(self, question: Question) -> str:
        """Hash of everything besides the answerer that decides the answer."""
        ...

    def answer(self, questions: Sequence[Question]) -> Iterable[Answer]:
        """One answer a question, in order."""
        ...


@runtime_checkable
class CounterfactualAnswerer(Answerer, Protocol):
    """Answers again from a part of the evidence.

    Evidence is taken away by what it says, so that a fact that was picked for several options leaves all of them.
    """

    def case(self, prediction: Mapping[str, Any]) -> tuple[CounterfactualCase, list[CitedRow]]:
        """All facts of a question and those that its answer rests on, with the rows that state the latter."""
        ...

    def facts_input_hash(self, case: CounterfactualCase) -> str:
        """Hash of everything that an answer from all of the facts depends on."""
        ...

    def answer_from_facts(self, requests: Sequence[FactRequest]) -> list[str]:
        """The answer to each question from these facts alone, or the status in place of one."""
        ...


def prediction_rows(
    answerer: Answerer, selector: str, questions: Sequence[Question], before: PreviousOutput | None = None
) -> StageOutput:
    """One answer a question; what was answered before from the same input is taken over."""
    by_id = {content_id("prediction", q.question_id, selector, answerer.name, answerer.model_id): q for q in questions}
    inputs = {
        prediction_id: content_id(
            question.question_id, answerer.name, answerer.version, answerer.input_of(question), LINEAGE
        )
        for prediction_id, question in by_id.items()
    }
    writer = RowWriter("predictions", before, inputs, "prediction_id")
    batches = (writer.todo[start : start + TASKS_PER_BATCH] for start in range(0, len(writer.todo), TASKS_PER_BATCH))
    answers = (answer for batch in batches for answer in answerer.answer([by_id[each] for each in batch]))
    for prediction_id, answer in zip(writer.todo, answers, strict=True):
        question = by_id[prediction_id]
        said = (
            answer.answer,
            answer.ranked_answers,
            answer.probabilities,
            answer.supported_answers,
            answer.status,
            answer.error,
        )
        writer.add(
            ReplyCost.columns(answer.reply),
            answer,
            question,
            prediction_id=prediction_id,
            selector=selector,
            reasoner=answerer.name,
            model_id=answerer.model_id,
            ranked_answers=list(answer.ranked_answers),
            probabilities=list(answer.probabilities) or None,
            supported_answers=list(answer.supported_answers),
            content_hash=content_id("prediction", *said),
        )
        writer.link(prediction_id, USED, "question", question.question_id, question.question_id)
        used = {(row.kind, row.id) for row in answer.used_rows}
        for row in answer.used_rows:
            writer.link(prediction_id, USED, row.kind, row.id, row.version, row.rank)
        for row in answer.given_rows:
            if (row.kind, row.id) not in used:
                writer.link(prediction_id, WAS_SHOWN, row.kind, row.id, row.version, row.rank)
        if answer.reply:
            writer.link(prediction_id, GENERATED, "model", answer.reply.model, answer.reply.model)
        writer.checkpoint()
    notes: dict[str, Any] = getattr(answerer, "notes", {})
    return writer.finish(**notes)


def counterfactual_rows(
    answerer: CounterfactualAnswerer, predictions: pl.DataFrame, before: PreviousOutput | None = None
) -> StageOutput:
    """One row an answered question: what is said without the evidence that it cites, and from that alone.

    For an answer a = A(E) from all evidence E that cites C ⊆ E: necessary if A(E ∖ C) ≠ a, sufficient if A(C) = a, and
    c ∈ C is needed by itself if A(E ∖ {c}) ≠ a. An abstention is an answer like any other; where nothing is cited there
    is no verdict.
    """
    answered = predictions.filter((pl.col("status") == "answered") & pl.col("answer").is_not_null()).sort("question_id")
    by_question = {row["question_id"]: row for row in answered.iter_rows(named=True)}
    cases = {question_id: answerer.case(row) for question_id, row in by_question.items()}
    inputs = {
        question_id: content_id(row["content_hash"], answerer.facts_input_hash(case), case.cited, answerer.version)
        for question_id, row in by_question.items()
        for case, _ in (cases[question_id],)
    }
    writer = RowWriter("counterfactuals", before, inputs, "question_id")
    requests = list(dict.fromkeys((each, facts) for each in writer.todo for facts in cases[each][0].subsets))
    answers = dict(zip(requests, answerer.answer_from_facts(requests) if requests else (), strict=True))
    for question_id in writer.todo:
        row, (case, cited) = by_question[question_id], cases[question_id]
        said: list[str | None] = [answers[question_id, facts] for facts in case.subsets]
        original, without, alone, *each = said or [None] * 3
        outcome = {
            "answer": row["answer"],
            "cited": list(case.cited),
            "without_cited": without,
            "only_cited": alone,
            "necessary": without != original if said else None,
            "sufficient": alone == original if said else None,
            "needed": [fact for fact, answer in zip(case.cited, each, strict=True) if answer != original],
        }
        identifier = content_id("counterfactual", row["prediction_id"])
        content = content_id("counterfactual", outcome)
        writer.add(outcome, row, counterfactual_id=identifier, content_hash=content)
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


def case_from_rows(
    question_id: str, rows: Iterable[CitedRow], cited: Iterable[str]
) -> tuple[CounterfactualCase, list[CitedRow]]:
    """The case of an answer from these rows of evidence that rests on those whose ids are ``cited``."""
    stated = dict(rows)
    resting = [(evidence_id, stated[evidence_id]) for evidence_id in cited]
    facts, resting_facts = (tuple(dict.fromkeys(found)) for found in (stated.values(), (fact for _, fact in resting)))
    return CounterfactualCase(question_id, facts, resting_facts), resting


def evidence_by_question(evidence: pl.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """Rows of evidence by question, best first."""
    return dict(evidence.sort("question_id", "rank").rows_by_key("question_id", named=True, include_key=True))


def as_used_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[UsedRow]:
    """Rows of evidence as what an answer was read from, in their order."""
    for rank, row in enumerate(rows, 1):
        yield UsedRow("evidence", row["evidence_id"], row["content_hash"], rank)
