"""The topology of a cluster as processes of this machine: Postgres, an S3 server, code location, webserver and daemon.

    python -m tools.cluster --folder FOLDER [--benchmark sample_tables] [--drill postgres --drill cancel --drill twice]

A benchmark, with all that it is made from, is materialized in ``s3://lake/main`` by a backfill that the webserver is asked for
and the daemon carries out with ``deploy/dagster.yaml``. Then the lake is compared with one that `evidence run` makes in a folder:
each Parquet file must hold the same bytes. Drills harm the work meanwhile: Postgres is restarted in mid-run; a run is
cancelled and its backfill asked for again; two backfills of the same partitions are asked for at once.

It needs Postgres' programs on this machine and the extras ``cloud``, ``deploy`` and ``dev``. What is started ends with it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
PATIENCE = 1_800.0
DRILLS = ("postgres", "cancel", "twice")
LAUNCH = """
mutation ($asked: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $asked) {
  __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }
"""
STATE = """
query ($id: String!) { partitionBackfillOrError(backfillId: $id) {
  __typename ... on PartitionBackfill { status runs(limit: 500) { id runId status } } ... on PythonError { message } } }
"""
CANCEL = "mutation ($id: String!) { terminateRun(runId: $id) { __typename } }"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def wait(done: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} took more than {seconds:.0f} s")
        time.sleep(0.5)


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


class Cluster:
    """What was started, and how it is ended."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._ends = folder, ExitStack()
        self.ports = {name: free_port() for name in ("postgres", "store", "code", "webserver")}
        self.environment = {
            **os.environ, "DAGSTER_HOME": str(folder / "dagster_home"), "EVIDENCE_LAKE": "s3://lake/main",
            "EVIDENCE_CACHE": str(folder / "cache"), "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.ports['store']}",
            "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": secrets.token_hex(8),
            "DAGSTER_PG_HOST": "127.0.0.1", "DAGSTER_PG_PORT": str(self.ports["postgres"]), "DAGSTER_PG_USER": "dagster",
            "DAGSTER_PG_PASSWORD": secrets.token_hex(8), "DAGSTER_PG_DB": "postgres", "EVIDENCE_CODE_HOST": "127.0.0.1",
            "EVIDENCE_CODE_PORT": str(self.ports["code"]),
        }  # fmt: skip

    def start(self, name: str, command: Sequence[str | Path], **how: Any) -> subprocess.Popen[bytes]:
        """A process whose whole group ends with the cluster; what it says goes to a log of its own."""
        options: dict[str, Any] = {"env": self.environment, "cwd": self.folder} | how
        with (self.folder / f"{name}.log").open("ab") as log:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                [str(part) for part in command], stdout=log, stderr=log, start_new_session=True, **options
            )
        self._ends.callback(end, process)
        return process

    def python(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", *arguments]

    def postgres(self) -> subprocess.Popen[bytes]:
        """Postgres over a folder of its own, as a user that it accepts."""
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin")) or [Path(shutil.which("initdb") or "initdb").parent]
        programs, data = found[-1], self.folder / "postgres"
        own: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
        if not data.exists():
            data.mkdir()
            if own:
                shutil.chown(data, "postgres", "postgres")
            made = [programs / "initdb", "-D", data, "-U", "dagster", "-A", "trust", "--no-sync"]
            subprocess.run([str(part) for part in made], check=True, stdout=subprocess.DEVNULL, cwd="/", **own)
        port = str(self.ports["postgres"])
        server: list[str | Path] = [programs / "postgres", "-D", data, "-p", port, "-h", "127.0.0.1", "-k", data, "-F"]
        process = self.start("postgres", server, cwd="/", **own)
        wait(lambda: answers(self.ports["postgres"]), "Postgres")
        return process

    def start_all(self) -> None:
        home = self.folder / "dagster_home"
        home.mkdir(parents=True, exist_ok=True)
        for name in ("dagster.yaml", "workspace.yaml"):
            shutil.copy(REPOSITORY / "deploy" / name, home / name)
        self.start("store", self.python("moto.server", "-H", "127.0.0.1", "-p", str(self.ports["store"])))
        wait(lambda: answers(self.ports["store"]), "the S3 server")
        sent(self.ports["store"], "PUT", "/lake")
        code = (
            "code-server",
            "start",
            "-h",
            "127.0.0.1",
            "-p",
            str(self.ports["code"]),
            "-m",
            "evidence_assets.definitions",
        )
        self.start("code", self.python("dagster", *code))
        wait(lambda: answers(self.ports["code"]), "the code location", 300)
        workspace = str(home / "workspace.yaml")
        port = str(self.ports["webserver"])
        self.start("webserver", self.python("dagster_webserver", "-h", "127.0.0.1", "-p", port, "-w", workspace))
        self.start("daemon", [Path(sys.executable).with_name("dagster-daemon"), "run", "-w", workspace])
        wait(lambda: answers(self.ports["webserver"]), "the webserver", 300)

    def ask(self, query: str, **variables: Any) -> Any:
        """The webserver's answer, asked again while its records are away."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        for attempt in range(20):
            try:
                answer = json.loads(sent(self.ports["webserver"], "POST", "/graphql", body))
                [value] = answer["data"].values()
                if value["__typename"] != "PythonError":
                    return value
                told = value["message"]
            except (OSError, HTTPException, ValueError, KeyError, AttributeError, TypeError) as error:
                told = str(error)
            time.sleep(min(5, attempt + 1))
        raise RuntimeError(f"the webserver does not answer: {told}")

    def stop(self) -> None:
        self._ends.close()


def sent(port: int, method: str, path: str, body: bytes = b"") -> bytes:
    """What a server of this machine replies."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        said = reply.read()
    if reply.status >= 400:
        raise OSError(f"{reply.status} {reply.reason}: {said[:200]!r}")
    return said


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                continue
    try:
        os.killpg(process.pid, signal.SIGKILL)  # what outlived its parent
    except ProcessLookupError:
        return


def selection(benchmark: str) -> list[dict[str, Any]]:
    """A benchmark's scores with all that they are made from, as a backfill is asked for."""
    from evidence_assets.cli.run import benchmark_named, chosen_variants, needed
    from evidence_assets.definitions import defs

    graph = defs().resolve_asset_graph()
    declared = benchmark_named(benchmark)
    wanted = needed(graph, declared, chosen_variants(declared, []))
    asked: list[dict[str, Any]] = []
    for key in sorted(wanted.keys or ()):
        definition = graph.get(key).partitions_def if graph.get(key).is_executable else None
        names = [n for n in definition.get_partition_keys() if wanted.partition(n)] if definition is not None else []
        one: dict[str, Any] = {"assetKey": {"path": list(key.path)}}
        if names:
            one["partitions"] = {"ranges": [{"start": name, "end": name} for name in names]}
        if graph.get(key).is_executable:
            asked.append(one)
    return asked


def parquet(root: Path) -> dict[str, str]:
    """The hash of each Parquet file of a lake's tables by its name; what runs of other days are called is no part of it."""
    files = (
        path
        for table in sorted(root.glob("[a-z]*"))
        if table.name != "history"
        for path in table.rglob("[!.]*.parquet")
    )
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def backfill(cluster: Cluster, benchmark: str, asked_by: str) -> str:
    from evidence_assets.assets.in_process import ASKED_BY

    asked = {
        "partitionsByAssets": selection(benchmark), "tags": [{"key": ASKED_BY, "value": asked_by}],
        # A process a step would load torch for each; a run has one of its own already.
        "runConfigData": json.dumps({"execution": {"config": {"in_process": {}}}}),
    }  # fmt: skip
    answer = cluster.ask(LAUNCH, asked=asked)
    return str(answer["backfillId"])


@contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"{time.monotonic() - began:7.1f} s  {what}", flush=True)


