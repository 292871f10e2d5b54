"""Pages of one question, of filtered predictions, and of search results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evidence_assets.explorer.answer_view import view_answers
from evidence_assets.explorer.answers import Row, read_question_answers
from evidence_assets.explorer.lake_reader import PageReader
from evidence_assets.explorer.pages import PER_PAGE, NotFound, Page, Pager

FILTERS = ("benchmark", "variant", "model", "status", "right", "verdict", "differs")
CHOICE_COLUMNS = {"benchmark": "benchmark", "variant": "variant", "model": "model_id"}
STATUSES = ("answered", "ambiguous", "insufficient", "failed")
VERDICTS = ("verified", "absent", "misquoted")
MATCHES_PER_KIND, MAX_ANSWERS = 20, 2_000
"""Maximum search results of each kind, and maximum predictions in a paged list."""


def question(reader: PageReader, query: Mapping[str, str], question_id: str) -> Page:
    """One question with the predictions of all variants and their evidence."""
    answer_rows = reader.answers(
        "SELECT file, prediction_id, is_right FROM all_questions LEFT JOIN answers USING (question_id) "
        "WHERE question_id = $id",
        id=question_id,
    )
    if not answer_rows:
        raise NotFound(f"The lake has no question {question_id!r}.")
    partition = Path(answer_rows[0]["file"]).relative_to(reader.lake_reader.root / "questions")
    row, answers = read_question_answers(reader.connection, question_id, Path(*partition.parts[1:]).as_posix())
    assert row is not None
    answers.sort(key=lambda rows: (rows.variant != query.get("variant", ""), rows.variant))
    values = {
        "question": row,
        "answers": view_answers(reader.connection, answers),
        "right": {r["prediction_id"]: r["is_right"] for r in answer_rows},
    }
    return Page("question.html", row["text"], values)


def questions(reader: PageReader, query: Mapping[str, str]) -> Page:
    """Predictions that match the filters, confident wrong ones first."""
    filters = {name: query.get(name, "") for name in FILTERS}
    conditions, parameters = ["true"], dict[str, Any]()
    for name, column in {**CHOICE_COLUMNS, "status": "status"}.items():
        if filters[name]:
            conditions.append(f"a.{column} = ${name}")
            parameters[name] = filters[name]
    if filters["right"] in ("right", "wrong", "unknown"):
        conditions.append(
            {"right": "a.is_right", "wrong": "NOT a.is_right", "unknown": "a.is_right IS NULL"}[filters["right"]]
        )
    join = ""
    if filters["differs"]:
        join = (
            "JOIN answers o ON o.question_id = a.question_id AND o.variant = $differs AND o.answer IS "
            "DISTINCT FROM a.answer"
        )
        parameters["differs"] = filters["differs"]
    if filters["verdict"] in VERDICTS:
        conditions.append("a.question_id || ' ' || a.variant IN (SELECT unnest($cited))")
        parameters["cited"] = _cited_answers(reader, filters)
    filtered_answers = (
        f"FROM answers a LEFT JOIN all_questions q USING (question_id) {join} WHERE {' AND '.join(conditions)}"
    )
    [count] = reader.answers(f"SELECT count(*) AS n {filtered_answers}", **parameters)
    pager = Pager.of(query.get("page", ""), min(count["n"], MAX_ANSWERS))
    rows = reader.answers(
        f"SELECT a.*, CASE WHEN q.question_id IS NOT NULL THEN q END AS question {filtered_answers} "
        f"ORDER BY coalesce(a.is_right, true), a.confidence DESC NULLS LAST, a.prediction_id LIMIT {PER_PAGE} "
        f"OFFSET {pager.offset}",
        **parameters,
    )
    values = {
        "rows": rows,
        "pager": pager,
        "total": count["n"],
        "max_answers": MAX_ANSWERS,
        "filters": filters,
        "choices": _filter_choices(reader),
    }
    return Page("questions.html", "Questions", values)


def _filter_choices(reader: PageReader) -> dict[str, list[str]]:
    lists = reader.answers("SELECT DISTINCT benchmark, variant, model_id FROM answers ORDER BY ALL")
    values = {name: sorted({row[column] for row in lists}) for name, column in CHOICE_COLUMNS.items()}
    return values | {
        "status": list(STATUSES),
        "right": ["right", "wrong", "unknown"],
        "verdict": list(VERDICTS),
        "differs": values["variant"],
    }


def _cited_answers(reader: PageReader, filters: Mapping[str, str]) -> list[str]:
    """Question ids and variants with a citation of this verdict, joined by a space."""
    rows = reader.rows(
        """
        SELECT DISTINCT c.question_id || ' ' || replace(ci.asset, 'citations/', '') AS answer
        FROM citations ci JOIN chains c ON c.chain_id = ci.chain_id AND replace(c.asset, 'chains/', '') =
               replace(ci.asset, 'citations/', '')
        WHERE ci.verdict = $verdict AND ($benchmark = '' OR c.benchmark = $benchmark)
        """,
        ["citations", "chains"],
        verdict=filters["verdict"],
        benchmark=filters["benchmark"],
    )
    return [row["answer"] for row in rows] or [""]


def search(reader: PageReader, query: Mapping[str, str]) -> Page:
    """Questions, answers, documents, tables and entities that contain the words."""
    words = " ".join(query.get("q", "").split())[:200]
    results: dict[str, list[Row]] = {kind: [] for kind in ("questions", "answers", "sources", "tables", "entities")}
    if words:
        parameters = {"words": words.casefold()}
        results["questions"] = reader.answers(
            "SELECT question_id, benchmark, text FROM all_questions WHERE contains(low, $words) "
            f"LIMIT {MATCHES_PER_KIND}",
            **parameters,
        )
        answers = reader.answers(
            "SELECT prediction_id, question_id, variant, answer FROM answers WHERE length(answer) > 1 "
            f"AND contains(lower(answer), $words) LIMIT {MATCHES_PER_KIND}",
            **parameters,
        )
        texts = reader.texts([row["question_id"] for row in answers])
        results["answers"] = [row | {"text": texts.get(row["question_id"], "")} for row in answers]
        results["sources"] = reader.rows(
            f"SELECT chunk_id, title, doc_id, text FROM chunks WHERE contains(lower(title), $words) OR "
            f"contains(lower(text), $words) LIMIT {MATCHES_PER_KIND}",
            ["chunks"],
            **parameters,
        )
        results["tables"] = reader.rows(
            f"SELECT table_id, caption, benchmark FROM tables WHERE contains(lower(caption), $words) OR "
            f"contains(lower(table_id), $words) LIMIT {MATCHES_PER_KIND}",
            ["tables"],
            **parameters,
        )
        results["entities"] = reader.rows(
            "SELECT DISTINCT ON (node_id) node_id, name, type FROM kg_nodes WHERE contains(lower(name), $words) "
            f"ORDER BY node_id LIMIT {MATCHES_PER_KIND}",
            ["kg_nodes"],
            **parameters,
        )
    return Page("search.html", f"Search: {words}" if words else "Search", {"words": words, "results": results})
