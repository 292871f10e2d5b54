"""Short answers from evidence rows: triples, tasks and the answerer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from evidence_assets.experiment.answers.chains import omission_column
from evidence_assets.experiment.answers.predictions import Answer, as_used_rows, evidence_by_question
from evidence_assets.experiment.evidence.selection import is_sourced, selection_details
from evidence_assets.experiment.stored_rows import EvidenceRow
from evidence_assets.lake.ids import content_id
from evidence_assets.reasoning.confidence import logit
from evidence_assets.reasoning.model_calls import find_cut
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.short_answers import ShortAnswer, ShortAnswerSolver, ShortFact, ShortTask
from evidence_assets.reasoning.statements import TEXT_KINDS
from evidence_assets.reasoning.tasks import EvidenceItem, Failure, Omission


def triple_of(row: EvidenceRow) -> tuple[str, str, str] | None:
    """Head, relation and tail of an evidence row; None if it is not a triple."""
    triple = selection_details(row).get("triple")
    if row["kind"] != "triple" or not isinstance(triple, list) or len(triple) != 3:
        return None
    return str(triple[0]), str(triple[1]), str(triple[2])


def build_short_task(question: Question, rows: Sequence[EvidenceRow]) -> ShortTask:
    """Build the task of a solver from evidence rows in rank order."""
    facts = []
    texts = []
    for row in rows:
        triple = triple_of(row)
        if triple is not None:
            facts.append(ShortFact(row["evidence_id"], *triple, row["text"], is_sourced(row)))
        elif row["kind"] in TEXT_KINDS:
            details = selection_details(row)
            context = (0.0, str(details.get("title", "")), str(details.get("referent", "")))
            item = (row["evidence_id"], row["kind"], row["source_id"], row["locator"], row["text"])
            texts.append(EvidenceItem(*item, *context))
    return ShortTask(question, tuple(facts), tuple(texts))


def _signals(answer: ShortAnswer, task: ShortTask) -> dict[str, float]:
    """Signals of a short answer; the share of a path of facts is ``path_share``, as its scale is another."""
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
        rows = self._evidence.get(question.question_id, [])
        return content_id(
            question.text,
            [(row["evidence_id"], row["content_hash"], row["why"]) for row in rows],
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
        rows = {row["evidence_id"]: row for row in self._evidence.get(question.question_id, [])}
        return Answer(
            result.answer,
            result.status,
            tuple(result.supported),
            confidence=result.confidence,
            signals=_signals(result, task) if result.answer else {},
            used_rows=tuple(as_used_rows(rows[evidence_id] for evidence_id in result.evidence_ids)),
            reply=result.reply,
            given_rows=tuple(as_used_rows(rows.values())),
            omissions=omissions,
        )
