"""From retrieved triples to predictions of short answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from evidence_assets.experiment.selection import Asked, Rows, take_over
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import USED, edge
from evidence_assets.reasoning.short_answers import Fact, ShortAnswer, ShortAnswerSolver, ShortTask
from evidence_assets.reasoning.tasks import Failure

MODEL_KNOWLEDGE = "model"
"""What ``why.origin`` of an evidence row says where no source but a language model states the fact."""


def is_sourced(row: Mapping[str, Any]) -> bool:
    """Whether an evidence row comes from a source, not from what a language model recalled."""
    return bool(_why(row).get("origin") != MODEL_KNOWLEDGE)


def triple_of(row: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Head, relation and tail of an evidence row that is a triple."""
    triple = _why(row).get("triple")
    if row["kind"] != "triple" or not isinstance(triple, list) or len(triple) != 3:
        return None
    return str(triple[0]), str(triple[1]), str(triple[2])


def _why(row: Mapping[str, Any]) -> dict[str, Any]:
    value = json.loads(row["why"]) if row["why"] else {}
    return value if isinstance(value, dict) else {}


def short_answer_rows(
    solver: ShortAnswerSolver,
    selector: str,
    questions: Sequence[Asked],
    evidence: pl.DataFrame,
    previous: pl.DataFrame,
    lineage: pl.DataFrame,
    failed: Mapping[str, str] | None = None,
) -> Rows:
    """One prediction a question.

    ``failed`` says why questions could not be prepared, by question id: they end as failed rows and nothing is asked.
    """
    failed = failed or {}
    own: dict[str, list[dict[str, Any]]] = {}
    for row in evidence.sort("question_id", "rank").to_dicts():
        own.setdefault(row["question_id"], []).append(row)
    ids = {
        content_id("prediction", q.question_id, selector, solver.name, solver.model_id): q.question_id
        for q in questions
    }
    tasks = {q.question_id: short_task(q, own.get(q.question_id, [])) for q in questions}
    wanted = {
        prediction_id: content_id(
            question_id,
            solver.name,
            solver.version,
            tasks[question_id].question,
            [(row["evidence_id"], row["content_hash"], row["why"]) for row in own.get(question_id, [])],
            failed.get(question_id, ""),
        )
        for prediction_id, question_id in ids.items()
    }
    made, settled = take_over(previous, lineage, wanted, by="prediction_id", row_id="prediction_id")
    todo = [p for p in ids if p not in settled]
    ready = [p for p in todo if ids[p] not in failed]
    answers: dict[str, ShortAnswer | Failure] = {p: Failure(failed[ids[p]]) for p in todo if ids[p] in failed}
    answers |= dict(zip(ready, solver.answer([tasks[ids[p]] for p in ready]) if ready else [], strict=True))
    benchmark = {q.question_id: q.benchmark for q in questions}
    for prediction_id in todo:
        question_id, result = ids[prediction_id], answers[prediction_id]
        answer = ShortAnswer(None, "failed") if isinstance(result, Failure) else result
        error = result.reason if isinstance(result, Failure) else None
        made.rows.append(
            {
                "prediction_id": prediction_id,
                "question_id": question_id,
                "benchmark": benchmark[question_id],
                "selector": selector,
                "reasoner": solver.name,
                "model_id": solver.model_id,
                "answer": answer.answer,
                "ranked_answers": [],
                "supported_answers": list(answer.supported),
                "status": answer.status,
                "confidence": answer.confidence,
                "error": error,
                "content_hash": content_id("prediction", answer.answer, answer.supported, answer.status, error),
                "input_hash": wanted[prediction_id],
            }
        )
        made.lineage.append(edge("prediction", prediction_id, USED, "question", question_id, question_id))
        by_id = {row["evidence_id"]: row for row in own.get(question_id, [])}
        for rank, evidence_id in enumerate(answer.used, 1):
            row = by_id[evidence_id]
            made.lineage.append(
                edge(
                    "prediction", prediction_id, USED, "evidence", evidence_id, row["content_hash"], rank, row["score"]
                )
            )
    counts = {
        s: sum(row["status"] == s for row in made.rows) for s in ("answered", "ambiguous", "insufficient", "failed")
    }
    made.metadata = {f"{s}_share": n / len(made.rows) if made.rows else 0.0 for s, n in counts.items()}
    return made


def short_task(question: Asked, rows: Sequence[dict[str, Any]]) -> ShortTask:
    """What a solver is asked, from rows of evidence in the order of their rank."""
    facts = []
    for row in rows:
        triple = triple_of(row)
        if triple is not None:
            facts.append(Fact(row["evidence_id"], *triple, row["text"], is_sourced(row)))
    return ShortTask(question.text, tuple(facts))
