"""Predictions from evidence, and counterfactual answers from parts of that evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

import polars as pl

from evidence_assets.benchmarks.records import ASKED_BENCHMARK
from evidence_assets.experiment.answers.chains import LINEAGE_VERSION, omission_column
from evidence_assets.experiment.evidence.selection import Question
from evidence_assets.experiment.rows import TASKS_PER_BATCH, RowWriter, batches
from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.experiment.stored_rows import EvidenceRow, rows_by_question
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import GENERATED, USED, WAS_SHOWN
from evidence_assets.reasoning.confidence import (
    ASKED_TABLES,
    RAW_SHARE,
    Fit,
    Fits,
    Signals,
    confidence_family,
    packaged_fits,
)
from evidence_assets.reasoning.tasks import Omission, Reasoner, ReplyCost

AnswerAgain = Callable[[Mapping[str, frozenset[str]]], Mapping[str, str]]
"""Answers each question from only these facts (content hashes of evidence rows); the status if there is no answer."""
ANSWERED_STATUSES = ("answered", "ambiguous")
"""Statuses of answers that evidence supports."""


@dataclass(frozen=True)
class UsedRow:
    """A row that an answer was derived from, with its version."""

    kind: str
    id: str
    version: str
    rank: int


@dataclass(frozen=True)
class Answer:
    """The answer to one question; ``ranked_answers`` are options or nodes, best first."""

    answer: str | None
    status: str
    supported_answers: tuple[str, ...] = ()
    ranked_answers: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()
    confidence: float | None = None
    """The reasoner's own share or probability; null without one."""
    signals: Signals = field(default_factory=dict)
    """Signals that the probability of the answer is computed from."""
    error: str | None = None
    used_rows: tuple[UsedRow, ...] = ()
    reply: ReplyCost | None = None
    """Reply cost, if a language model gave this answer."""
    given_rows: tuple[UsedRow, ...] = ()
    """All rows in the input of the answerer, whether used or not."""
    omissions: tuple[Omission, ...] = ()
    """What the answer lacks."""

    @classmethod
    def failed(
        cls,
        reason: str,
        used_rows: tuple[UsedRow, ...] = (),
        reply: ReplyCost | None = None,
        omissions: tuple[Omission, ...] = (),
    ) -> Answer:
        return cls(None, "failed", error=reason, used_rows=used_rows, reply=reply, omissions=omissions)


class Answerer(Reasoner, Protocol):
    """Answers questions from evidence."""

    def input_hash(self, question: Question) -> str:
        """Hash of everything except the answerer that determines the answer."""
        ...

    def answer(self, questions: Sequence[Question]) -> Iterable[Answer]:
        """One answer per question, in order."""
        ...


def prediction_rows(
    answerer: Answerer,
    selector: str,
    questions: Sequence[Question],
    previous: PreviousOutput | None = None,
    fits: Fits | None = None,
) -> StageOutput:
    """One prediction per question; predictions with unchanged inputs are reused.

    ``fits``: Confidence by family and model; the packaged ones by default.
    """
    by_id = {content_id("prediction", q.question_id, selector, answerer.name, answerer.model_id): q for q in questions}
    fits = packaged_fits() if fits is None else fits

    def find_fit(question: Question) -> Fit | None:
        is_asked = (question.benchmark, question.task) == (ASKED_BENCHMARK, "table_qa")
        family = ASKED_TABLES if is_asked else confidence_family(question.task, question.options)
        return fits.get((family, answerer.model_id))

    inputs = {
        prediction_id: content_id(
            question.question_id,
            answerer.name,
            answerer.version,
            answerer.input_hash(question),
            LINEAGE_VERSION,
            fit.fit_id if (fit := find_fit(question)) else RAW_SHARE,
        )
        for prediction_id, question in by_id.items()
    }
    writer = RowWriter("predictions", previous, inputs, "prediction_id")
    question_batches = ([by_id[each] for each in batch] for batch in batches(writer.todo, TASKS_PER_BATCH))
    answers = chain.from_iterable(map(answerer.answer, question_batches))
    for prediction_id, answer in zip(writer.todo, answers, strict=True):
        question, omissions = by_id[prediction_id], omission_column(answer.omissions)
        confidence, basis = _calibrate(answer, find_fit(question))
        content = (
            answer.answer,
            answer.ranked_answers,
            answer.probabilities,
            answer.supported_answers,
            answer.status,
            answer.error,
            *(omissions or ()),
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
            confidence=confidence,
            confidence_basis=basis,
            signals=[{"name": n, "value": v} for n, v in sorted(answer.signals.items())] or None,
            supported_answers=list(answer.supported_answers),
            omissions=omissions,
            content_hash=content_id("prediction", *content),
        )
        writer.link(prediction_id, USED, "question", question.question_id, question.question_id)
        used_keys = {(row.kind, row.id) for row in answer.used_rows}
        for row in answer.used_rows:
            writer.link(prediction_id, USED, row.kind, row.id, row.version, row.rank)
        for row in answer.given_rows:
            if (row.kind, row.id) not in used_keys:
                writer.link(prediction_id, WAS_SHOWN, row.kind, row.id, row.version, row.rank)
        if answer.reply:
            writer.link(prediction_id, GENERATED, "model", answer.reply.model, answer.reply.model)
        writer.checkpoint()
    notes: dict[str, object] = getattr(answerer, "notes", {})
    return writer.finish(**notes)


