"""One question with the answers of all variants; lists of questions, filtered; and search."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evidence_assets.explorer.answer_view import view_answers
from evidence_assets.explorer.answers import Row, read_question_answers
from evidence_assets.explorer.lake_reader import PageReader
from evidence_assets.explorer.pages import PER_PAGE, NotFound, Page, Pager

FILTERS = ("benchmark", "variant", "model", "status", "right", "verdict", "differs")
STATUSES = ("answered", "ambiguous", "insufficient", "failed")
VERDICTS = ("verified", "absent", "misquoted")
MATCHES_PER_KIND, MAX_ANSWERS = 20, 2_000
"""Lines of each kind that a search shows, and answers that can be turned over page by page; filters reach the others.
"""


def question(reader: PageReader, asked: Mapping[str, str], question_id: str) -> Page:
    """One question with the answers of all variants side by side, and their evidence."""
    judged = reader.answers(
        "SELECT file, prediction_id, is_right FROM asked LEFT JOIN answers USING (question_id) WHERE question_id = $id",
        id=question_id,
    )
    if not judged:
        raise NotFound(f"there is no question {question_id!r} in the lake")
    partition = Path(judged[0]["file"]).relative_to(reader.lake_reader.root / "questions")
    row, answers = read_question_answers(reader.connection, question_id, Path(*partition.parts[1:]).as_posix())
    assert row is not None
    answers.sort(key=lambda rows: (rows.variant != asked.get("variant", ""), rows.variant))
    values = {
        "question": row,
        "answers": view_answers(reader.connection, answers),
        "right": {r["prediction_id"]: r["is_right"] for r in judged},
    }
    return Page("question.html", row["text"], values)


def questions(reader: PageReader, asked: Mapping[str, str]) -> Page:
    """One line an answer: confident and wrong first, then the rest by confidence."""
    chosen = {name: asked.get(name, "") for name in FILTERS}
    conditions, parameters = ["true"], dict[str, Any]()
    for name, column in (
        ("benchmark", "benchmark"),
        ("variant", "variant"),
        ("model", "model_id"),
        ("status", "status"),
    ):
        if chosen[name]:
            conditions.append(f"a.{column} = ${name}")
            parameters[name] = chosen[name]
    if chosen["right"] in ("right", "wrong", "unknown"):
        conditions.append(
            {"right": "a.is_right", "wrong": "NOT a.is_right", "unknown": "a.is_right IS NULL"}[chosen["right"]]
        )
    join = ""
    if chosen["differs"]:
        join = (
            "JOIN answers o ON o.question_id = a.question_id AND o.variant = $differs AND o.answer IS "
            "DISTINCT FROM a.answer"
        )
        parameters["differs"] = chosen["differs"]
    if chosen["verdict"] in VERDICTS:
        conditions.append("a.question_id || ' ' || a.variant IN (SELECT unnest($cited))")
        parameters["cited"] = _cited_answers(reader, chosen)
    where = f"FROM answers a {join} WHERE {' AND '.join(conditions)}"
    [count] = reader.answers(f"SELECT count(*) AS n {where}", **parameters)
    pager = Pager.of(asked.get("page", ""), min(count["n"], MAX_ANSWERS))
    rows = reader.answers(
        f"SELECT a.* {where} ORDER BY coalesce(a.is_right, true), a.confidence DESC NULLS LAST, a.prediction_id "
        f"LIMIT {PER_PAGE} OFFSET {pager.offset}",
        **parameters,
    )
    values = {
        "rows": _attach_questions(reader, rows),
        "pager": pager,
        "total": count["n"],
        "most": MAX_ANSWERS,
        "chosen": chosen,
        "choices": filter_choices(reader),
    }
    return Page("questions.html", "Questions", values)


def filter_choices(reader: PageReader) -> dict[str, list[str]]:
    """What can be filtered by."""
    lists = reader.answers("SELECT DISTINCT benchmark, variant, model_id FROM answers ORDER BY ALL")
    named = {
        name: sorted({row[column] for row in lists})
        for name, column in (("benchmark", "benchmark"), ("variant", "variant"), ("model", "model_id"))
    }
    return named | {
        "status": list(STATUSES),
        "right": ["right", "wrong", "unknown"],
        "verdict": list(VERDICTS),
        "differs": named["variant"],
    }


def _cited_answers(reader: PageReader, chosen: Mapping[str, str]) -> list[str]:
    """Questions and variants with a citation of this verdict, each as one text."""
    rows = reader.rows(
        """
        SELECT DISTINCT c.question_id || ' ' || replace(ci.asset, 'citations/', '') AS answer
        FROM citations ci JOIN chains c ON c.chain_id = ci.chain_id AND replace(c.asset, 'chains/', '') =
               replace(ci.asset, 'citations/', '')
        WHERE ci.verdict = $verdict AND ($benchmark = '' OR c.benchmark = $benchmark)
        """,
        ["citations", "chains"],
        verdict=chosen["verdict"],
        benchmark=chosen["benchmark"],
    )
    return [row["answer"] for row in rows] or [""]


def _attach_questions(reader: PageReader, rows: list[Row]) -> list[Row]:
    """The rows with their questions, and answers in words."""
    ids = sorted({row["question_id"] for row in rows})
    found = reader.answers(
        "SELECT question_id, text, task, options, gold FROM asked WHERE question_id IN (SELECT unnest($ids))", ids=ids
    )
    texts = {row["question_id"]: row for row in found}
    return [row | {"question": texts.get(row["question_id"])} for row in rows]


def search(reader: PageReader, asked: Mapping[str, str]) -> Page:
    """Questions, answers, sources and entities that hold the words, a few of each."""
    words = " ".join(asked.get("q", "").split())[:200]
    found: dict[str, list[Row]] = {}
    if words:
        low = {"words": words.casefold()}
        found["questions"] = reader.answers(
            f"SELECT question_id, benchmark, text FROM asked WHERE contains(low, $words) LIMIT {MATCHES_PER_KIND}",
            **low,
        )
        said = reader.answers(
            "SELECT prediction_id, question_id, variant, answer FROM answers WHERE length(answer) > 1 "
            f"AND contains(lower(answer), $words) LIMIT {MATCHES_PER_KIND}",
            **low,
        )
        texts = reader.texts([row["question_id"] for row in said])
        found["answers"] = [row | {"text": texts.get(row["question_id"], "")} for row in said]
        found["sources"] = reader.rows(
            f"SELECT chunk_id, title, doc_id, text FROM chunks WHERE contains(lower(title), $words) OR "
            f"contains(lower(text), $words) LIMIT {MATCHES_PER_KIND}",
            ["chunks"],
            **low,
        )
        found["tables"] = reader.rows(
            f"SELECT table_id, caption, benchmark FROM tables WHERE contains(lower(caption), $words) OR "
            f"contains(lower(table_id), $words) LIMIT {MATCHES_PER_KIND}",
            ["tables"],
            **low,
        )
        found["entities"] = reader.rows(
            "SELECT DISTINCT ON (node_id) node_id, name, type FROM kg_nodes WHERE contains(lower(name), $words) "
            f"ORDER BY node_id LIMIT {MATCHES_PER_KIND}",
            ["kg_nodes"],
            **low,
        )
    return Page("search.html", f"Search: {words}" if words else "Search", {"words": words, "found": found})
