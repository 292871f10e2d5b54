"""How fast questions are answered: a fact of runs, so it is materialization metadata and in no row."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
import pyarrow as pa

SECONDS = "seconds_per_question"
A_RELATION = "seconds"
"""Metadata of every step; of a harvest, whose partitions are relations, it is the time of one."""
LATEST = 10
"""Last materializations among which one is looked for that computed anything."""


def pace(rows: pa.Table, reused: int, seconds: float) -> dict[str, float]:
    """Metadata of a step that made rows of questions: seconds per question that was not reused."""
    if "question_id" not in rows.column_names or rows.num_rows == reused or not seconds:
        return {}
    return {SECONDS: seconds / (len(rows.column("question_id").unique()) * (1 - reused / rows.num_rows))}


def seconds_of(
    instance: dg.DagsterInstance,
    assets: Sequence[str],
    partitions: Sequence[str] | None = None,
    metadata: str = SECONDS,
) -> float | None:
    """Seconds a question through all of these steps together, each as last computed; None where one never was."""
    total = 0.0
    for asset in assets:
        wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset.split("/")), asset_partitions=partitions)
        events = (r.asset_materialization for r in instance.fetch_materializations(wanted, limit=LATEST).records)
        values = (event.metadata.get(metadata) for event in events if event is not None)
        last = next((value for value in values if value is not None), None)
        if last is None:
            return None
        total += float(str(last.value))
    return total
