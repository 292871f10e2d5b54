"""Evidence cards: one prediction as one HTML page that needs nothing else, for whoever has to judge an answer.

Shown are the question and its options, the chains with their citations as they were checked, every row of evidence with
its source and why it was picked, and the lineage below the answer. All text is data: it is escaped, and the page
forbids itself scripts and requests.
"""

from __future__ import annotations

from typing import Any

import duckdb

from evidence_assets.benchmarks.records import option_labels
from evidence_assets.explorer.answers import AnswerRows, answer_rows, places_of, stands
from evidence_assets.explorer.drawing import text_of
from evidence_assets.explorer.pages import STATIC, templates
from evidence_assets.explorer.path_reading import reasons, walked, why_of
from evidence_assets.lake import lineage
from evidence_assets.lake.ids import shortened


def card(connection: duckdb.DuckDBPyConnection, prediction: str) -> str:
    """The page of one prediction, named by its id or the beginning of it; ``UnknownId`` where no prediction has it."""
    rows = answer_rows(connection, prediction)
    answer = rows.prediction
    walks = walked(connection, [row["locator"] for row in rows.evidence if row["kind"] == "path"])
    places = places_of(connection, rows.evidence)
    evidence = []
    for row in rows.evidence:
        about = f" for {row['option']}" if row["option"] else ""
        known: dict[str, Any] = {"rank": f"{row['rank']}{about}, score {row['score']:.4g}"}
        if walk := walks.get(row["locator"]):
            known |= reasons(row["why"], walk)
        else:
            place = places[row["evidence_id"]]
            stands_in = f"{row['source_kind']} {row['source_id']}" + (f", {row['locator']}" if row["locator"] else "")
            known |= {
                "stands in": stands_in,
                "source": f"{place.title}: {place.where}",
                "why": why_of(row["why"]) or None,
            }
        evidence.append((row | {"text": text_of(row)}, known | {"evidence": row["evidence_id"]}))
    return (
        templates()
        .get_template("card.html")
        .render(
            question=rows.question,
            answer=answer,
            options=_options(rows),
            chains=rows.chains,
            citations=rows.citations,
            numbers=rows.numbers,
            evidence=evidence,
            about=_about(rows),
            style=(STATIC / "explorer.css").read_text("utf-8"),
            lineage=[_lineage(lineage.trace(connection, answer["prediction_id"]), set())],
        )
    )


def _options(rows: AnswerRows) -> list[tuple[str, str, list[str]]]:
    """Label and text of each option, with what is to be said of it."""
    answer, question = rows.prediction, rows.question or {"task": "", "options": [], "gold": []}
    sure = dict(zip(answer["ranked_answers"], answer["probabilities"] or (), strict=False))
    shown = []
    for label, option in zip(option_labels(question["task"], question["options"]), question["options"], strict=True):
        notes = ["chosen"] * (label == answer["answer"]) + ["gold"] * (label in question["gold"])
        notes += ["supported by evidence"] * (label in answer["supported_answers"])
        shown.append((label, option, notes + ([f"probability {sure[label]:.2f}"] if label in sure else [])))
    return shown


def _about(rows: AnswerRows) -> dict[str, Any]:
    answer, confidence = rows.prediction, rows.prediction["confidence"]
    return {
        "answer": answer["answer"],
        "status": answer["status"],
        "why it failed": answer["error"],
        "ranked answers": ", ".join(answer["ranked_answers"]),
        "gold": ", ".join(rows.question["gold"]) if rows.question else "",
        "confidence": None if confidence is None else f"{confidence:.3f}",
        "asked again": stands(rows.counterfactual),
        "benchmark": answer["benchmark"],
        "selector": answer["selector"],
        "reasoner": f"{answer['reasoner']} ({answer['model_id']})",
        "prediction": answer["prediction_id"],
    }


def _lineage(node: lineage.Node, shown: set[int]) -> dict[str, Any]:
    """A row and what it was made from; what is shown above is only named."""
    said = ", ".join(f"{name}: {value}" for name, value in node.content.items() if value is not None)
    above = id(node.next) in shown
    shown.add(id(node.next))
    return {
        "how": f"{node.relation.replace('_', ' ')} " if node.relation else "",
        "kind": node.kind,
        "id": shortened(node.id),
        "said": said,
        "above": above and node.next,
        "below": [] if above else [_lineage(n, shown) for n in node.next],
    }
