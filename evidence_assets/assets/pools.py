"""Concurrency pools: how many steps that need a card or a served model run at once, however many runs are under way."""

from __future__ import annotations

import dagster as dg

from evidence_assets import profiles


def set_limits(instance: dg.DagsterInstance) -> dict[str, int]:
    """Give an instance the limits of the profile in use, and return them by pool."""
    limits = profiles.load().pools.model_dump()
    for pool, limit in limits.items():
        instance.event_log_storage.set_concurrency_slots(pool, limit)
    return limits
