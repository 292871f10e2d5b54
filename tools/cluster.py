"""The topology of a cluster as processes of this machine: Postgres, an S3 server, a Ray head with two workers of one core each,
code location, webserver and daemon.

    python -m tools.cluster --folder FOLDER [--benchmark sample_tables] [--variants bm25,…] [--drill postgres --drill worker …]

The whole sample, or a benchmark with all that it is made from, is materialized in ``s3://lake/main`` by backfills that the
webserver is asked for and the daemon carries out with ``deploy/dagster.yaml``; each step is a Ray job. Then the lake is compared
with one that `evidence demo`, or `evidence run`, makes in a folder: each Parquet file must hold the same bytes. Drills harm the work meanwhile: Postgres is
restarted in mid-run; a Ray worker is killed at a step; the store is away for a minute; a run is cancelled and its backfill
asked for again; two backfills of the same partitions are asked for at once; ten people ask for steps of one pool.

It needs Postgres' programs on this machine and the extras ``cloud``, ``deploy``, ``ray`` and ``dev``. What is started ends with
it.
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
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from itertools import pairwise
from pathlib import Path
from threading import Thread, Timer
from typing import Any

from evidence_assets_tests.lake.stores import Failing

REPOSITORY = Path(__file__).resolve().parent.parent
PATIENCE = 7_200.0
DRILLS = ("postgres", "worker", "store", "cancel", "twice", "ten")
AWAY = 60.0
"""Seconds that the store is away."""
NAME = "CLUSTER_PROCESS"
"""Variable of each process, and of all that it starts: which one of which cluster."""
WORKERS = ("worker1", "worker2")
LAUNCH = """
mutation ($asked: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $asked) {
  __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }
"""
STATE = """
query ($id: String!) { partitionBackfillOrError(backfillId: $id) {
  __typename ... on PartitionBackfill { status runs(limit: 500) { id runId status } } ... on PythonError { message } } }
