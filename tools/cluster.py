"""The topology of a cluster as processes of this machine: Postgres, an S3 server, a Ray head with two workers of one
core each, code location, webserver and daemon.

    python -m tools.cluster --folder FOLDER [--benchmark sample_tables] [--variants bm25,…] [--drill postgres --drill
    worker … | --by-command]

The whole sample, or a benchmark with all that it is made from, is materialized in ``s3://lake/main`` by backfills
that the webserver is asked for and the daemon carries out with ``deploy/dagster.yaml``; each run is a Ray job. With
``--by-command``, `evidence demo` or `evidence run` does it in its own processes, beside the same services. Then the
lake is compared with one that the command makes in a folder: each Parquet file must hold the same bytes. Drills harm
the work meanwhile: Postgres is restarted in mid-run; a Ray worker is killed in a run; the store is away for a minute;
a run is cancelled and its backfill asked for again; two backfills of the same partitions are asked for at once; ten
people ask for steps of one pool.

It needs Postgres' programs on this machine and the extras ``cloud``, ``deploy``, ``ray`` and ``dev``. What is started
ends with it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from threading import Timer
from typing import Any

import dagster as dg

from tools.cluster_processes import Cluster

PATIENCE = 7_200.0
DRILLS = ("postgres", "worker", "store", "cancel", "twice", "ten")
AWAY = 60.0
"""Seconds that the store is away."""
LAUNCH = """
mutation ($asked: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $asked) {
  __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }
"""
STATE = """
query ($id: String!) { partitionBackfillOrError(backfillId: $id) {
  __typename ... on PartitionBackfill { status runs(limit: 500) { id runId status } } ... on PythonError { message } } }
"""
CANCEL = "mutation ($id: String!) { terminateRun(runId: $id) { __typename } }"


def select_partitions(key: dg.AssetKey, names: Sequence[str]) -> dict[str, Any]:
    """An asset with these of its partitions, as a backfill is asked for."""
    asset = {"assetKey": {"path": list(key.path)}}
    return asset | {"partitions": {"ranges": [{"start": name, "end": name} for name in names]}} if names else asset


def selection(benchmark: str, variants: Sequence[str] = (), pool: str = "") -> list[dict[str, Any]]:
    """A benchmark's scores with all that they are made from, or those of a pool alone, as a backfill is asked for."""
    from evidence_assets.assets.definitions import load_definitions
    from evidence_assets.cli.run_selection import find_benchmark, select_assets, select_variants

    graph = load_definitions().resolve_asset_graph()
    declared = find_benchmark(benchmark)
    run_selection = select_assets(graph, declared, select_variants(declared, variants))
    assets: list[dict[str, Any]] = []
    for key in sorted(run_selection.keys or ()):
        node = graph.get(key)
        if node.is_executable and (not pool or pool in (node.pools or ())):
            names = node.partitions_def.get_partition_keys() if node.partitions_def is not None else []
            assets.append(select_partitions(key, [name for name in names if run_selection.has_partition(key, name)]))
    return assets


def select_all(cluster: Cluster, *, after_seeds: bool) -> list[dict[str, Any]]:
    """The profile's assets as selections of a backfill: those with partitions at once, or, after the seed files are
    read, those that wait for a partition of each file."""
    from evidence_assets.assets.definitions import load_definitions
    from evidence_assets.cli.run_selection import EVERYTHING, list_partitions

    graph = load_definitions().resolve_asset_graph()
    later, assets = set[dg.AssetKey](), list[dict[str, Any]]()
    with cluster.instance() as instance:
        for key in (key for level in graph.toposorted_asset_keys_by_level for key in level):
            node = graph.get(key)
            if isinstance(node.partitions_def, dg.DynamicPartitionsDefinition) or node.parent_keys & later:
                later.add(key)
            if not node.is_executable or (key in later) != after_seeds:
                continue
            names = [name for name in list_partitions(graph, key, instance, EVERYTHING) if name is not None]
            assets.append(select_partitions(key, names))
    return assets


def parquet(root: Path) -> dict[str, str]:
    """The hash of each Parquet file of a lake's tables by its name; what runs of other days are called is no part of
    it."""
    files = (
        path
        for table in sorted(root.glob("[a-z]*"))
        if table.name != "history"
        for path in table.rglob("[!.]*.parquet")
    )
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def backfill(cluster: Cluster, assets: Sequence[Mapping[str, Any]], asked_by: str) -> str:
    """Ask for a backfill; its name."""
    tags = [{"key": "evidence/asked_by", "value": asked_by}]
    answer = cluster.ask(LAUNCH, asked={"partitionsByAssets": assets, "tags": tags})
    return str(answer["backfillId"])


