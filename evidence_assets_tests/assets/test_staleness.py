"""What is stale, in Dagster's eyes and in those of the sensor: exactly what a change of code or of an input touches."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from evidence_assets.assets.automation import Records
from evidence_assets.definitions import defs
from evidence_assets_tests.conftest import World

CHANGED_CODE = """
import dagster as dg

from evidence_assets.definitions import defs as unchanged

changed = unchanged().map_asset_specs(
    func=lambda spec: spec.replace_attributes(code_version="another") if spec.key == dg.AssetKey({path}) else spec
)
"""


@pytest.fixture
def world(changed_world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    for name, value in changed_world.environment.items():
        monkeypatch.setenv(name, value)
    return changed_world


def shown_stale(world: World, *code: str) -> set[str]:
    """What the UI shows as anything but fresh, with its partition; asked of Dagster's own command line."""
    graph = defs().resolve_asset_graph()
    keys = [
        [key for key in graph.get_all_asset_keys() if graph.get(key).is_partitioned is whether]
        for whether in (False, True)
    ]
    whole, parted = ("[" + ",".join(f"{{path: {json.dumps(key.path)}}}" for key in some) + "]" for some in keys)
    query = f"""{{
        whole: assetNodes(assetKeys: {whole}) {{ assetKey {{ path }} staleStatus }}
        parted: assetNodes(assetKeys: {parted}) {{ assetKey {{ path }} partitionKeys staleStatusByPartition }}
    }}"""
    answer = world.root / "answer.json"
    command = [str(Path(sys.executable).with_name("dagster-graphql")), "--text", query, "--output", str(answer), *code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    data = json.loads(answer.read_text())["data"]
    assert len(data["whole"]) + len(data["parted"]) == len(graph.get_all_asset_keys())
    status = {"/".join(node["assetKey"]["path"]): node["staleStatus"] for node in data["whole"]}
    for node in data["parted"]:
        for partition, value in zip(node["partitionKeys"], node["staleStatusByPartition"], strict=True):
            status[f"{'/'.join(node['assetKey']['path'])}[{partition}]"] = value
    return {name for name, value in status.items() if value != "FRESH"}


def changed(instance: dg.DagsterInstance) -> set[str]:
    """Asset partitions that the sensor knows to be made from other data than there is now."""
    records = Records(defs().get_repository_def(), instance)
    with dg.partition_loading_context(dynamic_partitions_store=instance):
        parts = [part for key in records.last for part, _ in records.changed(key)]
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
    assert found == shown_stale(world, "--module-name", "evidence_assets.definitions")


@pytest.mark.long
def test_a_new_code_version_marks_that_asset_and_what_stands_on_it(world: World) -> None:
    code = world.root / "changed_code.py"
    code.write_text(CHANGED_CODE.format(path=["evidence", "mcqa", "bm25"]))
    found = shown_stale(world, "--python-file", str(code), "--attribute", "changed")
    assert {name.split("[")[0] for name in found} >= {"evidence/mcqa/bm25"}
    assert all("/mcqa/bm25" in name for name in found), found
    assert changed(dg.DagsterInstance.get()) == set(), "a change of code is not a change of data"
