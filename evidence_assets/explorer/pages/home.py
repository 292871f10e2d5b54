"""First page: what the lake contains, what the last run changed, and the answers most worth a look."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from evidence_assets.experiment.ad_hoc_questions import BENCHMARK as AD_HOC_BENCHMARK
from evidence_assets.explorer.lake_reader import PageReader
from evidence_assets.explorer.overview import (
    ANSWER_TABLES,
    CITATION_TABLES,
    CONTENT_TABLES,
    read_answer_counts,
    read_contents,
    read_notable_answers,
)
from evidence_assets.explorer.pages import Page


def home(reader: PageReader, query: Mapping[str, str]) -> Page:
    values: dict[str, Any] = {
        "contents": reader.cached(read_contents, CONTENT_TABLES),
        "notable": reader.cached(read_notable_answers, (*ANSWER_TABLES, *CITATION_TABLES)),
        "ad_hoc_benchmark": AD_HOC_BENCHMARK,
        **reader.cached(read_answer_counts, ANSWER_TABLES),
    }
    run = reader.lake_reader.last_run
    values["last_run"] = run and {
        "start": datetime.fromtimestamp(run.start).strftime("%Y-%m-%d %H:%M"),
        "end": datetime.fromtimestamp(run.end).strftime("%Y-%m-%d %H:%M"),
        "runs": run.runs,
    }
    return Page("home.html", "Overview", values)
