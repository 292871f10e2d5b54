"""Short answers from evidence rows: triples, tasks and the answerer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from evidence_assets.experiment.answers.chains import omission_column
from evidence_assets.experiment.answers.predictions import Answer, as_used_rows
from evidence_assets.experiment.evidence_rows import evidence_by_question
from evidence_assets.lake.ids import content_id
from evidence_assets.reasoning.confidence import logit
from evidence_assets.reasoning.model_calls import find_cut
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.short_answers import ShortAnswer, ShortAnswerSolver, ShortFact, ShortTask
from evidence_assets.reasoning.statements import TEXT_KINDS
from evidence_assets.reasoning.tasks import STATED_STATUS, EvidenceItem, Failure, Omission


def build_short_task(question: Question, evidence: Sequence[EvidenceItem]) -> ShortTask:
    """Build the task of a solver from evidence in rank order."""
    facts = [
        ShortFact(item.evidence_id, *item.triple, item.text, item.is_sourced)
        for item in evidence
        if item.triple is not None
    ]
    texts = [item for item in evidence if item.kind in TEXT_KINDS]
    return ShortTask(question, tuple(facts), tuple(texts))


def _signals(answer: ShortAnswer, task: ShortTask) -> dict[str, float]:
    """Signals of a short answer; the share of a path of facts is ``path_share``, as its scale is another.

    None of a statement, whose confidence is a fitted probability.
    """
    if answer.status == STATED_STATUS:
        return {}
    is_fact = any(fact.sourced and fact.evidence_id in answer.evidence_ids for fact in task.facts)
    signals = {"answered": float(answer.status == "answered")}
    if answer.confidence is not None:
        signals["path_share" if is_fact else "share"] = round(logit(answer.confidence), 6)
    return signals


class PreparationProblems(NamedTuple):
    """Problems before the answer, by question id: errors, which fail a question, and what its input lacks."""

    errors: Mapping[str, str] = {}
    omissions: Mapping[str, tuple[Omission, ...]] = {}


class ShortAnswerer:
    """A solver that answers in a few words and names the evidence it used.

    ``problems``: Questions with errors become failed rows without a model call.
    """

    def __init__(
        self, solver: ShortAnswerSolver, evidence: pl.DataFrame, problems: PreparationProblems | None = None
    ) -> None:
        self._solver = solver
        self._evidence = evidence_by_question(evidence)
        self._errors, self._omissions = problems or PreparationProblems()
        self.name = solver.name
        self.model_id = solver.model_id
        self.version = solver.version

    def input_hash(self, question: Question) -> str:
        items = self._evidence.get(question.question_id, [])
        return content_id(
            question.text,
            [(item.evidence_id, item.content_hash, item.why) for item in items],
            self._errors.get(question.question_id, ""),
            *(omission_column(self._omissions.get(question.question_id, ())) or ()),
        )

    def answer(self, questions: Sequence[Question]) -> Iterator[Answer]:
        answerable = [q for q in questions if q.question_id not in self._errors]
        tasks = {q.question_id: build_short_task(q, self._evidence.get(q.question_id, [])) for q in answerable}
        results = dict(zip(tasks, self._solver.answer(list(tasks.values())) if tasks else [], strict=True))
        for question in questions:
            omissions = self._omissions.get(question.question_id, ())
            if question.question_id in self._errors:
                yield Answer.failed(self._errors[question.question_id], omissions=omissions)
                continue
            result = results[question.question_id]
            if isinstance(result, Failure):
                yield Answer.failed(result.reason, reply=result.reply, omissions=omissions)
                continue
            omissions = (*omissions, *find_cut(result.reply, "end of the reply"))
            yield self._build_answer(question, tasks[question.question_id], result, omissions)

    def _build_answer(
        self, question: Question, task: ShortTask, result: ShortAnswer, omissions: tuple[Omission, ...]
    ) -> Answer:
        """The answer of the solver with the rows that it used and was given."""
        items = {item.evidence_id: item for item in self._evidence.get(question.question_id, [])}
        return Answer(
            result.answer,
            result.status,
            tuple(result.supported),
            confidence=result.confidence,
            signals=_signals(result, task) if result.answer else {},
            used_rows=tuple(as_used_rows(items[evidence_id] for evidence_id in result.evidence_ids)),
            reply=result.reply,
            given_rows=tuple(as_used_rows(items.values())),
            omissions=omissions,
            steps=result.steps,
        )
