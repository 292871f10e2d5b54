"""Pages of one question, of filtered predictions, and of search results."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

from evidence_assets.explorer.answer_view import view_answers
from evidence_assets.explorer.answers import read_question_answers
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.origins import edges_of, list_origins, read_edge_seeds
from evidence_assets.explorer.pages import PER_PAGE, NotFound, Page, Pager, Query, link

FILTERS = {
    "benchmark": "a.benchmark = $benchmark",
    "variant": "a.variant = $variant",
    "model": "a.model_id = $model",
    "status": "a.status = $status",
    "right": "CASE WHEN a.is_right THEN 'right' WHEN NOT a.is_right THEN 'wrong' ELSE 'unknown' END = $right",
    "differs": "EXISTS (FROM all_answers o WHERE o.question_id = a.question_id AND o.variant = $differs "
    "AND o.answer IS DISTINCT FROM a.answer)",
}
"""Conditions of the filters, by their name in the query string."""
STATUSES = ("answered", "stated", "ambiguous", "insufficient", "failed")
MATCHES_PER_KIND = 20
"""Maximum search results of each kind."""
MAX_QUESTIONS = 2_000
"""Maximum questions in a paged list."""
ORDER = "coalesce(is_right, true), confidence DESC NULLS LAST, prediction_id"
"""Confident wrong predictions first."""
MATCHES = f"""
    WITH matches AS (
        SELECT *, row_number() OVER (PARTITION BY question_id ORDER BY {ORDER}) AS place
        FROM all_answers a WHERE {{condition}}
    ), listed AS (
        SELECT question_id, row_number() OVER (ORDER BY {ORDER}) AS position FROM matches WHERE place = 1
        ORDER BY position LIMIT {{limit}} OFFSET {{offset}}
    )
    SELECT m.*, q.text, q.task, q.options, q.gold FROM listed l JOIN matches m USING (question_id)
    LEFT JOIN all_questions q USING (question_id) ORDER BY l.position, m.place
"""
"""The matching predictions of the questions of one page."""
SEARCHES = {
    "Questions": ("question", "SELECT question_id, text, benchmark FROM all_questions", "text"),
    "Documents": (
        "source/chunk",
        "SELECT chunk_id, coalesce(title, doc_id), text FROM chunks",
        "concat_ws(' ', title, text)",
    ),
    "Tables": ("source/table", "SELECT table_id, caption, benchmark FROM tables", "concat_ws(' ', caption, table_id)"),
    "Entities": ("source/node", "SELECT DISTINCT node_id, name, type FROM kg_nodes", "name"),
}
"""Address, SQL of id, title and description, and searched text of each kind of search results."""


def question(reader: LakeReader, query: Query, question_id: str) -> Page:
    """One question with the predictions of all variants and their evidence."""
    answer_rows = reader.rows(
        "SELECT file, prediction_id, is_right FROM all_questions LEFT JOIN all_answers USING (question_id) "
        "WHERE question_id = $id",
        id=question_id,
    )
    if not answer_rows:
        raise NotFound(f"The lake has no question {question_id!r}.")
    partition = Path(answer_rows[0]["file"]).relative_to(reader.root / "questions")
    row, answers = read_question_answers(reader.connection, question_id, Path(*partition.parts[1:]).as_posix())
    assert row is not None
    answers.sort(key=lambda rows: (rows.variant != query.get("variant", ""), rows.variant))
    views = view_answers(reader.connection, answers)
    edges = {edge for view in views for item in view.items for edge in edges_of(item)}
    seeds = read_edge_seeds(reader, sorted(edges))
    values = {
        "question": row,
        "answers": views,
        "origins": {view.prediction["prediction_id"]: list_origins(view, seeds) for view in views},
        "right": {r["prediction_id"]: r["is_right"] for r in answer_rows},
    }
    return Page("question.html", row["text"], values)


def questions(reader: LakeReader, query: Query) -> Page:
    """Questions with predictions that match the filters, those with confident wrong ones first."""
    filters = {name: query.get(name, "") for name in FILTERS}
    parameters = {name: value for name, value in filters.items() if value}
    condition = " AND ".join(["true", *(FILTERS[name] for name in parameters)])
    [count] = reader.rows(
        f"SELECT count(*) AS n, count(DISTINCT question_id) AS questions FROM all_answers a WHERE {condition}",
        **parameters,
    )
    pager = Pager.of(query.get("page", ""), min(count["questions"], MAX_QUESTIONS))
    rows = reader.rows(MATCHES.format(condition=condition, limit=PER_PAGE, offset=pager.offset), **parameters)
    groups = [list(matches) for _, matches in groupby(rows, key=lambda row: row["question_id"])]
    names = reader.rows("SELECT DISTINCT benchmark, variant, model_id FROM all_answers ORDER BY ALL")
    variants = sorted({row["variant"] for row in names})
    choices = {
        "benchmark": sorted({row["benchmark"] for row in names}),
        "variant": variants,
        "model": sorted({row["model_id"] for row in names}),
        "status": STATUSES,
        "right": ("right", "wrong", "unknown"),
        "differs": variants,
    }
    values = {"groups": groups, "pager": pager, "count": count, "max_questions": MAX_QUESTIONS}
    return Page("questions.html", "Questions", values | {"filters": filters, "choices": choices})


def search(reader: LakeReader, query: Query) -> Page:
    """Questions, documents, tables and entities that contain the words."""
    words = " ".join(query.get("q", "").split())[:200]
    results: dict[str, list[Any]] = {}
    if words:
        for heading, (address, select, text) in SEARCHES.items():
            sql = f"{select} WHERE contains(lower({text}), lower($words)) LIMIT {MATCHES_PER_KIND}"
            rows = reader.connection.execute(sql, {"words": words}).fetchall()
            results[heading] = [(link(*address.split("/"), key), title, about) for key, title, about in rows]
    return Page("search.html", f"Search: {words}" if words else "Search", {"words": words, "results": results})