def _calibrate(answer: Answer, fit: Fit | None) -> tuple[float | None, str | None]:
    """The confidence of an answer, and what it is based on."""
    if fit and answer.answer is not None and fit.applies_to(answer.signals):
        return fit.probability(answer.signals), fit.basis
    return answer.confidence, None if answer.confidence is None else RAW_SHARE


def counterfactual_rows(
    predictions: pl.DataFrame,
    evidence: pl.DataFrame,
    cited_ids: Mapping[str, Sequence[str]],
    answer_again: AnswerAgain,
    version: str,
    previous: PreviousOutput | None = None,
) -> StageOutput:
    """One row per answer that evidence supports: the answers without the cited evidence, and from only that.

    For an answer a = A(E) from all evidence E that cites C ⊆ E: necessary if A(E ∖ C) ≠ a, sufficient if A(C) = a. An
    abstention counts as an answer. Without citations there is no verdict.
    Evidence is removed by content: a fact selected for several options is removed from all of them.

    ``cited_ids``: Evidence ids that the answer to each question cites. ``version``: Version of the answerer.
    """
    answered = predictions.filter(pl.col("status").is_in(ANSWERED_STATUSES) & pl.col("answer").is_not_null())
    by_question = {row["question_id"]: row for row in answered.sort("question_id").iter_rows(named=True)}
    columns = evidence.sort("question_id", "option", "rank").select("question_id", "evidence_id", "content_hash")
    hashes = columns.rows_by_key("question_id")
    facts: dict[str, dict[str, str]] = {question_id: dict(hashes.get(question_id, ())) for question_id in by_question}
    cited = {q: {each: of[each] for each in cited_ids.get(q, ()) if each in of} for q, of in facts.items()}
    inputs = {
        question_id: content_id(row["content_hash"], [*facts[question_id].values()], [*cited[question_id]], version)
        for question_id, row in by_question.items()
    }
    writer = RowWriter("counterfactuals", previous, inputs, "question_id")
    only = {question_id: frozenset(cited[question_id].values()) for question_id in writer.todo if cited[question_id]}
    without = {question_id: frozenset(facts[question_id].values()) - part for question_id, part in only.items()}
    answers_without, answers_from_only = (answer_again(parts) if parts else {} for parts in (without, only))
    for question_id in writer.todo:
        row, cited_facts = by_question[question_id], list(dict.fromkeys(cited[question_id].values()))
        without_cited, only_cited = answers_without.get(question_id), answers_from_only.get(question_id)
        outcome = {
            "answer": row["answer"],
            "cited": cited_facts,
            "without_cited": without_cited,
            "only_cited": only_cited,
            "necessary": without_cited != row["answer"] if cited_facts else None,
            "sufficient": only_cited == row["answer"] if cited_facts else None,
        }
        identifier = content_id("counterfactual", row["prediction_id"])
        writer.add(outcome, row, counterfactual_id=identifier, content_hash=content_id("counterfactual", outcome))
        writer.link(identifier, USED, "prediction", row["prediction_id"], row["content_hash"])
        for rank, (evidence_id, content_hash) in enumerate(cited[question_id].items(), 1):
            writer.link(identifier, USED, "evidence", evidence_id, content_hash, rank)
    output = writer.finish()
    citing_rows = pl.DataFrame(output.rows).filter(pl.col("necessary").is_not_null())
    output.metadata = {
        "answers_that_cite": citing_rows.height,
        "necessity": citing_rows["necessary"].mean(),
        "sufficiency": citing_rows["sufficient"].mean(),
    }
    return output


def evidence_by_question(evidence: pl.DataFrame) -> dict[str, list[EvidenceRow]]:
    """Evidence rows by question, best first."""
    return rows_by_question(evidence.sort("question_id", "rank"), EvidenceRow)


def as_used_rows(rows: Iterable[EvidenceRow]) -> Iterator[UsedRow]:
    """Evidence rows as the used rows of an answer, in order."""
    for rank, row in enumerate(rows, 1):
        yield UsedRow("evidence", row["evidence_id"], row["content_hash"], rank)
