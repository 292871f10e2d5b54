"""Answers in a few words: evidence rows that are triples, the task of answering from them, and who does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from evidence_assets.experiment.answers.predictions import (
    Answer,
    CitedRow,
    CounterfactualCase,
    FactRequest,
    as_used_rows,
    case_from_rows,
    evidence_by_question,
)
from evidence_assets.experiment.evidence.selection import Question, is_sourced, selection_details
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import USED
from evidence_assets.reasoning.extractive import TEXT_KINDS
from evidence_assets.reasoning.short_answers import ShortAnswerSolver, ShortFact, ShortTask
from evidence_assets.reasoning.tasks import EvidenceItem, Failure


def triple_of(row: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Head, relation and tail of an evidence row that is a triple."""
    triple = selection_details(row).get("triple")
    if row["kind"] != "triple" or not isinstance(triple, list) or len(triple) != 3:
        return None
    return str(triple[0]), str(triple[1]), str(triple[2])


def build_short_task(question: Question, rows: Sequence[dict[str, Any]]) -> ShortTask:
    """What a solver is asked, from rows of evidence in the order of their rank."""
    facts, texts = [], []
    for row in rows:
        triple = triple_of(row)
        if triple is not None:
            facts.append(ShortFact(row["evidence_id"], *triple, row["text"], is_sourced(row)))
        elif row["kind"] in TEXT_KINDS:
            texts.append(EvidenceItem(row["evidence_id"], row["kind"], row["source_id"], row["locator"], row["text"]))
    return ShortTask(question.text, tuple(facts), tuple(texts))


class ShortAnswerer:
    """A solver that answers in a few words; an answer rests on the evidence that it says it used.

    ``failed`` says why questions could not be prepared, by question id: they end as failed rows and nothing is asked.
    ``used`` are the lineage edges of predictions made before, for what is asked again.
    """

    def __init__(
        self,
        solver: ShortAnswerSolver,
        questions: Sequence[Question],
        evidence: pl.DataFrame,
        *,
        failed: Mapping[str, str] | None = None,
        used: pl.DataFrame | None = None,
    ) -> None:
        self._solver, self._evidence, self._failed = solver, evidence_by_question(evidence), failed or {}
        self._questions = {q.question_id: q for q in questions}
        self._used: dict[str, set[str]] = {}
        if used is not None:
            for row in used.filter((pl.col("parent_kind") == "evidence") & (pl.col("relation") == USED)).iter_rows(
                named=True
            ):
                self._used.setdefault(row["child_id"], set()).add(row["parent_id"])
        self.name, self.model_id, self.version = solver.name, solver.model_id, solver.version

    def input_of(self, question: Question) -> str:
        rows = self._evidence.get(question.question_id, [])
        return content_id(
            question.text,
            [(row["evidence_id"], row["content_hash"], row["why"]) for row in rows],
            self._failed.get(question.question_id, ""),
        )

    def answer(self, questions: Sequence[Question]) -> Iterator[Answer]:
        ready = [q for q in questions if q.question_id not in self._failed]
        tasks = [build_short_task(q, self._evidence.get(q.question_id, [])) for q in ready]
        results = dict(zip([q.question_id for q in ready], self._solver.answer(tasks) if ready else [], strict=True))
        for question in questions:
            if question.question_id in self._failed:
                yield Answer.failed(self._failed[question.question_id])
                continue
            result = results[question.question_id]
            if isinstance(result, Failure):
                yield Answer.failed(result.reason, reply=result.reply)
                continue
            rows = {row["evidence_id"]: row for row in self._evidence.get(question.question_id, [])}
            used = tuple(as_used_rows(rows[evidence_id] for evidence_id in result.evidence_ids))
            yield Answer(
                result.answer,
                result.status,
                tuple(result.supported),
                confidence=result.confidence,
                used_rows=used,
                reply=result.reply,
                given_rows=tuple(as_used_rows(rows.values())),
            )

    def case(self, prediction: Mapping[str, Any]) -> tuple[CounterfactualCase, list[CitedRow]]:
        rows = self._evidence.get(prediction["question_id"], [])
        used = self._used.get(prediction["prediction_id"], set())
        cited = [row["evidence_id"] for row in rows if row["evidence_id"] in used]
        return case_from_rows(
            prediction["question_id"], [(row["evidence_id"], row["content_hash"]) for row in rows], cited
        )

    def facts_input_hash(self, case: CounterfactualCase) -> str:
        rows = self._evidence.get(case.question_id, [])
        return content_id(self._questions[case.question_id].text, [(r["evidence_id"], r["why"]) for r in rows])

    def answer_from_facts(self, requests: Sequence[FactRequest]) -> list[str]:
        tasks = []
        for question_id, kept in requests:
            stay = set(kept)
            rows = [row for row in self._evidence.get(question_id, []) if row["content_hash"] in stay]
            tasks.append(build_short_task(self._questions[question_id], rows))
        return [
            "failed" if isinstance(result, Failure) else result.answer or result.status
            for result in self._solver.answer(tasks)
        ]