"""
STEPS = """
query ($id: ID!) { runOrError(runId: $id) {
  __typename ... on Run { stepStats { stepKey status startTime endTime attempts { startTime } } } ... on PythonError { message } } }
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
        self.ports = {name: free_port() for name in ("postgres", "store", "ray", "jobs", "code", "webserver")}
        self.door = Failing(f"http://127.0.0.1:{self.ports['store']}")
        base = os.environ.get("EVIDENCE_PROFILE", "embedded")
        self.profile = str(Path(base).resolve()) if Path(base).is_file() else base
        self.environment = {
            **os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "DAGSTER_HOME": str(folder / "dagster_home"), "EVIDENCE_LAKE": "s3://lake/main",
            "EVIDENCE_CACHE": str(folder / "cache"), "AWS_ENDPOINT_URL": self.door.address,
            "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": secrets.token_hex(8),
            "DAGSTER_PG_HOST": "127.0.0.1", "DAGSTER_PG_PORT": str(self.ports["postgres"]), "DAGSTER_PG_USER": "dagster",
            "DAGSTER_PG_PASSWORD": secrets.token_hex(8), "DAGSTER_PG_DB": "postgres", "EVIDENCE_CODE_HOST": "127.0.0.1",
            "EVIDENCE_CODE_PORT": str(self.ports["code"]), "RAY_ADDRESS": f"http://127.0.0.1:{self.ports['jobs']}",
            "EVIDENCE_PROFILE": str(folder / "on_ray.yaml"),
            "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32),
        }  # fmt: skip
        (folder / "on_ray.yaml").write_text(f"extends: {self.profile}\nname: on_ray\nexecutor: ray\n")

    def start(self, name: str, command: Sequence[str | Path], **how: Any) -> subprocess.Popen[bytes]:
        """A process whose whole group ends with the cluster; what it says goes to a log of its own."""
        environment = self.environment | {NAME: self.mark(name)}
        options: dict[str, Any] = {"env": environment, "cwd": self.folder} | how
        with (self.folder / f"{name}.log").open("ab") as log:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                [str(part) for part in command], stdout=log, stderr=log, start_new_session=True, **options
            )
        self._ends.callback(end, process, self.mark(name))
        return process

    def mark(self, name: str) -> str:
        """What a process that was started under this name has in its environment."""
        return f"{self.folder}:{name}"

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
        Thread(target=self.door.serve_forever, daemon=True).start()
        self._ends.callback(self.door.shutdown)
        self.start_ray()
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

    def start_ray(self) -> None:
        """A head that does no work, and workers of one core each."""
        # A node that is not up in half a minute gives up, and begins again, as its container would.
        node: list[str | Path] = [
            "sh",
            "-c",
            'until "$@"; do sleep 2; done',
            "node",
            Path(sys.executable).with_name("ray"),
            "start",
        ]
        port = str(self.ports["ray"])
        shared: list[str | Path] = ["--block", "--disable-usage-stats", "--object-store-memory", "200000000"]

        def ports() -> list[str]:
            """Of a node's own: several of them share this machine."""
            return ["--min-worker-port=0", "--max-worker-port=0", f"--dashboard-agent-listen-port={free_port()}"]

        head = ["--head", "--num-cpus", "0", "--port", port, f"--ray-client-server-port={free_port()}"]
        jobs = ["--dashboard-host", "127.0.0.1", "--dashboard-port", str(self.ports["jobs"])]
        self.start("head", [*node, *head, *jobs, "--temp-dir", self.folder / "ray", *shared, *ports()])
        wait(lambda: answers(self.ports["jobs"]), "Ray's head", 300)
        for name in WORKERS:
            self.start(name, [*node, "--address", f"127.0.0.1:{port}", "--num-cpus", "1", *shared, *ports()])

    def steps_at_work(self) -> dict[str, str]:
        """The step that each Ray worker is at, by the worker's name."""
        at = {}
        for name in WORKERS:
            for process in processes(f"{NAME}={self.mark(name)}"):
                with suppress(OSError):
                    told = dict(pair.partition("=")[::2] for pair in (process / "environ").read_text().split("\0"))
                    if "DAGSTER_RUN_STEP_KEY" in told and "execute_step" in (process / "cmdline").read_text():
                        at[name] = told["DAGSTER_RUN_STEP_KEY"]
        return at

    def kill(self, name: str) -> None:
        """Kill a process and all that it started, as a machine does that loses its power."""
        for process in processes(f"{NAME}={self.mark(name)}"):
            with suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGKILL)

    def steps(self, run: str) -> dict[str, Mapping[str, Any]]:
        """What is known of each step of a run."""
        return {step["stepKey"]: step for step in self.ask(STEPS, id=run)["stepStats"]}

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

    @contextmanager
    def instance(self) -> Iterator[Any]:
        """Dagster's records, as a process of the cluster opens them."""
        import dagster as dg

        before = dict(os.environ)
        os.environ |= self.environment
        try:
            with dg.DagsterInstance.get() as instance:
                yield instance
        finally:
            os.environ.clear()
            os.environ.update(before)

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


def processes(words: str) -> list[Path]:
    """Folders of the processes that have these words in their environment, whatever session is theirs."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if words.encode() in (place / "environ").read_bytes().split(b"\0"):
                found.append(place)
    return found


def end(process: subprocess.Popen[bytes], mark: str) -> None:
    """End a process with all that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                continue
    for outlived in processes(f"{NAME}={mark}"):
        with suppress(ProcessLookupError):
            os.kill(int(outlived.name), signal.SIGKILL)


