"""Predictions from evidence, and counterfactual answers from parts of that evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

import polars as pl

from evidence_assets.experiment.answers.chains import LINEAGE_VERSION, omission_column, step_column
from evidence_assets.experiment.question_rows import is_asked_about_table
from evidence_assets.experiment.rows import TASKS_PER_BATCH, RowWriter, batches
from evidence_assets.experiment.rules_first import RULES_MODEL_ID, RulesFirst
from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.experiment.stored_rows import PredictionRow, typed_rows
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import GENERATED, USED, WAS_SHOWN
from evidence_assets.reasoning.confidence import (
    ASKED_TABLES,
    RAW_SHARE,
    Fit,
    Fits,
    Signals,
    confidence_family,
    find_fit,
    packaged_fits,
)
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.tasks import STATED_STATUS, ChainStep, EvidenceItem, Omission, Reasoner, ReplyCost

AnswerAgain = Callable[[Mapping[str, frozenset[str]]], Mapping[str, str]]
"""Answers each question from only these facts (content hashes of evidence rows); the status if there is no answer."""
ANSWERED_STATUSES = ("answered", "ambiguous", STATED_STATUS)
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
    steps: tuple[ChainStep, ...] = ()
    """Its sentences, where they are not the evidence's own words."""

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
    all_fits = packaged_fits() if fits is None else fits
    fit_of = {key: _find_fit(question, all_fits, answerer) for key, question in by_id.items()}
    inputs = {key: _hash_inputs(answerer, question, fit_of[key]) for key, question in by_id.items()}
    writer = RowWriter("predictions", previous, inputs, "prediction_id")
    question_batches = ([by_id[each] for each in batch] for batch in batches(writer.todo, TASKS_PER_BATCH))
    answers = chain.from_iterable(map(answerer.answer, question_batches))
    for prediction_id, answer in zip(writer.todo, answers, strict=True):
        question = by_id[prediction_id]
        confidence, basis = _calibrate(answer, fit_of[prediction_id])
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
            omissions=omission_column(answer.omissions),
            steps=step_column(answer.steps) or None,
            content_hash=_hash_answer(answer),
        )
        _link_prediction(writer, prediction_id, question, answer)
        writer.checkpoint()
    notes: dict[str, object] = getattr(answerer, "notes", {})
    return writer.finish(**notes)


def _hash_inputs(answerer: Answerer, question: Question, fit: Fit | None) -> str:
    """Hash of everything that determines a prediction."""
    basis = fit.fit_id if fit else RAW_SHARE
    inputs = answerer.input_hash(question)
    return content_id(question.question_id, answerer.name, answerer.version, inputs, LINEAGE_VERSION, basis)


def _find_fit(question: Question, fits: Fits, answerer: Answerer) -> Fit | None:
    """The fit of the confidence in answers of a model, or of rules before it, to questions of this kind."""
    if is_asked_about_table(question):
        model_id = RULES_MODEL_ID if answerer.name == RulesFirst.name else answerer.model_id
        return find_fit(fits, ASKED_TABLES, model_id)
    return find_fit(fits, confidence_family(question.task, question.options), answerer.model_id)


def _hash_answer(answer: Answer) -> str:
    """Hash of what an answer says, without its confidence."""
    content = (
        answer.answer,
        answer.ranked_answers,
        answer.probabilities,
        answer.supported_answers,
        answer.status,
        answer.error,
        *(omission_column(answer.omissions) or ()),
        *step_column(answer.steps),
    )
    return content_id("prediction", *content)


