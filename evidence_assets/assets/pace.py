"""How fast questions are answered: a fact of runs, so it stands in materialization metadata and in no row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg
import pyarrow as pa

SECONDS = "seconds_per_question"
A_MINUTE = "questions_per_minute"
LOOKED_AT = 10
"""Last materializations among which one is looked for that computed anything."""


def pace(rows: pa.Table, reused: int, seconds: float) -> dict[str, float]:
    """Metadata of a step that made rows of questions: seconds a question of those that were not taken over."""
    if "question_id" not in rows.column_names or rows.num_rows == reused:
        return {}
    questions = len(rows.column("question_id").unique()) * (1 - reused / rows.num_rows)
    return {SECONDS: seconds / questions, A_MINUTE: 60 * questions / seconds} if seconds else {}


def pace_of(instance: dg.DagsterInstance, assets: Sequence[str], partitions: Sequence[str]) -> dict[str, float]:
    """Metadata of a variant: questions a minute through all its steps, ``60 / Σ seconds a question``.

    Each step counts as it was last computed for any of these partitions. Nothing is said where one was never computed,
    or so long ago that it is not among the last materializations.
    """
    total = 0.0
    for asset in assets:
        wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset.split("/")), asset_partitions=list(partitions))
        found = [_seconds(record) for record in instance.fetch_materializations(wanted, limit=LOOKED_AT).records]
        known = [seconds for seconds in found if seconds is not None]
        if not known:
            return {}
        total += known[0]
    return {A_MINUTE: 60 / total} if total else {}


def _seconds(record: Any) -> float | None:
    made = record.asset_materialization
    value = made.metadata.get(SECONDS) if made is not None else None
    return None if value is None else float(value.value)
