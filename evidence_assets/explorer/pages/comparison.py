"""Two variants on the same questions: the exact test, and where they differ, question by question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evidence_assets.experiment.scores.comparison import compare
from evidence_assets.explorer.lake_reader import PageReader
from evidence_assets.explorer.pages import PER_PAGE, Page, Pager, link
from evidence_assets.explorer.pages.questions import filter_choices
from evidence_assets.lake.catalogue import create_views
from evidence_assets.lake.errors import BadInput


def comparison(reader: PageReader, asked: Mapping[str, str]) -> Page:
    a, b, benchmark = (asked.get(name, "") for name in ("a", "b", "benchmark"))
    values: dict[str, Any] = {
        "a": a,
        "b": b,
        "benchmark": benchmark,
        "choices": filter_choices(reader),
        "tests": [],
        "rows": [],
        "said": "",
    }
    if a and b:
        tests, said = [], ""
        try:
            create_views(reader.connection, "predictions", "questions")
            tests = compare(reader.connection, a, b, benchmark or None)
        except BadInput as error:
            said = str(error)
        where = (
            "FROM answers x JOIN answers y ON x.question_id = y.question_id AND x.variant = $a AND y.variant = $b "
            "JOIN asked q ON q.question_id = x.question_id WHERE x.answer IS DISTINCT FROM y.answer "
            "AND ($benchmark = '' OR x.benchmark = $benchmark)"
        )
        parameters = {"a": a, "b": b, "benchmark": benchmark}
        [count] = reader.answers(f"SELECT count(*) AS n {where}", **parameters)
        pager = Pager.of(asked.get("page", ""), count["n"])
        rows = reader.answers(
            "SELECT x.question_id, x.variant, x.benchmark, q.text, q.options, q.task, x.answer AS answer_a, "
            "y.answer AS answer_b, "
            f"x.is_right AS right_a, y.is_right AS right_b {where} "
            f"ORDER BY coalesce(x.is_right = y.is_right, true), x.benchmark, x.question_id LIMIT {PER_PAGE} "
            f"OFFSET {pager.offset}",
            **parameters,
        )
        linked = [(t.benchmark, link("compare", a=a, b=b, benchmark=t.benchmark), t) for t in tests]
        values |= {"tests": linked, "said": said, "rows": rows, "pager": pager}
    return Page("compare.html", f"Compare {a} and {b}" if a and b else "Compare", values)
