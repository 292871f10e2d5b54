"""Seconds that one tick of ``follow_data`` takes where 10,000 partitions are materialized.

    python -m bench.platform.tick

The graph is the product's own with all presets and sixteen shards of questions; the materializations are recorded
without runs, each with the tags that Dagster gives one and a preview of two kilobytes. What is asked for is compared
with what should be. Needs no lake and leaves nothing behind.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from hashlib import sha256
from itertools import groupby
from pathlib import Path

import dagster as dg
import sqlalchemy

PARTITIONS = 10_000
RELATIONS = [f"relation_{number:02}" for number in range(64)]
PREVIEW = dg.MetadataValue.md("| a cell of a preview |\n" * 85)
LIMIT = 10.0
"""Seconds of one core that a tick may take, whatever else the machine does; Dagster stops a sensor after 60."""


@sqlalchemy.event.listens_for(sqlalchemy.Engine, "connect")
def _spare_the_disk(connection: object, _record: object) -> None:
    """What is recorded need not outlive a power cut; a tick itself writes nothing."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous=OFF")


INPUT_VERSION_TAG = "dagster/input_data_version/"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"DAGSTER_HOME": folder, "EVIDENCE_LAKE": f"{folder}/lake", "EVIDENCE_PRESETS": "all"}
        os.environ["EVIDENCE_PROFILE"] = f"{folder}/many.yaml"
        Path(folder, "dagster.yaml").write_text("telemetry: {enabled: false}\n")
        Path(folder, "many.yaml").write_text("extends: embedded\nname: many\nshards: {questions: 16, corpus: 1}\n")
        with dg.DagsterInstance.get() as instance:
            measure(instance)


def measure(instance: dg.DagsterInstance) -> None:
    """Record, tick, and compare what is asked for with what should be."""
    from evidence_assets.assets import seeds
    from evidence_assets.assets.automation import (
        INPUT_POINTER_TAG,
        AssetPartition,
        InstanceRecords,
        request_stale_assets,
    )
    from evidence_assets.assets.definitions import load_definitions

    started = time.perf_counter()
    repository = load_definitions().get_repository_def()
    graph = repository.asset_graph
    instance.add_dynamic_partitions(str(seeds.RELATIONS.name), RELATIONS)
    parts, plan = [], InstanceRecords(repository, instance)
    with dg.partition_loading_context(dynamic_partitions_store=instance):
        for key in graph.toposorted_asset_keys:
            parts += [AssetPartition(key, partition) for partition in sorted(plan.partitions(key), key=str)]
        parents = {target: plan.parents(target) for target in parts}
    assert len(parts) >= PARTITIONS, f"only {len(parts)} partitions"
    last_of = {target.key: target for target in parts}
    print(f"{time.perf_counter() - started:6.2f} s  {len(graph.get_all_asset_keys())} assets of all presets loaded")

    def record(parts: list[AssetPartition], version: str) -> None:
        last_events = dict(InstanceRecords(repository, instance).last_events)
        for target in parts:
            tags = {"dagster/data_version": version, "dagster/code_version": "1"}
            for key, read in groupby(parents[target], lambda parent: parent.key):
                versions = version * len(list(read))
                if graph.get(key).is_partitioned:
                    versions = sha256(versions.encode()).hexdigest()
                tags |= {
                    INPUT_VERSION_TAG + key.to_user_string(): versions,
                    INPUT_POINTER_TAG + key.to_user_string(): str(last_events[key]),
                }
            materialization = dg.AssetMaterialization(
                target.key, partition=target.partition, metadata={"preview": PREVIEW}, tags=tags
            )
            instance.report_runless_asset_event(materialization)
            if target == last_of[target.key]:
                [stored] = instance.get_asset_records([target.key])
                last_events[target.key] = stored.asset_entry.last_materialization_storage_id or 0

    def tick(what: str, cursor: str | None, expected: set[AssetPartition]) -> str | None:
        started, busy = time.perf_counter(), time.process_time()
        result = request_stale_assets(repository, instance, cursor)
        seconds, busy = time.perf_counter() - started, time.process_time() - busy
        runs = result.run_requests or []
        requested = {AssetPartition(key, run.partition_key) for run in runs for key in run.asset_selection or ()}
        print(
            f"{seconds:6.2f} s  ({busy:.2f} s of one core) {what}: {len(requested)} asked for in {len(runs)} runs",
            flush=True,
        )
        assert requested == expected, f"{what}: {requested} instead of {expected}"
        assert busy < LIMIT, f"{what}: {busy:.1f} s"
        return result.cursor

    started = time.perf_counter()
    record(parts, "1")
    print(f"{time.perf_counter() - started:6.2f} s  {len(parts):,} materialized partitions recorded", flush=True)
    cursor = tick("first tick, all is looked at", None, set())
    record([target for target in parts if target.key.path[0] in ("knowledge", "questions", "evidence")], "1")
    cursor = tick("questions, knowledge and evidence materialized again with the same content", cursor, set())
    cursor = tick("nothing was made", cursor, set())
    changed = AssetPartition(seeds.SEEDS, RELATIONS[7])
    record([changed], "2")
    children = {target for target in parts if changed in parents[target]}
    tick("one seed has changed", cursor, {child for child in children if children.isdisjoint(parents[child])})


if __name__ == "__main__":
    main()
