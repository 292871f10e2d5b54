"""First page: what the lake contains, what the last run changed, and notable answers; and the page of scores."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from evidence_assets.experiment.ad_hoc_questions import BENCHMARK as AD_HOC_BENCHMARK
from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.lake_reader import PageReader
from evidence_assets.explorer.pages import Page
from evidence_assets.explorer.scores import (
    CHANGED_QUERY,
    SCORES_QUERY,
    STALE_QUERY,
    STALE_TABLES,
    format_difference,
    is_headline,
    mark_stale,
)

MAX_NOTABLE = 5
"""Maximum answers of each kind on the first page."""
MAX_CITATIONS = 1_000
"""Maximum answers with failed citations that are ranked."""
CONTENT_TABLES = ("chunks", "kg_nodes", "kg_edges", "tables", "triples", "relation_seeds", "models", "scores")
CITATION_TABLES = ("citations", "chains")
ANSWER_TABLES = ("questions", "predictions", "history")
QUESTION_COLUMNS = "q.text, q.task, q.options, q.gold"

WRONG_ANSWERS = f"""
    WITH best AS (
        SELECT DISTINCT ON (question_id) * FROM answers
        WHERE NOT is_right AND status = 'answered' AND confidence IS NOT NULL
        ORDER BY question_id, confidence DESC, prediction_id
    )
    SELECT b.*, {QUESTION_COLUMNS} FROM best b JOIN all_questions q USING (question_id)
    ORDER BY b.confidence DESC, b.prediction_id LIMIT {MAX_NOTABLE}
"""
"""Wrong answers by confidence, one per question."""
DISAGREEMENTS = f"""
    WITH best AS (
        SELECT question_id, answer, first(variant ORDER BY confidence DESC, variant) AS variant,
               max(confidence) AS confidence,
               any_value(is_right) AS is_right
        FROM answers WHERE status = 'answered' AND confidence IS NOT NULL AND answer IS NOT NULL GROUP BY ALL
    ), ranked AS (
        SELECT *, row_number() OVER (PARTITION BY question_id ORDER BY confidence DESC, answer) AS place FROM best
    )
    SELECT a.question_id, a.variant, a.answer, a.is_right, a.confidence, q.benchmark, {QUESTION_COLUMNS},
           b.variant AS other_variant, b.answer AS other_answer, b.is_right AS other_is_right,
           b.confidence AS other_confidence
    FROM ranked a JOIN ranked b ON a.question_id = b.question_id AND a.place = 1 AND b.place = 2
    JOIN all_questions q ON q.question_id = a.question_id
    ORDER BY b.confidence DESC, a.question_id LIMIT {MAX_NOTABLE}
"""
"""Questions with two confident answers, by the confidence of the second one."""
FAILED_CITATIONS = f"""
    SELECT ci.chain_id, ci.variant, c.question_id, c.hypothesis, ci.failed
    FROM (SELECT chain_id, replace(asset, 'citations/', '') AS variant, count(*) AS failed FROM citations
          WHERE verdict <> 'verified' GROUP BY ALL ORDER BY failed DESC, chain_id LIMIT {MAX_CITATIONS}) ci
    LEFT JOIN chains c ON c.chain_id = ci.chain_id AND replace(c.asset, 'chains/', '') = ci.variant
    ORDER BY failed DESC, ci.chain_id
"""
"""Chains, or predictions without chains, whose citations are absent from the evidence or misquote it."""
UNSUPPORTED_ANSWERS = f"""
    WITH failed AS (
        SELECT unnest($ids) AS id, unnest($variants) AS variant, unnest($questions) AS question_id,
               unnest($hypotheses) AS hypothesis, unnest($failed) AS failed
    ), unsupported AS (
        SELECT a.*, f.failed FROM failed f JOIN answers a ON a.variant = f.variant AND a.prediction_id = f.id
        UNION ALL
        SELECT a.*, f.failed FROM failed f
        JOIN answers a ON a.variant = f.variant AND a.question_id = f.question_id AND a.answer = f.hypothesis
    )
    SELECT u.*, {QUESTION_COLUMNS} FROM unsupported u JOIN all_questions q USING (question_id)
    ORDER BY u.failed DESC, u.confidence DESC NULLS LAST, u.prediction_id LIMIT {MAX_NOTABLE}
"""
"""Answers whose own chain has citations that fail the check."""
BENCHMARKS = """
    SELECT q.benchmark, any_value(q.task) AS task, count(DISTINCT q.question_id) AS questions,
           count(DISTINCT a.variant) AS variants, count(a.prediction_id) AS answers,
           count(*) FILTER (a.status = 'failed') AS failed
    FROM all_questions q LEFT JOIN answers a USING (question_id) GROUP BY q.benchmark ORDER BY q.benchmark
"""
CHANGE_COUNTS = """
    SELECT kind, benchmark, count(*) FILTER (change = 'added') AS added,
           count(*) FILTER (change = 'changed') AS changed, count(*) FILTER (change = 'removed') AS removed
    FROM changes GROUP BY kind, benchmark ORDER BY kind <> 'predictions', kind, benchmark
"""
CHANGED_ANSWERS = f"""
    SELECT a.*, {QUESTION_COLUMNS}, c.answer_before,
           is_right(q.benchmark, q.question_id, q.task, q.gold, q.gold_aliases, c.answer_before, c.status_before)
           AS was_right
    FROM changes c JOIN answers a ON a.prediction_id = c.row_id AND c.asset = 'predictions/' || a.variant
    JOIN all_questions q USING (question_id)
    WHERE c.kind = 'predictions' AND c.change = 'changed' AND c.answer_before IS DISTINCT FROM a.answer
    ORDER BY coalesce(was_right = a.is_right, true), a.confidence DESC NULLS LAST, a.prediction_id LIMIT {MAX_NOTABLE}
