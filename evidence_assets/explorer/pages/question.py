"""One question with the answers of all variants side by side, and the evidence drawn as what it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evidence_assets.explorer.answer_view import view_answers
from evidence_assets.explorer.answers import question_answers
from evidence_assets.explorer.open_lake import Reader
from evidence_assets.explorer.pages import Missing, Page


def question(reader: Reader, asked: Mapping[str, str], question_id: str) -> Page:
    found = reader.opened.answers("SELECT file FROM asked WHERE question_id = $id LIMIT 1", id=question_id)
    if not found:
        raise Missing(f"there is no question {question_id!r} in the lake")
    partition = Path(found[0]["file"]).relative_to(reader.opened.root / "questions")
    row, answers = question_answers(reader.connection, question_id, Path(*partition.parts[1:]).as_posix())
    for table in ("questions", "predictions", "chains", "evidence", "counterfactuals"):
        reader.note(f"SELECT * FROM {table} WHERE question_id = $id ORDER BY asset", id=question_id)
    reader.note(
        "SELECT ci.* FROM citations ci JOIN chains c USING (chain_id) WHERE c.question_id = $id", id=question_id
    )
    assert row is not None
    answers.sort(key=lambda rows: (rows.variant != asked.get("variant", ""), rows.variant))
    judged = reader.answers("SELECT prediction_id, is_right FROM answers WHERE question_id = $id", id=question_id)
    values = {
        "question": row,
        "answers": view_answers(reader.connection, answers),
        "right": {r["prediction_id"]: r["is_right"] for r in judged},
    }
    return Page("question.html", row["text"], values)
