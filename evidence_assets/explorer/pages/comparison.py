"""Two variants, or two runs, on the same questions: the exact test, and where they differ, question by question."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from evidence_assets.experiment.scores.comparison import ANSWERED_IN_RUNS, Comparison, compare, compare_runs
from evidence_assets.experiment.scores.scoring import correct
from evidence_assets.explorer.open_lake import OpenLake, Reader
from evidence_assets.explorer.pages import PER_PAGE, Page, Pager, link
from evidence_assets.explorer.pages.home import last_runs
from evidence_assets.explorer.pages.questions import choices
from evidence_assets.lake.catalogue import connect
from evidence_assets.lake.errors import BadInput


@lru_cache(maxsize=64)
def _compared(opened: OpenLake, state: tuple[int, ...], a: str, b: str, benchmark: str) -> tuple[list[Comparison], str]:
    """The tests, kept as long as no prediction changes; and why there are none."""
    try:
        with connect(opened.root, memory=None) as connection:
            return compare(connection, a, b, benchmark or None), ""
    except BadInput as error:
        return [], str(error)


def comparison(reader: Reader, asked: Mapping[str, str]) -> Page:
    a, b, benchmark = (asked.get(name, "") for name in ("a", "b", "benchmark"))
    values: dict[str, Any] = {
        "a": a,
        "b": b,
        "benchmark": benchmark,
        "choices": choices(reader),
        "tests": [],
        "rows": [],
        "said": "",
    }
    if a and b:
        tests, said = _compared(reader.opened, reader.opened.state, a, b, benchmark)
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


RUNS_OFFERED = 50


def run_comparison(reader: Reader, asked: Mapping[str, str]) -> Page:
    """The page of two runs: what both of them answered, with the same variants on the same questions."""
    a, b = asked.get("a", ""), asked.get("b", "")
    values: dict[str, Any] = {
        "a": a,
        "b": b,
        "runs": last_runs(reader.opened.lake, RUNS_OFFERED, "predictions."),
        "tests": [],
        "said": "",
    }
    if a and b:
        try:
            found = compare_runs(reader.connection, a, b)
        except BadInput as error:
            return Page("runs.html", "Compare two runs", values | {"said": str(error)})
        rows = _answered_differently(reader, a, b)
        pager = Pager.of(asked.get("page", ""), len(rows))
        tests = [
            (f"{variant} on {t.benchmark}", link("questions", variant=variant, benchmark=t.benchmark), t)
            for variant, t in found
        ]
        values |= {"tests": tests, "rows": rows[pager.offset : pager.offset + PER_PAGE], "pager": pager}
    return Page("runs.html", f"Compare {a[:8]} and {b[:8]}" if a and b else "Compare two runs", values)


def _answered_differently(reader: Reader, a: str, b: str) -> list[dict[str, Any]]:
    """Questions whose answer is another in the second run, those that became right or wrong first."""
    rows = reader.rows(
        f"WITH said AS ({ANSWERED_IN_RUNS}) "
        "SELECT x.question_id, x.variant, x.benchmark, q.text, q.options, q.task, q.gold, q.gold_aliases, "
        "x.answer AS answer_a, y.answer AS answer_b, x.status AS status_a, y.status AS status_b "
        "FROM said x JOIN said y ON x.question_id = y.question_id AND x.variant = y.variant "
        "JOIN questions q ON q.question_id = x.question_id "
        "WHERE x.run_id = $a AND y.run_id = $b AND x.answer IS DISTINCT FROM y.answer ORDER BY ALL",
        ["history", "predictions", "questions"],
        a=a,
        b=b,
    )
    for row in rows:
        for side in ("a", "b"):
            row[f"right_{side}"] = correct(row, {"answer": row[f"answer_{side}"], "status": row[f"status_{side}"]})
    return sorted(rows, key=lambda row: row["right_a"] == row["right_b"])
