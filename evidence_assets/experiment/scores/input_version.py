"""Version of the rows that scores are computed from; the same SQL reads them at scoring time and in the lake."""

from __future__ import annotations

import duckdb
import polars as pl

INPUT_VERSIONS = """
    WITH of_questions AS (
        SELECT benchmark, sum(md5_number_lower(concat_ws('|', question_id, gold::VARCHAR))) AS version
        FROM questions GROUP BY ALL
    ), of_evidence AS (
        SELECT string_split(asset, '/')[2] AS family, benchmark, selector,
               sum(md5_number_lower(concat_ws('|', question_id, content_hash))) AS version
        FROM evidence GROUP BY ALL
    ), of_predictions AS (
        SELECT replace(asset, 'predictions/', '') AS variant, benchmark,
               sum(md5_number_lower(concat_ws('|', question_id, content_hash))) AS version
        FROM predictions GROUP BY ALL
    ), scored AS (
        SELECT DISTINCT replace(asset, 'scores/', '') AS variant, string_split(asset, '/')[2] AS family,
               scope_id AS benchmark, selector, input_version
        FROM scores WHERE input_version IS NOT NULL
    )
    SELECT variant, benchmark, input_version AS scored_version,
           concat_ws(':', coalesce(q.version, 0), coalesce(e.version, 0), coalesce(p.version, 0)) AS version
    FROM scored LEFT JOIN of_questions q USING (benchmark) LEFT JOIN of_evidence e USING (family, benchmark, selector)
         LEFT JOIN of_predictions p USING (variant, benchmark)
"""
"""Version of the stored inputs of each score, beside the version that it was computed from."""
_COLUMNS = {
    "questions": ("question_id", "benchmark", "gold"),
    "evidence": ("asset", "question_id", "benchmark", "selector", "content_hash"),
    "predictions": ("asset", "question_id", "benchmark", "content_hash"),
}


def compute_input_version(
    variant: str,
    benchmark: str,
    selector: str,
    questions: pl.DataFrame,
    evidence: pl.DataFrame,
    predictions: pl.DataFrame,
) -> str:
    """The version of these rows of one variant (``family/name``) and benchmark."""
    scores = {"asset": f"scores/{variant}", "scope_id": benchmark, "selector": selector, "input_version": ""}
    frames = {
        "questions": questions,
        "evidence": evidence.with_columns(asset=pl.lit(f"evidence/{variant}"), selector=pl.lit(selector)),
        "predictions": predictions.with_columns(asset=pl.lit(f"predictions/{variant}")),
    }
    with duckdb.connect() as connection:
        for name, rows in frames.items():
            columns = rows.select(_COLUMNS[name]).with_columns(benchmark=pl.lit(benchmark))
            connection.register(name, columns.to_arrow())
        connection.register("scores", pl.DataFrame([scores]).to_arrow())
        (row,) = connection.execute(INPUT_VERSIONS).fetchall()
    return str(row[-1])
