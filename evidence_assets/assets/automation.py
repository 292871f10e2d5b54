"""When an asset is made again by itself: when the data that it read has changed, and only then.

Dagster's own ``eager`` fires on every new materialization, whatever its content, and forgets what happens while a run
is under way or before the first tick. Here the question is put to what is recorded, not to what happened since the last
tick: has a dependency another data version than the one that this asset was made from? So nothing is lost while the
daemon is down, and the same content made again moves nothing.
"""

from __future__ import annotations

import dagster as dg
from dagster._core.asset_graph_view.asset_graph_view import AssetGraphView
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleCauseCategory
from dagster._core.definitions.events import AssetKeyPartitionKey


class InputsChanged(dg.AutomationCondition[dg.AssetKey]):
    """True of the partitions that were made from other data than there is now, and were not tried since.

    A change of code is not a change of data: it makes assets stale in the UI and requests nothing. A partition that
    was never made counts only where partitions come and go (one per seed file); there it is true once everything that
    it reads is there. It waits while anything above it is being made or about to be, so that an asset that a change
    reaches on two ways is made once. A run that failed is not repeated until its inputs change again.
    """

    @property
    def name(self) -> str:
        return "inputs_changed"

    @property
    def description(self) -> str:
        return "A dependency has another data version than the one this was made from, and all above is at rest"

    @property
    def requires_cursor(self) -> bool:
        return False

    async def evaluate(  # type: ignore[override]
        self, context: dg.AutomationContext[dg.AssetKey]
    ) -> dg.AutomationResult[dg.AssetKey]:
        view = context.asset_graph_view
        queryer = view.get_inner_queryer_for_back_compat()
        resolver = CachingStaleStatusResolver(view.instance, view.asset_graph, view, queryer)
        changed = set()
        for one in context.candidate_subset.expensively_compute_asset_partitions():
            since = _changed_at(view, resolver, one)
            if since and not _tried_since(view, one, since) and await _at_rest(context, one):
                changed.add(one)
        return dg.AutomationResult(context, view.get_asset_subset_from_asset_partitions(context.key, changed))


def _tried_since(view: AssetGraphView, one: AssetKeyPartitionKey, event: int) -> bool:
    """Whether a run that was to make the partition was planned after the event."""
    planned = view.instance.event_log_storage.get_latest_planned_materialization_info(one.asset_key, one.partition_key)
    return planned is not None and planned.storage_id > event


async def _at_rest(context: dg.AutomationContext[dg.AssetKey], one: AssetKeyPartitionKey) -> bool:
    """Whether nothing that the partition is made of, near or far, is being made or was asked for in this tick."""
    view = context.asset_graph_view
    above = [view.get_asset_subset_from_asset_partitions(one.asset_key, {one})]
    seen: set[dg.AssetKey] = set()
    while above:
        subset = above.pop()
        for key in view.asset_graph.get(subset.key).parent_keys - seen:
            seen.add(key)
            parent = view.compute_parent_subset(key, subset)
            asked = context.request_subsets_by_key.get(key)
            running = await view.compute_run_in_progress_subset(key=key, from_subset=parent)
            if any(not parent.compute_intersection(busy).is_empty for busy in (asked, running) if busy is not None):
                return False
            above.append(parent)
    return True


def _made_at(view: AssetGraphView, one: AssetKeyPartitionKey) -> int:
    """Number of the event that made a partition last; 0 where it was never made."""
    record = view.get_inner_queryer_for_back_compat().get_latest_materialization_or_observation_record(one)
    return record.storage_id if record else 0


def _changed_at(view: AssetGraphView, resolver: CachingStaleStatusResolver, one: AssetKeyPartitionKey) -> int:
    """Number of the latest event that made other data of what a partition reads; 0 where its data is as it was."""
    made = _made_at(view, one)
    if made:
        since = 0
        for cause in resolver.get_stale_causes(one.asset_key, one.partition_key):
            moved = _made_at(view, cause.dependency) if cause.dependency is not None else 0
            # a dependency that is new to the asset counts once it is made after it
            if cause.category == StaleCauseCategory.DATA or (
                cause.category == StaleCauseCategory.DEPENDENCIES and moved > made
            ):
                since = max(since, moved)
        return since
    node = view.asset_graph.get(one.asset_key)
    if not isinstance(node.partitions_def, dg.DynamicPartitionsDefinition):
        return 0
    itself = view.get_asset_subset_from_asset_partitions(one.asset_key, {one})
    read = [
        _made_at(view, dependency)
        for parent in node.parent_keys
        for dependency in view.compute_parent_subset(parent, itself).expensively_compute_asset_partitions()
    ]
    return max(read) if read and all(read) else 0


FOLLOW = InputsChanged() & ~dg.AutomationCondition.in_progress()
"""For every asset that is made of others: made again when their data has changed and all of them have come to rest."""
