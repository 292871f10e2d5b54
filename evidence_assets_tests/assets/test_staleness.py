"""What Dagster itself calls stale: exactly what a change of code or of an input touches."""

from __future__ import annotations

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from evidence_assets.definitions import defs
from evidence_assets_tests.conftest import World


@pytest.fixture
def instance(changed_world: World, monkeypatch: pytest.MonkeyPatch) -> dg.DagsterInstance:
    for name, value in changed_world.environment.items():
        monkeypatch.setenv(name, value)
    return dg.DagsterInstance.get()


def stale(instance: dg.DagsterInstance, loaded: dg.Definitions) -> dict[str, str]:
    """Every stale asset partition with its status."""
    graph = loaded.resolve_asset_graph()
    found = {}
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    for key in graph.materializable_asset_keys:
        definition = graph.get(key).partitions_def
        for partition in (
            [None] if definition is None else definition.get_partition_keys(dynamic_partitions_store=instance)
        ):
            status = resolver.get_status(key, partition)
            if status != StaleStatus.FRESH:
                found[key.to_user_string() + (f"[{partition}]" if partition else "")] = status.value
    return found


def test_everything_is_fresh_after_a_whole_run(instance: dg.DagsterInstance) -> None:
    assert stale(instance, defs()) == {}


def test_the_same_content_made_again_makes_nothing_stale_and_other_content_what_reads_it(
    instance: dg.DagsterInstance,
) -> None:
    loaded = defs()
    job = loaded.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey(["raw", "sample"])]).success
    assert stale(instance, loaded) == {}
    instance.report_runless_asset_event(
        dg.AssetMaterialization(["tables"], partition="sample_tables", tags={"dagster/data_version": "another"})
    )
    found = set(stale(instance, defs()))
    direct = {name for name in found if name.startswith("evidence/table/")}
    assert direct
    assert all("sample_tables" in name for name in found), found
    assert not any(name.startswith(("corpus", "raw", "questions", "tables")) for name in found)


def test_a_new_code_version_marks_that_asset_and_what_stands_on_it(instance: dg.DagsterInstance) -> None:
    key = dg.AssetKey(["evidence", "mcqa", "bm25"])
    changed = defs().map_asset_specs(
        func=lambda spec: spec.replace_attributes(code_version="another") if spec.key == key else spec
    )
    found = set(stale(instance, changed))
    assert {name.split("[")[0] for name in found} >= {"evidence/mcqa/bm25"}
    assert all("/mcqa/bm25" in name for name in found), found
