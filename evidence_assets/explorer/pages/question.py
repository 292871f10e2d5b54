"""One question with the answers of all variants side by side, and the evidence drawn as what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evidence_assets.benchmarks.records import option_labels
from evidence_assets.explorer.answers import AnswerRows, Place, Row, places_of, question_answers, stands
from evidence_assets.explorer.drawing import Path as Drawn
from evidence_assets.explorer.drawing import grid_of, marked, path_picture
from evidence_assets.explorer.open_lake import Reader
from evidence_assets.explorer.pages import Missing, Page
from evidence_assets.explorer.path_reading import reasons, walked, why_of
from evidence_assets.explorer.reading import says
from evidence_assets.lake.catalogue import need
from evidence_assets.lake.places import rows_with_ids
from evidence_assets.reasoning.tasks import OF_A_TABLE

DETAILED = 12
"""Rows of evidence of one answer that are drawn; the rest is listed below, folded."""


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
    need(reader.connection, "kg_edges", "kg_nodes")
    right = {
        r["prediction_id"]: r["is_right"]
        for r in reader.answers("SELECT prediction_id, is_right FROM answers WHERE question_id = $id", id=question_id)
    }
    evidence = {e["evidence_id"]: e for rows in answers for e in rows.evidence}
    places = places_of(reader.connection, evidence.values())
    drawn = _drawings(reader, list(evidence.values()))
    labels = option_labels(row["task"], row["options"])
    values = {
        "question": row,
        "options": list(zip(labels, row["options"], strict=True)),
        "answers": [_answer(rows, places, drawn, right.get(rows.prediction["prediction_id"])) for rows in answers],
        "benchmark": row["benchmark"],
    }
    return Page("question.html", row["text"], values)


def _answer(
    rows: AnswerRows, places: Mapping[str, Place], drawn: Mapping[str, dict[str, Any]], right: bool | None
) -> dict[str, Any]:
    prediction = rows.prediction
    probabilities = dict(zip(prediction["ranked_answers"], prediction["probabilities"] or (), strict=False))
    support = {chain["hypothesis"]: chain["support"] for chain in rows.chains}
    items: list[dict[str, Any]] = [
        {
            "row": e,
            "number": rows.numbers[e["evidence_id"]],
            "used": e["evidence_id"] in rows.used,
            "place": places[e["evidence_id"]],
        }
        | drawn.get(e["evidence_id"], {})
        for e in sorted(
            rows.evidence,
            key=lambda e: (e["evidence_id"] not in rows.used, e["option"] != prediction["answer"], e["rank"]),
        )
    ]
    tables = {e["source_id"] for e in rows.evidence if e["kind"] in OF_A_TABLE}
    grids = [
        grid_of(
            drawn[f"table {table}"]["table"],
            [e for e in rows.evidence if e["source_id"] == table and e["kind"] in OF_A_TABLE],
            rows.used,
            rows.numbers,
            {(c["evidence_id"], c["quoted"]) for c in rows.citations if c["verdict"] == "verified"},
        )
        for table in sorted(tables)
        if f"table {table}" in drawn
    ]
    items = [item for item in items if item["row"]["kind"] not in OF_A_TABLE]
    return {
        "rows": rows,
        "says": says(rows),
        "right": right,
        "probabilities": probabilities,
        "support": support,
        "chains": [_chain(rows, chain) for chain in rows.chains],
        "stands": stands(rows.counterfactual),
        "counterfactual": rows.counterfactual,
        "items": items[:DETAILED],
        "more": items[DETAILED:],
        "grids": grids,
        "shown": len(rows.evidence),
        "used": len(rows.used),
    }


def _chain(rows: AnswerRows, chain: Row) -> dict[str, Any]:
    own = [c for c in rows.citations if c["chain_id"] == chain["chain_id"]]
    numbers = rows.numbers
    steps = [
        {"text": step["text"], "cites": [c | {"number": numbers.get(c["evidence_id"])} for c in own if c["step"] == n]}
        for n, step in enumerate(chain["steps"])
    ]
    return {"chain": chain, "steps": steps, "chosen": chain["hypothesis"] == rows.prediction["answer"]}


def _drawings(reader: Reader, evidence: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """By row of evidence: its chunk with the sentence marked, its path as a picture, its reasons; tables by their id."""
    connection, made = reader.connection, dict[str, dict[str, Any]]()
    chunks = sorted({e["source_id"] for e in evidence if e["source_kind"] == "chunk"})
    if chunks:
        need(connection, "chunks")
        texts = dict(rows_with_ids(connection, 'SELECT chunk_id, "text" FROM chunks WHERE chunk_id IN ($ids)', chunks))
    walks = walked(connection, [e["locator"] for e in evidence if e["kind"] == "path"])
    for e in evidence:
        why = why_of(e["why"])
        if e["source_kind"] == "chunk" and e["source_id"] in texts:
            made[e["evidence_id"]] = {"marked": marked(texts[e["source_id"]], e["locator"]), "why": why}
        elif e["kind"] == "path" and walks[e["locator"]]:
            drawn: Drawn = path_picture(walks[e["locator"]], why)
            made[e["evidence_id"]] = {"picture": drawn, "reasons": reasons(e["why"], walks[e["locator"]])}
        else:
            made[e["evidence_id"]] = {"why": why}
    for table in sorted({e["source_id"] for e in evidence if e["source_kind"] == "table"}):
        rows = reader.rows("SELECT * FROM tables WHERE table_id = $id LIMIT 1", ["tables"], id=table)
        if rows:
            made[f"table {table}"] = {"table": rows[0]}
    return made
