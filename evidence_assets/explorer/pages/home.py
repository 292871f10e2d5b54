"""First page: what the lake contains, what the last run changed, and notable answers; and the page of scores."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from evidence_assets.benchmarks.records import ASKED_BENCHMARK
from evidence_assets.experiment.scores.scoreboard import SCORES_QUERY, is_headline
from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.pages import Page, Query
from evidence_assets.explorer.pages.documents import read_corpora
from evidence_assets.explorer.scores import CHANGED_QUERY, format_difference, mark_stale

MAX_NOTABLE = 5
"""Maximum answers of each kind on the first page."""

WRONG_ANSWERS = f"""
    WITH best AS (
        SELECT DISTINCT ON (question_id) * FROM answers
        WHERE NOT is_right AND status = 'answered' AND confidence IS NOT NULL
        ORDER BY question_id, confidence DESC, prediction_id
    )
    SELECT * FROM best ORDER BY confidence DESC, prediction_id LIMIT {MAX_NOTABLE}
"""
"""Wrong answers by confidence, one per question."""
DISAGREEMENTS = f"""
    WITH best AS (
        SELECT DISTINCT ON (question_id, answer) * FROM answers
        WHERE status = 'answered' AND confidence IS NOT NULL AND answer IS NOT NULL
        ORDER BY question_id, answer, confidence DESC, variant
    ), ranked AS (
        SELECT *, row_number() OVER (PARTITION BY question_id ORDER BY confidence DESC, answer) AS place FROM best
    )
    SELECT a.*, b.variant AS other_variant, b.answer AS other_answer, b.is_right AS other_is_right,
           b.confidence AS other_confidence
    FROM ranked a JOIN ranked b ON a.question_id = b.question_id AND a.place = 1 AND b.place = 2
    ORDER BY b.confidence DESC, a.question_id LIMIT {MAX_NOTABLE}
"""
"""Questions with two confident answers, by the confidence of the second one."""
BENCHMARKS = """
    SELECT q.benchmark, any_value(q.task) AS task, count(DISTINCT q.question_id) AS questions,
           count(DISTINCT a.variant) AS variants, count(a.prediction_id) AS answers,
           count(*) FILTER (a.status = 'failed') AS failed
    FROM all_questions q LEFT JOIN all_answers a USING (question_id) GROUP BY q.benchmark ORDER BY q.benchmark
"""
CHANGE_COUNTS = """
    SELECT kind, benchmark, count(*) FILTER (change = 'added') AS added,
           count(*) FILTER (change = 'changed') AS changed, count(*) FILTER (change = 'removed') AS removed
    FROM changes GROUP BY kind, benchmark ORDER BY kind <> 'predictions', kind, benchmark
"""
CHANGED_ANSWERS = f"""
    SELECT a.*, c.answer_before, is_right(a.benchmark, a.question_id, q.task, q.gold, q.gold_aliases, c.answer_before,
           c.status_before) AS was_right
    FROM changes c JOIN answers a ON a.prediction_id = c.row_id AND c.asset = 'predictions/' || a.variant
    JOIN all_questions q USING (question_id)
    WHERE c.kind = 'predictions' AND c.change = 'changed' AND c.answer_before IS DISTINCT FROM a.answer
    ORDER BY coalesce(was_right = a.is_right, true), a.confidence DESC NULLS LAST, a.prediction_id LIMIT {MAX_NOTABLE}
"""
"""Answers that the last run changed; those that became right or wrong come first."""
GRAPHS = """
    SELECT regexp_extract(asset, '^knowledge/(.+)/[^/]+$', 1) AS name, sum(nodes) AS nodes, sum(edges) AS edges
    FROM (SELECT asset, count(*) AS nodes, 0 AS edges FROM kg_nodes GROUP BY asset
          UNION ALL SELECT asset, 0, count(*) FROM kg_edges GROUP BY asset) GROUP BY name ORDER BY name
"""
HARVESTS = """
    SELECT s.collection, s.relation_id, any_value(t.triples) AS triples, count(*) AS seeds FROM relation_seeds s
    LEFT JOIN (SELECT relation_id, count(DISTINCT origin || triple_id) AS triples FROM triples
               WHERE relation_id IS NOT NULL GROUP BY relation_id) t ON t.relation_id = s.relation_id
    GROUP BY ALL ORDER BY ALL
"""


def read_overview(reader: LakeReader) -> dict[str, Any]:
    """What the lake contains, what the last run changed, and the answers worth a look."""
    harvests: dict[str, list[Row]] = {}
    for row in reader.rows(HARVESTS):
        harvests.setdefault(row["collection"], []).append(row)
    best: dict[str, Row] = {}
    for row in reader.rows(SCORES_QUERY):
        if is_headline(row) and row["scope_kind"] == "benchmark" and row["value"] is not None:
            best.setdefault(row["scope_id"], row)
    return {
        "corpora": read_corpora(reader),
        "graphs": reader.rows(GRAPHS),
        "tables": reader.rows(
            "SELECT benchmark, count(DISTINCT table_id) AS n, min(table_id) AS id FROM tables GROUP BY 1 ORDER BY 1"
        ),
        "harvests": harvests,
        "best_scores": best,
        "benchmarks": reader.rows(BENCHMARKS),
        "change_counts": reader.rows(CHANGE_COUNTS),
        "changed_answers": reader.rows(CHANGED_ANSWERS),
        "wrong": reader.rows(WRONG_ANSWERS),
        "disagreements": reader.rows(DISAGREEMENTS),
    }


def home(reader: LakeReader, query: Query) -> Page:
    run = reader.last_run
    times = run and [datetime.fromtimestamp(time).strftime("%Y-%m-%d %H:%M") for time in run]
    values = {**reader.cached(read_overview), "ad_hoc_benchmark": ASKED_BENCHMARK, "run_times": times}
    return Page("home.html", "Overview", values)


def read_scores(reader: LakeReader) -> list[Row]:
    """Headline scores, with whether they are stale."""
    rows = mark_stale(reader.rows(SCORES_QUERY), reader.rows(CHANGED_QUERY))
    return [row for row in rows if is_headline(row)]


def scores(reader: LakeReader, query: Query) -> Page:
    rows = reader.cached(read_scores)
    by_benchmark: dict[str, list[Row]] = {}
    for row in rows:
        if row["scope_kind"] == "benchmark":
            by_benchmark.setdefault(row["scope_id"], []).append(row | {"difference": format_difference(row)})
    values = {"scores": by_benchmark, "harvests": [row for row in rows if row["scope_kind"] != "benchmark"]}
    return Page("scores.html", "Scores", values)