def selection(benchmark: str, variants: Sequence[str] = (), pool: str = "") -> list[dict[str, Any]]:
    """A benchmark's scores with all that they are made from, or those of a pool alone, as a backfill is asked for."""
    from evidence_assets.cli.run import benchmark_named, chosen_variants, needed
    from evidence_assets.definitions import defs

    graph = defs().resolve_asset_graph()
    declared = benchmark_named(benchmark)
    wanted = needed(graph, declared, chosen_variants(declared, variants))
    asked: list[dict[str, Any]] = []
    for key in sorted(wanted.keys or ()):
        definition = graph.get(key).partitions_def if graph.get(key).is_executable else None
        names = [n for n in definition.get_partition_keys() if wanted.partition(n)] if definition is not None else []
        one: dict[str, Any] = {"assetKey": {"path": list(key.path)}}
        if names:
            one["partitions"] = {"ranges": [{"start": name, "end": name} for name in names]}
        if graph.get(key).is_executable and (not pool or pool in (graph.get(key).pools or ())):
            asked.append(one)
    return asked


def whole(cluster: Cluster, *, found_out: bool) -> list[dict[str, Any]]:
    """All that the profile loads, as backfills are asked for: what is known at once, or, once the seed files are looked at,
    the rest, which waits for a partition of each."""
    import dagster as dg

    from evidence_assets.cli.demo import EVERYTHING, partitions_of
    from evidence_assets.definitions import defs

    graph = defs().resolve_asset_graph()
    later, asked = set[dg.AssetKey](), list[dict[str, Any]]()
    with cluster.instance() as instance:
        for key in (key for level in graph.toposorted_asset_keys_by_level for key in level):
            node = graph.get(key)
            if isinstance(node.partitions_def, dg.DynamicPartitionsDefinition) or node.parent_keys & later:
                later.add(key)
            if not node.is_executable or (key in later) != found_out:
                continue
            names = [name for name in partitions_of(graph, key, instance, EVERYTHING) if name is not None]
            over = {"partitions": {"ranges": [{"start": name, "end": name} for name in names]}} if names else {}
            asked.append({"assetKey": {"path": list(key.path)}} | over)
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


def backfill(
    cluster: Cluster, wanted: Sequence[Mapping[str, Any]], asked_by: str, execution: Mapping[str, Any] | None = None
) -> str:
    """Ask for a backfill; its name."""
    from evidence_assets.assets.in_process import ASKED_BY

    asked: dict[str, Any] = {"partitionsByAssets": wanted, "tags": [{"key": ASKED_BY, "value": asked_by}]}
    if execution is not None:
        asked["runConfigData"] = json.dumps({"execution": {"config": execution}})
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


