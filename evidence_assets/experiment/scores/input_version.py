"""Version of the rows that scores are computed from; the same SQL reads them at scoring time and in the lake."""

from __future__ import annotations

import duckdb
import polars as pl

_VERSION = "coalesce(sum(md5_number_lower(concat_ws('|', question_id, {}::VARCHAR))), 0)"
_OF_QUESTIONS = _VERSION.format("gold")
_OF_ROWS = _VERSION.format("content_hash")
INPUT_VERSIONS = f"""
    WITH of_questions AS (SELECT benchmark, {_OF_QUESTIONS} AS version FROM questions GROUP BY ALL),
    of_evidence AS (
        SELECT string_split(asset, '/')[2] AS family, benchmark, selector, {_OF_ROWS} AS version
        FROM evidence GROUP BY ALL
    ), of_predictions AS (
        SELECT replace(asset, 'predictions/', '') AS variant, benchmark, {_OF_ROWS} AS version
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


def compute_input_version(questions: pl.DataFrame, evidence: pl.DataFrame, predictions: pl.DataFrame) -> str:
    """The version of the rows of one variant and benchmark."""
    inputs = ((questions, _OF_QUESTIONS), (evidence, _OF_ROWS), (predictions, _OF_ROWS))
    with duckdb.connect() as connection:
        versions = [connection.from_arrow(rows.to_arrow()).aggregate(sql).fetchall()[0][0] for rows, sql in inputs]
    return ":".join(map(str, versions))
