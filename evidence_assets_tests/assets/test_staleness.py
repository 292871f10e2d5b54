"""What is stale, in Dagster's eyes and in those of the sensor: exactly what a change of code or of an input touches."""

from __future__ import annotations

import dagster as dg
import pytest

from evidence_assets.assets.automation import InstanceRecords
from evidence_assets.definitions import defs
from evidence_assets_tests.conftest import World


@pytest.fixture
def world(changed_world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    for name, value in changed_world.environment.items():
        monkeypatch.setenv(name, value)
    return changed_world


def changed(instance: dg.DagsterInstance) -> set[str]:
    """Asset partitions that the sensor knows to be made from other data than there is now."""
    records = InstanceRecords(defs().get_repository_def(), instance)
    with dg.partition_loading_context(dynamic_partitions_store=instance):
        parts = [part for key in records.last_events for part, _ in records.find_stale(key)]
    return {f"{'/'.join(key.path)}[{partition}]" for key, partition in parts}


def test_everything_is_fresh_after_a_whole_run(world: World) -> None:
    instance, graph = dg.DagsterInstance.get(), defs().resolve_asset_graph()
    recorded = instance.get_latest_materialization_code_versions(list(graph.get_all_asset_keys()))
    assert recorded == {key: graph.get(key).code_version for key in graph.get_all_asset_keys()}
    assert changed(instance) == set()


@pytest.mark.long
def test_the_same_content_made_again_makes_nothing_stale_and_other_content_what_reads_it(world: World) -> None:
    instance = dg.DagsterInstance.get()
    job = defs().resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey(["raw", "sample"])]).success
    assert changed(instance) == set()
    instance.report_runless_asset_event(
        dg.AssetMaterialization(["tables"], partition="sample_tables", tags={"dagster/data_version": "another"})
    )
    found = changed(instance)
    assert any(name.startswith("evidence/table/") for name in found)
    assert all("sample_tables" in name for name in found), found
    assert not any(name.startswith(("corpus", "raw", "questions", "tables")) for name in found)
