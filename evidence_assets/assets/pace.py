"""How fast questions are answered: a fact of runs, so it stands in materialization metadata and in no row."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
import pyarrow as pa

SECONDS = "seconds_per_question"
A_MINUTE = "questions_per_minute"
A_RELATION = "seconds"
"""What every step says of itself; of a harvest, whose partitions are relations, it is the time of one."""
LOOKED_AT = 10
"""Last materializations among which one is looked for that computed anything."""


def pace(rows: pa.Table, reused: int, seconds: float) -> dict[str, float]:
    """Metadata of a step that made rows of questions: seconds a question of those that were not taken over."""
    if "question_id" not in rows.column_names or rows.num_rows == reused:
        return {}
    questions = len(rows.column("question_id").unique()) * (1 - reused / rows.num_rows)
    return {SECONDS: seconds / questions, A_MINUTE: 60 * questions / seconds} if seconds else {}


def pace_of(instance: dg.DagsterInstance, assets: Sequence[str], partitions: Sequence[str]) -> dict[str, float]:
    """Metadata of a variant: questions a minute through all its steps, ``60 / Σ seconds a question``."""
    seconds = seconds_of(instance, assets, partitions)
    return {A_MINUTE: 60 / seconds} if seconds else {}


def seconds_of(
    instance: dg.DagsterInstance,
    assets: Sequence[str],
    partitions: Sequence[str] | None = None,
    metadata: str = SECONDS,
) -> float | None:
    """Seconds a question through all of these steps together.

    Each step counts as it was last computed for any of these partitions, or for any at all where none are named. None
    where one was never computed, or so long ago that it is not among the last materializations.
    """
    total = 0.0
    for asset in assets:
        wanted = dg.AssetRecordsFilter(
            asset_key=dg.AssetKey(asset.split("/")), asset_partitions=None if partitions is None else list(partitions)
        )
        for record in instance.fetch_materializations(wanted, limit=LOOKED_AT).records:
            event = record.asset_materialization
            value = event.metadata.get(metadata) if event is not None else None
            if value is not None:
                total += float(str(value.value))
                break
        else:
            return None
    return total