@contextmanager
def log_seconds(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"{time.monotonic() - began:7.1f} s  {what}", flush=True)


def run_backfill(cluster: Cluster, backfill_id: str, drill: Callable[[Sequence[Mapping[str, str]]], None]) -> str:
    """Wait for a backfill's end; ``drill`` receives its runs meanwhile."""
    deadline = time.monotonic() + PATIENCE
    while True:
        state = cluster.ask(STATE, id=backfill_id)
        if state["status"] not in ("REQUESTED", "CANCELING", "FAILING"):
            counts = [run["status"] for run in state["runs"]]
            summary = ", ".join(f"{counts.count(status)} {status}" for status in sorted(set(counts)))
            print(f"           backfill {backfill_id}: {state['status']}, runs: {summary}", flush=True)
            return str(state["status"])
        drill([run for run in state["runs"] if run["status"] == "STARTED"])
        if time.monotonic() > deadline:
            raise TimeoutError(f"the backfill took more than {PATIENCE:.0f} s")
        time.sleep(2)


def ten_at_once(cluster: Cluster, assets: Sequence[Mapping[str, Any]]) -> bool:
    """Ask for ten backfills of steps of a pool at once; whether all end, and never two of them work at the same
    time."""
    backfill_ids = [backfill(cluster, assets, f"person{number}") for number in range(10)]
    states = {run_backfill(cluster, backfill_id, lambda running: None) for backfill_id in backfill_ids}
    runs = [run["runId"] for backfill_id in backfill_ids for run in cluster.ask(STATE, id=backfill_id)["runs"]]
    steps = sorted(
        (step["startTime"], step["endTime"])
        for run in runs
        for key, step in cluster.steps(run).items()
        if not key.endswith("_sound")
    )
    alone = all(before[1] <= after[0] for before, after in pairwise(steps))
    print(f"           {len(steps)} steps of one pool, {'one after another' if alone else 'some at once'}", flush=True)
    return alone and len(steps) == 10 and states == {"COMPLETED_SUCCESS"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="new folder for all that is made")
    parser.add_argument("--benchmark", default="", help="a benchmark alone; the whole sample by default")
    parser.add_argument("--variants", default="", help="names with commas between; all that are loaded by default")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--drill", action="append", default=[], choices=DRILLS)
    way.add_argument("--by-command", action="store_true", help="without backfills")
    options = parser.parse_args()
    command = ["run", options.benchmark, "--variants", options.variants] if options.benchmark else ["demo"]
    folder = options.folder.resolve()
    folder.mkdir(parents=True)
    cluster = Cluster(folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    harmed, lost_run = set[str](), ""
    try:
        with log_seconds("Postgres, S3 server, Ray, code location, webserver and daemon are up"):
            records = cluster.postgres()
            cluster.start_store()
            cluster.start_all()

        def harm(running: Sequence[Mapping[str, str]]) -> None:
            nonlocal records, lost_run
            due = [
                drill
                for drill in ("postgres", "worker", "store", "cancel")
                if drill in options.drill and drill not in harmed
            ]
            if not running or not due:
                return
            if lost_run in {run["runId"] for run in running}:
                return  # nothing else may end it
            if due[0] == "worker":
                if at_work := cluster.runs_at_work([run["runId"] for run in running]):
                    (name, lost_run), *_ = at_work.items()
                    harmed.add("worker")
                    with log_seconds(f"drill: {name} was killed in run {lost_run[:8]}"):
                        cluster.kill(name)
                return
            harmed.add(due[0])
            if due[0] == "postgres":
                with log_seconds("drill: Postgres was restarted in mid-run"):
                    os.killpg(records.pid, signal.SIGINT)  # a fast shutdown: connections are cut
                    records.wait(60)
                    records = cluster.postgres()
            elif due[0] == "store":
                print(f"           drill: the store is away for {AWAY:.0f} s", flush=True)
                cluster.door.failures += ["503", "reset"] * 100_000
                Timer(AWAY, cluster.door.failures.clear).start()
            else:
                with log_seconds(f"drill: run {running[0]['runId'][:8]} was cancelled"):
                    cluster.ask(CANCEL, id=running[0]["runId"])

        if options.by_command:
            with log_seconds(f"`evidence {command[0]}` with the cluster's store and records"):
                run_command(cluster, "command", command, {})
            return compare_with_folder(cluster, command)
        names = [name for name in options.variants.split(",") if name]
        with log_seconds(f"backfilled: {options.benchmark or 'the whole sample'}"):
            assets = (
                selection(options.benchmark, names) if options.benchmark else select_all(cluster, after_seeds=False)
            )
            backfill_ids = [backfill(cluster, assets, "first")]
            if "twice" in options.drill:
                backfill_ids.append(backfill(cluster, assets, "second"))
            states = [run_backfill(cluster, backfill_id, harm) for backfill_id in backfill_ids]
        if lost_run:
            with cluster.instance() as instance:
                retries = instance.get_runs(filters=dg.RunsFilter(tags={"dagster/parent_run_id": lost_run}))
            print(f"           run {lost_run[:8]} again: {[run.status.value for run in retries]}", flush=True)
            if not any(run.is_success for run in retries):
                return 1
        if "store" in harmed:
            print(f"           requests that the store refused or cut off: {cluster.door.failed}", flush=True)
        if missed := set(options.drill) - harmed - {"twice", "ten"}:
            print(f"the work was over before these drills: {', '.join(sorted(missed))}", flush=True)
            return 1
        if set(states) != {"COMPLETED_SUCCESS"}:
            with log_seconds("the same backfill once more"):
                state = run_backfill(cluster, backfill(cluster, assets, "again"), lambda running: None)
            if state != "COMPLETED_SUCCESS":
                return 1
        if not options.benchmark:
            with log_seconds("backfilled: what waited for the seed files"):
                last_backfill = backfill(cluster, select_all(cluster, after_seeds=True), "first")
                if run_backfill(cluster, last_backfill, lambda running: None) != "COMPLETED_SUCCESS":
                    return 1
        if "ten" in options.drill:
            with log_seconds("drill: ten backfills at once"):
                if not ten_at_once(cluster, selection(options.benchmark or "sample_mcqa", names, "gpu")[:1]):
                    return 1
        return compare_with_folder(cluster, command)
    finally:
        cluster.stop()


def run_command(cluster: Cluster, name: str, command: Sequence[str], settings: Mapping[str, str]) -> None:
    """Run `evidence` as a machine of the cluster, but for these settings; what it says goes to a log."""
    with (cluster.folder / f"{name}.log").open("wb") as log:
        environment = cluster.environment | dict(settings)
        subprocess.run(
            cluster.python("evidence_assets.cli", *command), env=environment, check=True, stdout=log, stderr=log
        )


def compare_with_folder(cluster: Cluster, command: Sequence[str]) -> int:
    """Run the command in a folder, and compare the lakes."""
    local, home = cluster.folder / "data_lake", cluster.folder / "single"
    home.mkdir()
    with log_seconds(f"`evidence {command[0]}` in a folder"):
        run_command(cluster, "single", command, {"EVIDENCE_LAKE": str(local), "DAGSTER_HOME": str(home)})
    return compared(cluster, local)


def compared(cluster: Cluster, local: Path) -> int:
    """Fetch the cluster's lake as a new machine would, and compare its files with those of the folder."""
    os.environ |= {
        name: value for name, value in cluster.environment.items() if name.startswith(("AWS_", "EVIDENCE_LAKE"))
    }
    os.environ["EVIDENCE_CACHE"] = str(cluster.folder / "another_machine")
    from evidence_assets.lake.schemas import TABLES
    from evidence_assets.lake.store import Lake

    lake = Lake(cluster.environment["EVIDENCE_LAKE"])
    with log_seconds("fetched by another machine"):
        for name in (*TABLES, "cache"):
            lake.folder(name)
    return print_comparison(parquet(lake.root), parquet(local), lake.address)


def print_comparison(our_files: Mapping[str, str], expected: Mapping[str, str], address: str) -> int:
    """Say which files of the folder are other ones in the store; what only the store has was made by the daemon's
    sensors."""
    changed = sorted(name for name in expected if our_files.get(name) != expected[name])
    extra_files = sorted(our_files.keys() - expected.keys())
    print(f"{len(expected)} Parquet files in the folder, {len(expected) - len(changed)} the same bytes at {address}")
    for name in changed[:20]:
        print(f"  {name}: {'differs' if name in our_files else 'is not in the store'}")
    for name in extra_files:
        print(f"  {name}: only in the store, made by the daemon's own sensors")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
