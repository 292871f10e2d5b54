"""Scores with published figures, for the terminal and the explorer's first page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from evidence_assets.experiment.scores.input_version import INPUT_VERSIONS
from evidence_assets.explorer.answers import Row

CHANGED_QUERY = f"""
SELECT variant, benchmark FROM ({INPUT_VERSIONS}) WHERE version <> scored_version
UNION SELECT replace(asset, 'evidence/', ''), benchmark FROM evidence
WHERE source_kind = 'chunk' AND source_id NOT IN (SELECT chunk_id FROM chunks)
"""
"""Scores whose evidence, answers or gold answers were materialized again since, or whose chunks are gone."""


def mark_stale(rows: Iterable[Row], changed_rows: Iterable[Row]) -> list[Row]:
    """The scores with ``stale``: whether they rest on rows that have changed or are no longer in the lake."""
    changed_keys = {(row["variant"], row["benchmark"]) for row in changed_rows}
    return [row | {"stale": (row["variant"], row["scope_id"]) in changed_keys} for row in rows]


def format_difference(row: Row) -> str:
    """Difference to the published figure, with * if that is outside the interval."""
    value, low, high, published = (row[name] for name in ("value", "low", "high", "published"))
    if published is None or value is None:
        return ""
    is_outside = low is not None and high is not None and not low <= published <= high
    return f"{value - published:+.3f}" + ("*" if is_outside else "")


def format_score(row: Row) -> list[Any]:
    """A score as a row of the terminal's table of one benchmark and metric."""
    shares = (row["supported_share"], row["supported_accuracy"])
    return [
        f"{row['label']} (stale)" if row["stale"] else row["label"],
        row["reasoner"],
        "" if row["value"] is None else f"{row['value']:.3f}",
        "" if row["low"] is None else f"{row['low']:.3f}–{row['high']:.3f}",
        row["n"],
        *("" if share is None else f"{share:.0%}" for share in shares),
        "" if row["published"] is None else f"{row['published']:.3f}",
        format_difference(row),
        row["published_source"],
    ]