def carried_out(cluster: Cluster, backfill_id: str, drill: Callable[[Sequence[Mapping[str, str]]], None]) -> str:
    """Wait for a backfill's end; ``drill`` is told of its runs meanwhile."""
    deadline = time.monotonic() + PATIENCE
    while True:
        state = cluster.ask(STATE, id=backfill_id)
        if state["status"] not in ("REQUESTED", "CANCELING", "FAILING"):
            counts = [run["status"] for run in state["runs"]]
            told = ", ".join(f"{counts.count(status)} {status}" for status in sorted(set(counts)))
            print(f"           backfill {backfill_id}: {state['status']}, runs: {told}", flush=True)
            return str(state["status"])
        drill([run for run in state["runs"] if run["status"] == "STARTED"])
        if time.monotonic() > deadline:
            raise TimeoutError(f"the backfill took more than {PATIENCE:.0f} s")
        time.sleep(2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="new folder for all that is made")
    parser.add_argument("--benchmark", default="sample_tables")
    parser.add_argument("--drill", action="append", default=[], choices=DRILLS)
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True)
    cluster = Cluster(folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    harmed = set[str]()
    try:
        with timed("Postgres, S3 server, code location, webserver and daemon are up"):
            records = cluster.postgres()
            cluster.start_all()

        def harm(running: Sequence[Mapping[str, str]]) -> None:
            nonlocal records
            if running and "postgres" in options.drill and "postgres" not in harmed:
                harmed.add("postgres")
                with timed("drill: Postgres was restarted in mid-run"):
                    os.killpg(records.pid, signal.SIGINT)  # a fast shutdown: connections are cut
                    records.wait(60)
                    records = cluster.postgres()
            elif running and "cancel" in options.drill and "cancel" not in harmed:
                harmed.add("cancel")
                with timed(f"drill: run {running[0]['runId'][:8]} was cancelled"):
                    cluster.ask(CANCEL, id=running[0]["runId"])

        with timed(f"the backfill of {options.benchmark}"):
            asked = [backfill(cluster, options.benchmark, "first")]
            if "twice" in options.drill:
                asked.append(backfill(cluster, options.benchmark, "second"))
            ended = [carried_out(cluster, one, harm) for one in asked]
        if "cancel" in harmed or set(ended) != {"COMPLETED_SUCCESS"}:
            with timed("the same backfill once more"):
                again = carried_out(cluster, backfill(cluster, options.benchmark, "again"), lambda running: None)
            if again != "COMPLETED_SUCCESS":
                return 1
        with timed("`evidence run` in a folder"):
            local = folder / "data_lake"
            single = cluster.environment | {"EVIDENCE_LAKE": str(local), "DAGSTER_HOME": str(folder / "single")}
            (folder / "single").mkdir()
            shutil.copy(REPOSITORY / "dagster.yaml", folder / "single")
            with (folder / "single.log").open("wb") as log:
                command = cluster.python("evidence_assets.cli", "run", options.benchmark)
                subprocess.run(command, env=single, check=True, stdout=log, stderr=log)
        return compared(cluster, local)
    finally:
        cluster.stop()


def compared(cluster: Cluster, local: Path) -> int:
    """Fetch the cluster's lake as a new machine would, and compare its files with those of the folder."""
    os.environ |= {
        name: value for name, value in cluster.environment.items() if name.startswith(("AWS_", "EVIDENCE_LAKE"))
    }
    os.environ["EVIDENCE_CACHE"] = str(cluster.folder / "another_machine")
    from evidence_assets.lake.schemas import TABLES
    from evidence_assets.lake.store import Lake

    lake = Lake(cluster.environment["EVIDENCE_LAKE"])
    with timed("fetched by another machine"):
        for name in (*TABLES, "cache"):
            lake.folder(name)
    return told(parquet(lake.root), parquet(local), lake.address)


def told(ours: Mapping[str, str], theirs: Mapping[str, str], address: str) -> int:
    """Say which files of the folder are other ones in the store; what only the store has was made by the daemon's sensors."""
    differing = sorted(name for name in theirs if ours.get(name) != theirs[name])
    more = sorted(ours.keys() - theirs.keys())
    print(f"{len(theirs)} Parquet files in the folder, {len(theirs) - len(differing)} the same bytes at {address}")
    for name in differing[:20]:
        print(f"  {name}: {'differs' if name in ours else 'is not in the store'}")
    for name in more:
        print(f"  {name}: only in the store, made by the daemon's own sensors")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