def _link_prediction(writer: RowWriter, prediction_id: str, question: Question, answer: Answer) -> None:
    """Lineage of a prediction: its question, the rows that it used or was shown, and its model."""
    writer.link(prediction_id, USED, "question", question.question_id, question.question_id)
    used_keys = {(row.kind, row.id) for row in answer.used_rows}
    for row in answer.used_rows:
        writer.link(prediction_id, USED, row.kind, row.id, row.version, row.rank)
    for row in answer.given_rows:
        if (row.kind, row.id) not in used_keys:
            writer.link(prediction_id, WAS_SHOWN, row.kind, row.id, row.version, row.rank)
    if answer.reply:
        writer.link(prediction_id, GENERATED, "model", answer.reply.model, answer.reply.model)


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
    by_question = {row["question_id"]: row for row in typed_rows(answered.sort("question_id"), PredictionRow)}
    facts = _facts_by_question(evidence, by_question)
    cited = {q: {each: of[each] for each in cited_ids.get(q, ()) if each in of} for q, of in facts.items()}
    inputs = {
        question_id: content_id(row["content_hash"], [*facts[question_id].values()], [*cited[question_id]], version)
        for question_id, row in by_question.items()
    }
    writer = RowWriter("counterfactuals", previous, inputs, "question_id")
    only = {question_id: frozenset(cited[question_id].values()) for question_id in writer.todo if cited[question_id]}
    without = {question_id: frozenset(facts[question_id].values()) - part for question_id, part in only.items()}
    answers_without = answer_again(without) if without else {}
    answers_from_only = answer_again(only) if only else {}
    for question_id in writer.todo:
        row = by_question[question_id]
        outcome = _compare_answers(
            row["answer"], cited[question_id], answers_without.get(question_id), answers_from_only.get(question_id)
        )
        _add_counterfactual(writer, row, outcome, cited[question_id])
    output = writer.finish()
    output.metadata = _summarize_counterfactuals(pl.DataFrame(output.rows))
    return output


def _add_counterfactual(
    writer: RowWriter, prediction: PredictionRow, outcome: Mapping[str, object], cited: Mapping[str, str]
) -> None:
    """Write the counterfactual of a prediction with its lineage."""
    identifier = content_id("counterfactual", prediction["prediction_id"])
    writer.add(outcome, prediction, counterfactual_id=identifier, content_hash=content_id("counterfactual", outcome))
    writer.link(identifier, USED, "prediction", prediction["prediction_id"], prediction["content_hash"])
    for rank, (evidence_id, content_hash) in enumerate(cited.items(), 1):
        writer.link(identifier, USED, "evidence", evidence_id, content_hash, rank)


def _compare_answers(
    answer: str | None, cited: Mapping[str, str], without_cited: str | None, only_cited: str | None
) -> dict[str, object]:
    """The columns of a counterfactual: whether the cited evidence is necessary and sufficient for the answer."""
    return {
        "answer": answer,
        "cited": list(dict.fromkeys(cited.values())),
        "without_cited": without_cited,
        "only_cited": only_cited,
        "necessary": without_cited != answer if cited else None,
        "sufficient": only_cited == answer if cited else None,
    }


def _summarize_counterfactuals(rows: pl.DataFrame) -> dict[str, object]:
    """Metadata: answers that cite, and the shares that need their citations and that these suffice for."""
    citing_rows = rows.filter(pl.col("necessary").is_not_null())
    return {
        "answers_that_cite": citing_rows.height,
        "necessity": citing_rows["necessary"].mean(),
        "sufficiency": citing_rows["sufficient"].mean(),
    }


def _facts_by_question(evidence: pl.DataFrame, question_ids: Iterable[str]) -> dict[str, dict[str, str]]:
    """The content of the evidence of each question by evidence id, by option and rank."""
    columns = evidence.sort("question_id", "option", "rank").select("question_id", "evidence_id", "content_hash")
    pairs = columns.rows_by_key("question_id")
    return {question_id: dict(pairs.get(question_id, ())) for question_id in question_ids}


def as_used_rows(items: Iterable[EvidenceItem]) -> Iterator[UsedRow]:
    """Evidence as the used rows of an answer, in order."""
    for rank, item in enumerate(items, 1):
        yield UsedRow("evidence", item.evidence_id, item.content_hash, rank)
