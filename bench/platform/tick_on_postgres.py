"""Seconds that a tick takes on Postgres with a connection for each query, as Dagster has it, and with one that is kept.

    python -m bench.platform.tick_on_postgres

Each partition of the profile's assets is recorded as materialized once, so that nothing is stale. Needs the extra
``deploy`` and Postgres' programs; leaves nothing behind.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import dagster as dg

from evidence_assets.assets.automation import request_stale_assets
from evidence_assets.assets.change_sensors import reuse_instance
from evidence_assets.assets.definitions import load_definitions
from tools.cluster_processes import REPOSITORY, Cluster

REPEATS = 3


def record_all(repository: dg.RepositoryDefinition, instance: dg.DagsterInstance) -> int:
    """Record a materialization of each partition that is known without a run; returns their number."""
    n_recorded, graph = 0, repository.asset_graph
    for key in graph.toposorted_asset_keys:
        definition = graph.get(key).partitions_def
        names = definition.get_partition_keys(dynamic_partitions_store=instance) if definition else [None]
        for name in names if graph.get(key).is_executable else ():
            event = dg.AssetMaterialization(key, partition=name, tags={"dagster/data_version": "1"})
            instance.report_runless_asset_event(event)
            n_recorded += 1
    return n_recorded


def main() -> None:
    repository = load_definitions().get_repository_def()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # Postgres runs as a user of its own
        cluster = Cluster(Path(folder))
        home = Path(folder, "dagster_home")
        home.mkdir()
        shutil.copy(REPOSITORY / "deploy" / "dagster.yaml", home)
        try:
            cluster.postgres()
            with cluster.instance() as instance:
                print(f"{record_all(repository, instance)} partitions")
            for is_kept in (False, True) * REPEATS:
                with cluster.instance() as instance:
                    started = time.perf_counter()
                    used = reuse_instance(instance) if is_kept else instance
                    requested = request_stale_assets(repository, used, None).run_requests
                    seconds = time.perf_counter() - started
                assert not requested, requested
                print(f"{seconds:6.2f} s  {'one connection' if is_kept else 'a connection for each query'}", flush=True)
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
