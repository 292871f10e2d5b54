"""Stale assets according to Dagster and the sensor: exactly those downstream of a change."""

import dagster as dg
import pytest

from evidence_assets.assets.automation import InstanceRecords
from evidence_assets.assets.definitions import load_definitions
from evidence_assets_tests.conftest import World


@pytest.fixture
def world(changed_world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    for name, value in changed_world.environment.items():
        monkeypatch.setenv(name, value)
    return changed_world


def find_stale_names(instance: dg.DagsterInstance) -> set[str]:
    """Asset partitions that the sensor considers stale."""
    records = InstanceRecords(load_definitions().get_repository_def(), instance)
    with dg.partition_loading_context(dynamic_partitions_store=instance):
        parts = [part for key in records.last_events for part, _ in records.find_stale(key)]
    return {f"{'/'.join(key.path)}[{partition}]" for key, partition in parts}


def test_everything_is_fresh_after_a_whole_run(world: World) -> None:
    instance, graph = dg.DagsterInstance.get(), load_definitions().resolve_asset_graph()
    code_versions = instance.get_latest_materialization_code_versions(list(graph.get_all_asset_keys()))
    assert code_versions == {key: graph.get(key).code_version for key in graph.get_all_asset_keys()}
    assert find_stale_names(instance) == set()


@pytest.mark.long
def test_unchanged_data_makes_nothing_stale_and_changed_data_its_downstream_assets(world: World) -> None:
    instance = dg.DagsterInstance.get()
    job = load_definitions().resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey(["raw", "sample"])]).success
    assert find_stale_names(instance) == set()
    instance.report_runless_asset_event(
        dg.AssetMaterialization(["tables"], partition="sample_tables", tags={"dagster/data_version": "another"})
    )
    stale = find_stale_names(instance)
    assert any(name.startswith("evidence/table/") for name in stale)
    assert all("sample_tables" in name for name in stale), stale
    assert not any(name.startswith(("corpus", "raw", "questions", "tables")) for name in stale)
