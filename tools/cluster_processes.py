"""The processes of a cluster on this machine: what is started, how it is asked, killed and ended.

Belongs here: Postgres, an S3 server, a Ray head with two workers of one core each, code location, webserver and
daemon, each with a log of its own. What is asked of them, and the drills that harm their work, are in
``tools.cluster``.
"""

from __future__ import annotations

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
from pathlib import Path
from threading import Thread
from typing import Any

from tools.faulty_proxy import FaultyProxy
from tools.ports import free_port

REPOSITORY = Path(__file__).resolve().parent.parent
NAME = "CLUSTER_PROCESS"
"""Variable of each process, and of all that it starts: which one of which cluster."""
WORKERS = ("worker1", "worker2")
STEPS = """
query ($id: ID!) { runOrError(runId: $id) {
  __typename ... on Run { stepStats { stepKey startTime endTime } }
  ... on PythonError { message } } }
"""


def wait(is_done: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not is_done():
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

    def __init__(self, folder: Path, module: str = "evidence_assets.definitions") -> None:
        self.folder, self.module, self._ends = folder, module, ExitStack()
        self.ports = {name: free_port() for name in ("postgres", "store", "ray", "jobs", "code", "webserver")}
        self.door = FaultyProxy(f"http://127.0.0.1:{self.ports['store']}")
        base = os.environ.get("EVIDENCE_PROFILE", "embedded")
        profile = str(Path(base).resolve()) if Path(base).is_file() else base
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "DAGSTER_HOME": str(folder / "dagster_home"),
            "EVIDENCE_LAKE": "s3://lake/main",
            "EVIDENCE_CACHE": str(folder / "cache"),
            "AWS_ENDPOINT_URL": self.door.address,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "someone",
            "AWS_SECRET_ACCESS_KEY": secrets.token_hex(8),
            "DAGSTER_PG_HOST": "127.0.0.1",
            "DAGSTER_PG_PORT": str(self.ports["postgres"]),
            "DAGSTER_PG_USER": "dagster",
            "DAGSTER_PG_PASSWORD": secrets.token_hex(8),
            "DAGSTER_PG_DB": "postgres",
            "EVIDENCE_CODE_HOST": "127.0.0.1",
            "EVIDENCE_CODE_PORT": str(self.ports["code"]),
            "RAY_ADDRESS": f"http://127.0.0.1:{self.ports['jobs']}",
            "EVIDENCE_PROFILE": profile,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
        }

    def start(self, name: str, command: Sequence[str | Path], **how: Any) -> subprocess.Popen[bytes]:
        """A process whose whole group ends with the cluster; what it says goes to a log of its own."""
        environment = self.environment | {NAME: self.mark(name)}
        options: dict[str, Any] = {"env": environment, "cwd": self.folder} | how
        with (self.folder / f"{name}.log").open("ab") as log:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                [str(word) for word in command], stdout=log, stderr=log, start_new_session=True, **options
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
        program_folders = sorted(Path("/usr/lib/postgresql").glob("*/bin")) or [
            Path(shutil.which("initdb") or "initdb").parent
        ]
        programs, data = program_folders[-1], self.folder / "postgres"
        process_user: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
        if not data.exists():
            data.mkdir()
            if process_user:
                shutil.chown(data, "postgres", "postgres")
            initdb = [programs / "initdb", "-D", data, "-U", "dagster", "-A", "trust", "--no-sync"]
            subprocess.run(
                [str(word) for word in initdb], check=True, stdout=subprocess.DEVNULL, cwd="/", **process_user
            )
        port = str(self.ports["postgres"])
        server: list[str | Path] = [programs / "postgres", "-D", data, "-p", port, "-h", "127.0.0.1", "-k", data, "-F"]
        process = self.start("postgres", server, cwd="/", **process_user)
        wait(lambda: answers(self.ports["postgres"]), "Postgres")
        return process

    def start_store(self) -> None:
        self.start("store", self.python("moto.server", "-H", "127.0.0.1", "-p", str(self.ports["store"])))
        wait(lambda: answers(self.ports["store"]), "the S3 server")
        sent(self.ports["store"], "PUT", "/lake")
        Thread(target=self.door.serve_forever, daemon=True).start()
        self._ends.callback(self.door.shutdown)

    def start_all(self) -> None:
        """Ray, code location, webserver and daemon, after Postgres and the store."""
        home = self.folder / "dagster_home"
        home.mkdir(parents=True, exist_ok=True)
        deploy = REPOSITORY / "deploy"
        shutil.copy(deploy / "workspace.yaml", home)
        config = "".join((deploy / name).read_text() for name in ("dagster.yaml", "on_ray.yaml"))
        (home / "dagster.yaml").write_text(config)
        self.start_ray()
        address = ("-h", "127.0.0.1", "-p", str(self.ports["code"]))
        self.start("code", self.python("dagster", "code-server", "start", *address, "-m", self.module))
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

    def runs_at_work(self, runs: Sequence[str]) -> dict[str, str]:
        """Those of these runs that a Ray worker is at, by the worker's name."""
        at = {}
        for name in WORKERS:
            for process in processes(f"{NAME}={self.mark(name)}"):
                with suppress(OSError):
                    command = (process / "cmdline").read_text()
                    for run in runs:
                        if "execute_run" in command and run in command:
                            at[name] = run
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
                message = value["message"]
            except (OSError, HTTPException, ValueError, KeyError, AttributeError, TypeError) as error:
                message = str(error)
            time.sleep(min(5, attempt + 1))
        raise RuntimeError(f"the webserver does not answer: {message}")

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
        reply_bytes = reply.read()
    if reply.status >= 400:
        raise OSError(f"{reply.status} {reply.reason}: {reply_bytes[:200]!r}")
    return reply_bytes


def processes(words: str) -> list[Path]:
    """Folders of the processes that have these words in their environment, whatever session is theirs."""
    process_ids = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if words.encode() in (place / "environ").read_bytes().split(b"\0"):
                process_ids.append(place)
    return process_ids


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
