"""From ranked nodes to predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from evidence_assets.experiment.selection import Asked, Rows, take_over
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import USED, edge
from evidence_assets.systems.four_step_focus.system import FourStepFocus


def ranking_rows(
    system: FourStepFocus,
    reasoner: str,
    model_id: str,
    questions: Sequence[Asked],
    evidence: pl.DataFrame,
    previous: pl.DataFrame,
    lineage: pl.DataFrame,
) -> Rows:
    """One prediction a question: its nodes best first; supported are those that satisfy the triplets.

    The best one is among what the prediction used, so that its name stands beside its id wherever the answer is traced.
    """
    own: dict[str, list[dict[str, Any]]] = {}
    for row in evidence.sort("question_id", "rank").to_dicts():
        own.setdefault(row["question_id"], []).append(row)
    about = {content_id("prediction", q.question_id, system.name, reasoner, model_id): q for q in questions}
    wanted = {
        prediction_id: content_id(
            q.question_id,
            system.version,
            reasoner,
            model_id,
            [(row["evidence_id"], row["content_hash"]) for row in own.get(q.question_id, [])],
        )
        for prediction_id, q in about.items()
    }
    made, settled = take_over(previous, lineage, wanted, by="prediction_id", row_id="prediction_id")
    todo = [p for p in about if p not in settled]
    notes = 0
    for prediction_id, ranking in zip(todo, system.rank([about[p] for p in todo]), strict=True):
        question = about[prediction_id]
        ranked = [node.node_id for node in ranking.nodes]
        error = ranking.error or None
        notes += bool(ranking.notes)
        made.rows.append(
            {
                "prediction_id": prediction_id,
                "question_id": question.question_id,
                "benchmark": question.benchmark,
                "selector": system.name,
                "reasoner": reasoner,
                "model_id": model_id,
                "answer": ranked[0] if ranked else None,
                "ranked_answers": ranked,
                "supported_answers": list(ranking.supported),
                "status": ranking.status,
                "confidence": None,
                "error": error,
                "content_hash": content_id("prediction", ranked, ranking.supported, ranking.status, error),
                "input_hash": wanted[prediction_id],
            }
        )
        made.lineage.append(
            edge("prediction", prediction_id, USED, "question", question.question_id, question.question_id)
        )
        if ranked:
            made.lineage.append(edge("prediction", prediction_id, USED, "node", ranked[0], ranked[0], 0))
        made.lineage += [
            edge(
                "prediction",
                prediction_id,
                USED,
                "evidence",
                row["evidence_id"],
                row["content_hash"],
                rank,
                row["score"],
            )
            for rank, row in enumerate(own.get(question.question_id, []), 1)
        ]
    failed = sum(row["status"] == "failed" for row in made.rows)
    made.metadata = {
        "failed_share": failed / len(made.rows) if made.rows else 0.0,
        "questions_with_unusable_triplets": notes,
    }
    return made
