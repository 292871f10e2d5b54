"""Comparison of two variants: the exact test, and the questions that they answer differently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evidence_assets.experiment.scores.comparison import compare
from evidence_assets.explorer.lake_reader import PageReader
from evidence_assets.explorer.pages import PER_PAGE, Page, Pager, link
from evidence_assets.explorer.pages.questions import filter_choices
from evidence_assets.lake.catalogue import create_views
from evidence_assets.lake.errors import BadInput


def comparison(reader: PageReader, query: Mapping[str, str]) -> Page:
    a, b, benchmark = (query.get(name, "") for name in ("a", "b", "benchmark"))
    values: dict[str, Any] = {
        "a": a,
        "b": b,
        "benchmark": benchmark,
        "choices": filter_choices(reader),
        "tests": [],
        "rows": [],
        "message": "",
    }
    if a and b:
        tests, message = [], ""
        try:
            create_views(reader.connection, "predictions", "questions")
            tests = compare(reader.connection, a, b, benchmark or None)
        except BadInput as error:
            message = str(error)
        joined_answers = (
            "FROM answers x JOIN answers y ON x.question_id = y.question_id AND x.variant = $a AND y.variant = $b "
            "JOIN all_questions q ON q.question_id = x.question_id WHERE x.answer IS DISTINCT FROM y.answer "
            "AND ($benchmark = '' OR x.benchmark = $benchmark)"
        )
        parameters = {"a": a, "b": b, "benchmark": benchmark}
        [count] = reader.answers(f"SELECT count(*) AS n {joined_answers}", **parameters)
        pager = Pager.of(query.get("page", ""), count["n"])
        rows = reader.answers(
            "SELECT x.question_id, x.variant, x.benchmark, q.text, q.options, q.task, x.answer AS answer_a, "
            f"y.answer AS answer_b, x.is_right AS right_a, y.is_right AS right_b {joined_answers} "
            f"ORDER BY coalesce(x.is_right = y.is_right, true), x.benchmark, x.question_id LIMIT {PER_PAGE} "
            f"OFFSET {pager.offset}",
            **parameters,
        )
        linked_tests = [(t.benchmark, link("compare", a=a, b=b, benchmark=t.benchmark), t) for t in tests]
        values |= {"tests": linked_tests, "message": message, "rows": rows, "pager": pager}
    return Page("compare.html", f"Compare {a} and {b}" if a and b else "Compare", values)
