"""Every system's prompts through real servers of language models: `make check-served`.

    python -m tools.check_served --python .served/bin/python [--servers vllm transformers] [--kill-after 100]

A tiny chat model of random weights, with a real tokenizer and chat template, is written to a folder and served on
127.0.0.1 by vLLM's build for processors and by ``transformers serve`` in turn, from the environment that ``--python``
belongs to. The small sample is materialized through it with the ``openai`` backend by `evidence demo`, killed in the
middle and run to its end. What a random model says is noise; what is checked is the protocol:

- no request is refused;
- every row that failed says what was wrong with the reply;
- a reply that was kept before the kill is not asked for again;
- usage and the server's word for its revision are in what was kept.

Requests pass through a proxy of this script, which counts them. Every ten seconds a line says how many replies have
passed, how fast, and how long the demo needs still. The exit status is 1 where a check fails.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import math
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import uvicorn
import yaml
from rich.console import Console
from rich.table import Table
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from tools.ports import free_port
from tools.tiny_causal_model import save_causal_model

REPOSITORY = Path(__file__).resolve().parent.parent
SAMPLE = REPOSITORY / "evidence_assets" / "sample" / "small"
SERVERS = {
    "vllm": (
        "-m vllm.entrypoints.openai.api_server --model {model} --host 127.0.0.1 --port {port} --max-model-len 8192 "
        "--dtype float32 --max-num-seqs 16 --enforce-eager"
    ),
    "transformers": "-m transformers.cli.transformers serve {model} --host 127.0.0.1 --port {port} --dtype float32",
}
LEVELS = {"vllm": ("structured_outputs", "json_schema"), "transformers": ("none",)}
"""Ways to send the schema of a reply."""
ENVIRONMENT = {
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
THREADS = {"transformers": {"OMP_NUM_THREADS": "1"}}
"""Where more threads only wait for each other: on busy cores two answered a twentieth of what one did."""
MODEL = "local/tiny"
"""Name of the model in a cache of the hub's layout: `transformers serve` lists no other."""
CONCURRENCY = 16
CLIENT_GONE = 499
"""Status of a request whose sender closed the connection; nobody receives it."""
JSON = "application/json"
SECONDS_BETWEEN_REPORTS = 10.0
DEMO_PROGRESS = re.compile(r"^ *(\d+/\d+) +\d+ s, (about +\d+ s left)")
"""Progress in the output of `evidence demo`: assets and time left."""


