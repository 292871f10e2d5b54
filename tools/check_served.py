"""Every system's prompts through real servers of language models: `make check-served`.

    python tools/check_served.py --python .served/bin/python [--servers vllm transformers] [--kill-after 100]

A tiny chat model of random weights, with a real tokenizer and chat template, is written to a folder and served on
127.0.0.1 by vLLM's build for processors and by ``transformers serve`` in turn, from the environment that ``--python``
belongs to. The small sample is materialized through it with the ``openai`` backend by `evidence demo`, killed in the
middle and run to its end. What a random model says is noise; what is checked is the protocol:

- no request is refused;
- every row that failed says what was wrong with the reply;
- a reply that was kept before the kill is not asked for again;
- usage and the server's word for its revision are in what was kept.

Requests pass through a proxy of this script, which counts them. The exit status is 1 where a check fails.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
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
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

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
JSON = "application/json"


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
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="critical", lifespan="off"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
        server.should_exit = True
        thread.join()

    async def _pass(self, request: Request) -> Response:
        body = await request.body()
        async with httpx2.AsyncClient(timeout=None) as client:
            reply = await client.request(
                request.method, f"{self.target}{request.url.path}", content=body, headers={"Content-Type": JSON}
            )
        if request.method == "POST":
            self.statuses[reply.status_code] += 1
            self.requests[hashlib.sha256(body).hexdigest()] += 1
            if reply.status_code >= 400:
                self.refused.append(f"{reply.status_code} {reply.text[:300]}")
        return Response(reply.content, reply.status_code, media_type=JSON)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


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
    (world / "dagster.yaml").write_bytes((REPOSITORY / "dagster.yaml").read_bytes())
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


def check(python: Path, server: str, constrain: str, cache: Path, kill_after: int) -> tuple[list[str], list[str]]:
    """A row of the table, and what is wrong."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder)
        with served(python, server, cache, world / "server.log") as target:
            proxy = Proxy(target)
            with proxy.running() as url:
                started = time.monotonic()
                process = demo(world, url, constrain)
                while process.poll() is None and sum(proxy.requests.values()) < kill_after:
                    time.sleep(0.05)
                if process.poll() is not None:
                    return [], [f"{server}: the demo ended before the kill:\n{process.communicate()[0][-3000:]}"]
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                before, saved = set(proxy.requests), len(read_completions(world / "lake")) - 1
                repeated = sum(proxy.requests.values())
                proxy.requests.clear()
                output = demo(world, url, constrain).communicate()[0]
                seconds = time.monotonic() - started
        again = len(before & set(proxy.requests))
        replies = read_completions(world / "lake")
        if proxy.refused:
            wrong.append(f"{len(proxy.refused)} requests refused, first: {proxy.refused[0]}")
        if again > len(before) - saved:
            wrong.append(f"{again} requests asked again, though {saved} of {len(before)} replies had been kept")
        if len(without_usage := [reply for reply in replies if not reply["prompt_tokens"]]) != 1:
            # An empty reply took no tokens of its own; one entry is no reply but what the server calls its revision.
            wrong.append(f"{len(without_usage)} entries are kept without usage, where the revision alone has none")
        if "Traceback" in output:
            wrong.append(output[-3000:])
        reasons = Counter(re.findall(r"is unusable: (it was cut off|[^(\"']{0,40})", output))
        if failed := [line for line in output.splitlines() if "rows failed" in line and "is unusable" not in line]:
            wrong.append(f"a row failed for another reason than its reply: {failed[0][:300]}")
    total = repeated + sum(proxy.requests.values())
    row = [
        server,
        constrain,
        str(total),
        ", ".join(f"{s}: {n}" for s, n in sorted(proxy.statuses.items())),
        f"{len(replies) - 1}",
        f"{kill_after}",
        f"{saved} of {len(before)}",
        str(again),
        "; ".join(f"{reason.strip()}: {n}" for reason, n in reasons.most_common(4)),
        f"{seconds:.0f}",
    ]
    return row, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="python of the environment that holds the servers")
    parser.add_argument("--servers", nargs="+", choices=list(SERVERS), default=list(SERVERS))
    parser.add_argument("--kill-after", type=int, default=100, help="replies after which the first run is killed")
    options = parser.parse_args()
    sys.path.insert(0, str(REPOSITORY))
    from evidence_assets_tests.models.tiny import make_causal

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
    table, wrong = Table(*heads), []
    with tempfile.TemporaryDirectory() as folder:
        texts = [path.read_text(encoding="utf-8") for path in sorted(SAMPLE.rglob("*")) if path.is_file()]
        cache = Path(folder)
        stored = cache / f"models--{MODEL.replace('/', '--')}"
        make_causal(stored / "snapshots" / "1", texts=texts, vocabulary=2000, size=128)
        (stored / "refs").mkdir()
        (stored / "refs" / "main").write_text("1", encoding="utf-8")
        for server in options.servers:
            for constrain in LEVELS[server]:
                row, problems = check(options.python.absolute(), server, constrain, cache, options.kill_after)
                table.add_row(*row)
                wrong += [f"{server}, {constrain}: {each}" for each in problems]
    Console(width=200, highlight=False).print(table)
    for each in wrong:
        print(each)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