"""
"""Answers that the last run changed; those that became right or wrong come first."""
ASKED_QUESTIONS = f"""
    SELECT DISTINCT ON (f.place) a.*, {QUESTION_COLUMNS}
    FROM (SELECT unnest($files) AS file, unnest($places) AS place) f JOIN all_questions q USING (file)
    JOIN answers a USING (question_id) ORDER BY f.place, a.confidence DESC NULLS LAST, a.prediction_id
    LIMIT {MAX_NOTABLE}
"""
"""Questions of ``evidence ask`` in these files, with their most confident answers."""


def read_contents(reader: PageReader) -> dict[str, Any]:
    """Corpora, graphs, tables and harvests, with their numbers of rows."""
    graph_rows = reader.rows(
        """
        SELECT regexp_extract(asset, '^knowledge/(.+)/[^/]+$', 1) AS name, sum(nodes) AS nodes, sum(edges) AS edges
        FROM (SELECT asset, count(*) AS nodes, 0 AS edges FROM kg_nodes GROUP BY asset
              UNION ALL SELECT asset, 0, count(*) FROM kg_edges GROUP BY asset) GROUP BY name ORDER BY name
        """,
        ["kg_nodes", "kg_edges"],
    )
    harvests = reader.rows(
        """
        SELECT s.collection, s.relation_id, any_value(t.triples) AS triples, count(*) AS seeds FROM relation_seeds s
        LEFT JOIN (SELECT relation_id, count(DISTINCT origin || triple_id) AS triples FROM triples
                   WHERE relation_id IS NOT NULL GROUP BY relation_id) t ON t.relation_id = s.relation_id
        GROUP BY ALL ORDER BY ALL
        """,
        ["relation_seeds", "triples"],
    )
    by_collection: dict[str, list[Row]] = {}
    for row in harvests:
        by_collection.setdefault(row["collection"], []).append(row)
    best: dict[str, Row] = {}
    for row in reader.rows(SCORES_QUERY, ["scores"]):
        if is_headline(row) and row["scope_kind"] == "benchmark" and row["value"] is not None:
            best.setdefault(row["scope_id"], row)
    return {
        "corpora": reader.rows(
            "SELECT regexp_extract(asset, '^corpus/(.+)/chunks$', 1) AS name, count(DISTINCT doc_id) AS documents, "
            "count(*) AS chunks FROM chunks GROUP BY name ORDER BY name",
            ["chunks"],
        ),
        "graphs": graph_rows,
        "tables": reader.rows(
            "SELECT benchmark, count(*) AS tables, min(table_id) AS first_id FROM tables GROUP BY ALL ORDER BY ALL",
            ["tables"],
        ),
        "harvests": by_collection,
        "best": best,
    }


def read_answer_counts(reader: PageReader) -> dict[str, Any]:
    """Questions and answers of each benchmark, and what the last run changed of them."""
    benchmarks = reader.answers(BENCHMARKS)
    asked_files = [name for name in reader.lake_reader.recent_files("questions") if f"/{AD_HOC_BENCHMARK}/" in name]
    return {
        "benchmarks": benchmarks,
        "change_counts": reader.answers(CHANGE_COUNTS),
        "changed_answers": reader.answers(CHANGED_ANSWERS),
        "asked_questions": reader.answers(ASKED_QUESTIONS, files=asked_files, places=list(range(len(asked_files))))
        if asked_files
        else [],
    }


def read_notable_answers(reader: PageReader) -> dict[str, list[Row]]:
    """Confident wrong answers, disagreeing variants, and answers whose citations fail the check."""
    citations = reader.rows(FAILED_CITATIONS, CITATION_TABLES)
    names = {"ids": "chain_id", "variants": "variant", "questions": "question_id", "hypotheses": "hypothesis"}
    columns = {key: [row[name] for row in citations] for key, name in (names | {"failed": "failed"}).items()}
    return {
        "wrong": reader.answers(WRONG_ANSWERS),
        "disagreements": reader.answers(DISAGREEMENTS),
        "unsupported": reader.answers(UNSUPPORTED_ANSWERS, **columns) if citations else [],
    }


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
    }
    return Page("home.html", "Overview", values)


def read_scores(reader: PageReader) -> list[Row]:
    """Headline scores, with whether they are stale."""
    rows = mark_stale(
        reader.rows(SCORES_QUERY, ["scores"]),
        reader.rows(STALE_QUERY, STALE_TABLES),
        reader.rows(CHANGED_QUERY, ["scores", *STALE_TABLES]),
    )
    return [row for row in rows if is_headline(row)]


def scores(reader: PageReader, query: Mapping[str, str]) -> Page:
    rows = reader.cached(read_scores, ("scores", *STALE_TABLES))
    by_benchmark: dict[str, list[Row]] = {}
    for row in rows:
        if row["scope_kind"] == "benchmark":
            by_benchmark.setdefault(row["scope_id"], []).append(row | {"difference": format_difference(row)})
    values = {"scores": by_benchmark, "harvests": [row for row in rows if row["scope_kind"] != "benchmark"]}
    return Page("scores.html", "Scores", values)
