"""First page: scores with published figures, and the number of predictions per benchmark."""

from __future__ import annotations

from collections.abc import Mapping

from evidence_assets.experiment.ad_hoc_questions import BENCHMARK as AD_HOC_BENCHMARK
from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.lake_reader import PageReader
from evidence_assets.explorer.pages import Page
from evidence_assets.explorer.scores import SCORES_QUERY, format_difference, is_headline


def home(reader: PageReader, query: Mapping[str, str]) -> Page:
    rows = [row for row in reader.rows(SCORES_QUERY, ["scores"]) if is_headline(row)]
    by_benchmark: dict[str, list[Row]] = {}
    for row in rows:
        if row["scope_kind"] == "benchmark":
            by_benchmark.setdefault(row["scope_id"], []).append(row | {"difference": format_difference(row)})
    values = {
        "scores": by_benchmark,
        "harvests": [row for row in rows if row["scope_kind"] != "benchmark"],
        "counts": reader.answers(
            "SELECT benchmark, count(DISTINCT variant) AS variants, count(*) AS answers, "
            "count(*) FILTER (status = 'failed') AS failed FROM answers GROUP BY benchmark ORDER BY benchmark"
        ),
        "ad_hoc_benchmark": AD_HOC_BENCHMARK,
        "relations": reader.rows("SELECT DISTINCT relation_id FROM relation_seeds ORDER BY 1", ["relation_seeds"]),
    }
    return Page("home.html", "Scores", values)
