"""The headline scores of a lake: one metric for each task family, with its interval and printed figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

import duckdb

from evidence_assets.experiment.scores.charts import Score, draw_scores
from evidence_assets.experiment.stored_rows import typed_rows

SCORES_QUERY = """
WITH supported AS (
    SELECT asset, scope_id, any_value(value) FILTER (metric = 'answered_share') AS supported_share,
           any_value(value) FILTER (metric = 'supported_accuracy') AS supported_accuracy
    FROM scores WHERE scope_kind = 'benchmark' AND reasoner <> 'recorded' GROUP BY ALL
)
SELECT scope_kind, scope_id, string_split(asset, '/')[2] AS family,
       if(scope_kind = 'collection' OR reasoner = 'recorded', selector,
          array_to_string(string_split(asset, '/')[3:], '@')) AS label,
       if(reasoner = 'recorded', regexp_extract(asset, '^scores/([^/]+/)', 1) || selector,
          replace(asset, 'scores/', '')) AS variant,
       selector, reasoner, model_id, metric, value, low, high, n, supported_share, supported_accuracy,
       published, published_source
FROM scores LEFT JOIN supported USING (asset, scope_id)
WHERE metric IN ('accuracy', 'hit@1', 'recall@5', 'precision@50') AND scope_kind <> 'relation'
ORDER BY scope_id, metric, value DESC, variant
"""
HEADLINE_METRICS = {"search": "hit@1", "retrieval": "recall@5", "knowledge": "precision@50"}
"""Main metric of task families whose main metric is not accuracy."""


class ScoreRow(TypedDict):
    """The columns of ``SCORES_QUERY`` that a picture needs."""

    scope_id: str
    family: str
    metric: str
    label: str
    value: float | None
    low: float | None
    high: float | None
    published: float | None


def is_headline(row: Mapping[str, object]) -> bool:
    """Whether a score has the main metric of its task family."""
    return row["metric"] == HEADLINE_METRICS.get(str(row["family"]), "accuracy")


def draw_scoreboard(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """A picture of the lake's headline scores on each benchmark or collection."""
    scores: dict[str, list[Score]] = {}
    for row in typed_rows(connection.execute(SCORES_QUERY).pl(), ScoreRow):
        if is_headline(row) and row["value"] is not None:
            score = Score(row["label"], row["value"], row["low"], row["high"], row["published"])
            scores.setdefault(f"{row['metric']} on {row['scope_id']}", []).append(score)
    return {name: draw_scores(name, group) for name, group in sorted(scores.items())}