def ten_at_once(cluster: Cluster, wanted: Sequence[Mapping[str, Any]]) -> bool:
    """Ask for ten backfills of steps of a pool at once; whether all end, and never two of them work at the same time."""
    asked = [backfill(cluster, wanted, f"person{number}") for number in range(10)]
    ended = {carried_out(cluster, one, lambda running: None) for one in asked}
    runs = [run["runId"] for one in asked for run in cluster.ask(STATE, id=one)["runs"]]
    steps = sorted(
        (step["startTime"], step["endTime"])
        for run in runs
        for key, step in cluster.steps(run).items()
        if not key.endswith("_sound")
    )
    alone = all(before[1] <= after[0] for before, after in pairwise(steps))
    print(f"           {len(steps)} steps of one pool, {'one after another' if alone else 'some at once'}", flush=True)
    return alone and len(steps) == 10 and ended == {"COMPLETED_SUCCESS"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="new folder for all that is made")
    parser.add_argument("--benchmark", default="", help="a benchmark alone; the whole sample by default")
    parser.add_argument("--variants", default="", help="names with commas between; all that are loaded by default")
    parser.add_argument("--drill", action="append", default=[], choices=DRILLS)
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True)
    cluster = Cluster(folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    harmed, lost = set[str](), ("", "")
    try:
        with timed("Postgres, S3 server, Ray, code location, webserver and daemon are up"):
            records = cluster.postgres()
            cluster.start_all()

        def harm(running: Sequence[Mapping[str, str]]) -> None:
            nonlocal records, lost
            due = [
                drill
                for drill in ("postgres", "worker", "store", "cancel")
                if drill in options.drill and drill not in harmed
            ]
            if not running or not due:
                return
            if lost[0] and cluster.steps(lost[0])[lost[1]]["status"] != "SUCCESS":
                return  # nothing else may end its run
            if due[0] == "worker":
                for run in (run["runId"] for run in running):
                    under_way = {key for key, step in cluster.steps(run).items() if step["status"] == "IN_PROGRESS"}
                    for name, step in cluster.steps_at_work().items():
                        if step in under_way and not step.endswith("_sound"):
                            harmed.add("worker")
                            with timed(f"drill: {name} was killed at {step}"):
                                cluster.kill(name)
                            lost = run, step
                            return
                return
            harmed.add(due[0])
            if due[0] == "postgres":
                with timed("drill: Postgres was restarted in mid-run"):
                    os.killpg(records.pid, signal.SIGINT)  # a fast shutdown: connections are cut
                    records.wait(60)
                    records = cluster.postgres()
            elif due[0] == "store":
                print(f"           drill: the store is away for {AWAY:.0f} s", flush=True)
                cluster.door.failures += ["503", "reset"] * 100_000
                Timer(AWAY, cluster.door.failures.clear).start()
            else:
                with timed(f"drill: run {running[0]['runId'][:8]} was cancelled"):
                    cluster.ask(CANCEL, id=running[0]["runId"])

        names = [name for name in options.variants.split(",") if name]
        with timed(f"backfilled: {options.benchmark or 'the whole sample'}"):
            wanted = selection(options.benchmark, names) if options.benchmark else whole(cluster, found_out=False)
            asked = [backfill(cluster, wanted, "first")]
            if "twice" in options.drill:
                asked.append(backfill(cluster, wanted, "second"))
            ended = [carried_out(cluster, one, harm) for one in asked]
        if lost[0]:
            told_of = cluster.steps(lost[0])[lost[1]]
            print(f"           {lost[1]}: {told_of['status']}, attempts: {len(told_of['attempts'])}", flush=True)
            if told_of["status"] != "SUCCESS":
                return 1
        if "store" in harmed:
            print(f"           requests that the store refused or cut off: {cluster.door.failed}", flush=True)
        if missed := set(options.drill) - harmed - {"twice", "ten"}:
            print(f"the work was over before these drills: {', '.join(sorted(missed))}", flush=True)
            return 1
        if set(ended) != {"COMPLETED_SUCCESS"}:
            with timed("the same backfill once more"):
                again = carried_out(cluster, backfill(cluster, wanted, "again"), lambda running: None)
            if again != "COMPLETED_SUCCESS":
                return 1
        if not options.benchmark:
            with timed("backfilled: what waited for the seed files"):
                rest = backfill(cluster, whole(cluster, found_out=True), "first")
                if carried_out(cluster, rest, lambda running: None) != "COMPLETED_SUCCESS":
                    return 1
        if "ten" in options.drill:
            with timed("drill: ten backfills at once"):
                if not ten_at_once(cluster, selection(options.benchmark or "sample_mcqa", names, "gpu")[:1]):
                    return 1
        command = ["run", options.benchmark, "--variants", options.variants] if options.benchmark else ["demo"]
        with timed(f"`evidence {command[0]}` in a folder"):
            local = folder / "data_lake"
            single = cluster.environment | {
                "EVIDENCE_LAKE": str(local), "DAGSTER_HOME": str(folder / "single"), "EVIDENCE_PROFILE": cluster.profile,
            }  # fmt: skip
            (folder / "single").mkdir()
            shutil.copy(REPOSITORY / "dagster.yaml", folder / "single")
            with (folder / "single.log").open("wb") as log:
                subprocess.run(
                    cluster.python("evidence_assets.cli", *command), env=single, check=True, stdout=log, stderr=log
                )
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
