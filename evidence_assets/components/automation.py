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
    it reads is there. A run that failed is not repeated until its inputs change again.
    """

    @property
    def name(self) -> str:
        return "inputs_changed"

    @property
    def description(self) -> str:
        return "A dependency has another data version than the one this was made from"

    @property
    def requires_cursor(self) -> bool:
        return False

    def evaluate(self, context: dg.AutomationContext[dg.AssetKey]) -> dg.AutomationResult[dg.AssetKey]:
        view = context.asset_graph_view
        queryer = view.get_inner_queryer_for_back_compat()
        resolver = CachingStaleStatusResolver(view.instance, view.asset_graph, view, queryer)
        changed = set()
        for one in context.candidate_subset.expensively_compute_asset_partitions():
            since = _changed_at(view, resolver, one)
            planned = since and view.instance.event_log_storage.get_latest_planned_materialization_info(
                one.asset_key, one.partition_key
            )
            if since and (not planned or planned.storage_id < since):
                changed.add(one)
        return dg.AutomationResult(context, view.get_asset_subset_from_asset_partitions(context.key, changed))


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


FOLLOW = (
    InputsChanged()
    & ~dg.AutomationCondition.in_progress()
    & ~dg.AutomationCondition.any_deps_in_progress()
    & ~dg.AutomationCondition.any_deps_match(dg.AutomationCondition.will_be_requested())
)
"""For every asset that is made of others: made again when their data has changed and all of them have come to rest."""