@dataclass
class Proxy:
    """Stands between product and server, and notes what passes."""

    target: str
    statuses: Counter[int] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    """Times that each request had a whole reply."""
    refused: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def running(self) -> Iterator[str]:
        port = free_port()
        app = Starlette(routes=[Route("/{path:path}", self._pass, methods=["GET", "POST"])])
        config = uvicorn.Config(app, port=port, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join()

    async def _pass(self, request: Request) -> Response:
        """Pass a request on, until its sender is gone: the kill ends all that are on their way."""
        try:
            body = await request.body()
        except ClientDisconnect:
            return Response(status_code=CLIENT_GONE)
        forward = asyncio.create_task(self._forward(request, body))
        while not (await asyncio.wait([forward], timeout=0.2))[0]:
            if await request.is_disconnected():
                forward.cancel()
                return Response(status_code=CLIENT_GONE)
        try:
            reply = forward.result()
        except httpx2.HTTPError as error:
            self.refused.append(f"no reply: {error!r}")
            return Response(status_code=502)
        if request.method == "POST":
            self.statuses[reply.status_code] += 1
            self.requests[hashlib.sha256(body).hexdigest()] += 1
            if reply.status_code >= 400:
                self.refused.append(f"{reply.status_code} {reply.text[:300]}")
        return Response(reply.content, reply.status_code, media_type=JSON)

    async def _forward(self, request: Request, body: bytes) -> httpx2.Response:
        async with httpx2.AsyncClient(timeout=None) as client:
            return await client.request(
                request.method, f"{self.target}{request.url.path}", content=body, headers={"Content-Type": JSON}
            )


@dataclass
class RunningDemo:
    """A demo whose output is read while it runs, and whose progress is printed."""

    process: subprocess.Popen[str]
    proxy: Proxy
    label: str
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(self.process.stdout)

    def wait(self, replies: float = math.inf) -> bool:
        """Wait for its end, or for this many replies; returns whether it has ended."""
        started = last_report = time.monotonic()
        n_before = self.proxy.requests.total()
        while self.process.poll() is None:
            n_replies, now = self.proxy.requests.total(), time.monotonic()
            if n_replies >= replies:
                return False
            if now - last_report >= SECONDS_BETWEEN_REPORTS:
                last_report = now
                print(f"{self.label}: {self._progress((n_replies - n_before) / (now - started))}", flush=True)
            time.sleep(0.05)
        self._reader.join()
        return True

    def _progress(self, rate: float) -> str:
        matches = [match for line in self.lines if (match := DEMO_PROGRESS.match(line))]
        assets = f"{matches[-1][1]} assets, {' '.join(matches[-1][2].split())}" if matches else "starting"
        return f"{self.proxy.requests.total():,} replies, {rate:.1f} per second; {assets}"

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()

    @property
    def output(self) -> str:
        return "".join(self.lines)


@contextlib.contextmanager
def served(python: Path, server: str, cache: Path, log: Path) -> Iterator[str]:
    """The server's address, once it lists the model."""
    port = free_port()
    command = [str(python), *SERVERS[server].format(model=MODEL, port=port).split()]
    with log.open("w") as file:
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=file,
            start_new_session=True,
            env={**os.environ, **ENVIRONMENT, **THREADS.get(server, {}), "HF_HUB_CACHE": str(cache)},
        )
    try:
        for _ in range(150):
            if process.poll() is not None:
                break
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                yield f"http://127.0.0.1:{port}"
                return
            time.sleep(2)
        raise SystemExit(f"{server} did not start; its last words:\n{log.read_text()[-3000:]}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def read_completions(lake: Path) -> list[dict[str, object]]:
    """The replies in the lake's cache, and with them what the server calls its revision."""
    databases = list(lake.rglob("completions.sqlite"))
    if not databases:
        return []
    with contextlib.closing(sqlite3.connect(databases[0])) as db:
        return [json.loads(value) for (value,) in db.execute("SELECT value FROM completions")]


def demo(world: Path, url: str, constrain: str) -> subprocess.Popen[str]:
    """Start `evidence demo` of the small sample, answered by the model at this address."""
    profile = {
        "extends": "embedded",
        "name": "served",
        "sample": "small",
        "harvesting": {"training_steps": 300, "n": 20, "prompts": 2},
        "generator": {
            "backend": "openai",
            "name": MODEL,
            "base_url": f"{url}/v1",
            "constrain": constrain,
            "concurrency": CONCURRENCY,
        },
    }
    (world / "profile.yaml").write_text(yaml.safe_dump(profile), encoding="utf-8")
    environment = {
        **os.environ,
        "EVIDENCE_LAKE": str(world / "lake"),
        "DAGSTER_HOME": str(world),
        "EVIDENCE_PROFILE": str(world / "profile.yaml"),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "evidence_assets.cli", "demo"],
        env=environment,
        cwd=REPOSITORY,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def check(
    python: Path, server: str, constrain: str, cache: Path, kill_after: int, label: str
) -> tuple[list[str], list[str]]:
    """A row of the table, and what is wrong."""
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder)
        with served(python, server, cache, world / "server.log") as target:
            proxy = Proxy(target)
            with proxy.running() as url:
                started = time.monotonic()
                first = RunningDemo(demo(world, url, constrain), proxy, f"{label}, until the kill")
                if first.wait(kill_after):
                    return [], [f"{server}: the demo ended before the kill:\n{first.output[-3000:]}"]
                first.kill()
                before, saved = set(proxy.requests), len(read_completions(world / "lake")) - 1
                n_repeated = proxy.requests.total()
                proxy.requests.clear()
                second = RunningDemo(demo(world, url, constrain), proxy, f"{label}, after the kill")
                second.wait()
                output = second.output
                seconds = time.monotonic() - started
        n_again = len(before & set(proxy.requests))
        replies = read_completions(world / "lake")
        if proxy.refused:
            faults.append(f"{len(proxy.refused)} requests refused, first: {proxy.refused[0]}")
        if n_again > len(before) - saved:
            faults.append(f"{n_again} requests asked again, though {saved} of {len(before)} replies had been kept")
        if len(without_usage := [reply for reply in replies if not reply["prompt_tokens"]]) != 1:
            # An empty reply took no tokens of its own; one entry is no reply but what the server calls its revision.
            faults.append(f"{len(without_usage)} entries are kept without usage, where the revision alone has none")
        if "Traceback" in output:
            faults.append(output[-3000:])
        reasons = Counter(re.findall(r"is unusable: (it was cut off|[^(\"']{0,40})", output))
        if failed := [line for line in output.splitlines() if "rows failed" in line and "is unusable" not in line]:
            faults.append(f"a row failed for another reason than its reply: {failed[0][:300]}")
    total = n_repeated + proxy.requests.total()
    row = [
        server,
        constrain,
        str(total),
        ", ".join(f"{s}: {n}" for s, n in sorted(proxy.statuses.items())),
        f"{len(replies) - 1}",
        f"{kill_after}",
        f"{saved} of {len(before)}",
        str(n_again),
        "; ".join(f"{reason.strip()}: {n}" for reason, n in reasons.most_common(4)),
        f"{seconds:.0f}",
    ]
    return row, faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="python of the environment that holds the servers")
    parser.add_argument("--servers", nargs="+", choices=list(SERVERS), default=list(SERVERS))
    parser.add_argument("--kill-after", type=int, default=100, help="replies after which the first run is killed")
    options = parser.parse_args()

    heads = (
        "server",
        "shapes",
        "requests",
        "by status",
        "kept",
        "killed after",
        "kept by then",
        "asked again",
        "unusable replies, by reason",
        "seconds",
    )
    table, faults = Table(*heads), []
    with tempfile.TemporaryDirectory() as folder:
        texts = [path.read_text(encoding="utf-8") for path in sorted(SAMPLE.rglob("*")) if path.is_file()]
        cache = Path(folder)
        stored = cache / f"models--{MODEL.replace('/', '--')}"
        save_causal_model(stored / "snapshots" / "1", texts, vocabulary=2000, size=128)
        (stored / "refs").mkdir()
        (stored / "refs" / "main").write_text("1", encoding="utf-8")
        checks = [(server, constrain) for server in options.servers for constrain in LEVELS[server]]
        for number, (server, constrain) in enumerate(checks, 1):
            label = f"check {number} of {len(checks)}, {server}, {constrain}"
            print(f"{label}: starting the server", flush=True)
            row, problems = check(options.python.absolute(), server, constrain, cache, options.kill_after, label)
            table.add_row(*row)
            faults += [f"{server}, {constrain}: {each}" for each in problems]
    Console(width=200, highlight=False).print(table)
    for each in faults:
        print(each)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
