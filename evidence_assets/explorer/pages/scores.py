"""Page of the scores: each variant on each benchmark, with published figures."""

from __future__ import annotations

from collections.abc import Mapping

from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.lake_reader import PageReader
from evidence_assets.explorer.pages import Page
from evidence_assets.explorer.scores import SCORES_QUERY, format_difference, is_headline


def scores(reader: PageReader, query: Mapping[str, str]) -> Page:
    rows = [row for row in reader.rows(SCORES_QUERY, ["scores"]) if is_headline(row)]
    by_benchmark: dict[str, list[Row]] = {}
    for row in rows:
        if row["scope_kind"] == "benchmark":
            by_benchmark.setdefault(row["scope_id"], []).append(row | {"difference": format_difference(row)})
    values = {"scores": by_benchmark, "harvests": [row for row in rows if row["scope_kind"] != "benchmark"]}
    return Page("scores.html", "Scores", values)
