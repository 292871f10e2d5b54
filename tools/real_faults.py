"""A run on a real model whose server is killed, busy or slow: the same bytes, and nothing asked twice.

    python -m tools.real_faults "llama-server --model FILE.gguf --jinja --no-cache-prompt --parallel 1" [--only busy …]
        [--json bench/results/local_faults.json]

The command is started on 127.0.0.1 with ``--port`` added. Without its cache of prompts and with one request at a time,
a model's probabilities do not depend on what it read before. `evidence run` answers nine questions of the small sample,
once untouched and once for each fault:

- killed server: the server is killed after five replies and started again;
- killed run: the run is killed after five replies;
- busy: every third request of the first run is refused with status 503;
- slow: every fourth reply is held back for five seconds.

A run that ends with failed rows is run again, as its message says. Then the files of predictions are those of the
untouched run, byte for byte, and no request had two whole replies. The exit status is 1 where that is not so.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import httpx2
import yaml
from starlette.requests import Request
from starlette.responses import Response

from bench.measuring import make_parser
from bench.result_files import print_table, write_results
from tools.check_served import Proxy
from tools.ports import free_port

REPLIES_BEFORE_KILL = 5
RUNS = 3
"""Runs until all rows are there."""
HEADS = ("fault", "runs", "requests", "of those twice", "predictions")
RUN = ("run", "sample_mcqa", "--variants", "bm25")


@dataclass
class Server:
    """The model's server, which can be killed and started again on the same port."""

    command: str
    log: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [*shlex.split(self.command), "--port", str(self.port)]
        with self.log.open("ab") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(httpx2.HTTPError):
                if httpx2.get(f"http://127.0.0.1:{self.port}/health").status_code == HTTPStatus.OK:
                    return
            time.sleep(0.5)
        raise SystemExit(f"the server did not start; its last words are in {self.log}")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@dataclass
class FaultyServing(Proxy):
    """A proxy that refuses or holds back some requests.

    ``answered``: Times that each request had a whole reply that is no error.
    """

    answered: Counter[bytes] = field(default_factory=Counter)

    refuse_every: int = 0
    hold_every: int = 0
    _n_requests: int = 0

    async def _pass(self, request: Request) -> Response:
        if request.method == "POST":
            self._n_requests += 1
            if self.refuse_every and self._n_requests % self.refuse_every == 0:
                return Response(status_code=HTTPStatus.SERVICE_UNAVAILABLE)
            if self.hold_every and self._n_requests % self.hold_every == 0:
                await asyncio.sleep(5)
        reply = await super()._pass(request)
        if request.method == "POST" and reply.status_code == HTTPStatus.OK:
            self.answered[await request.body()] += 1
        return reply


def start_run(world: Path, url: str) -> subprocess.Popen[bytes]:
    """`evidence run` in a lake of its own, answered by the model at this address."""
    served = {"backend": "openai", "name": "", "base_url": f"{url}/v1", "concurrency": 1}
    profile = {"extends": "local", "name": "faults", "sample": "small", "generator": served}
    world.mkdir(exist_ok=True)
    (world / "profile.yaml").write_text(yaml.safe_dump(profile), encoding="utf-8")
    places = {"EVIDENCE_LAKE": world / "lake", "DAGSTER_HOME": world, "EVIDENCE_PROFILE": world / "profile.yaml"}
    with (world / "run.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "evidence_assets.cli", *RUN],
            env={**os.environ, **{name: str(place) for name, place in places.items()}},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_for_replies(proxy: FaultyServing, run: subprocess.Popen[bytes]) -> None:
    while proxy.answered.total() < REPLIES_BEFORE_KILL and run.poll() is None:
        time.sleep(0.05)


def kill_server(server: Server, proxy: FaultyServing, run: subprocess.Popen[bytes]) -> None:
    wait_for_replies(proxy, run)
    server.kill()
    time.sleep(2)
    server.start()


def kill_run(server: Server, proxy: FaultyServing, run: subprocess.Popen[bytes]) -> None:
    wait_for_replies(proxy, run)
    os.killpg(run.pid, signal.SIGKILL)


def nothing(server: Server, proxy: FaultyServing, run: subprocess.Popen[bytes]) -> None:
    return


@dataclass(frozen=True)
class Fault:
    """What goes wrong in a first run."""

    during: Callable[[Server, FaultyServing, subprocess.Popen[bytes]], None] = nothing
    refuse_every: int = 0
    hold_every: int = 0


FAULTS = {
    "untouched": Fault(),
    "killed server": Fault(kill_server),
    "killed run": Fault(kill_run),
    "busy": Fault(refuse_every=3),
    "slow": Fault(hold_every=4),
}


def hash_predictions(lake: Path) -> str:
    """A hash of the files of predictions, by their places in the lake."""
    digest = hashlib.sha256()
    for path in sorted(lake.glob("**/predictions/**/*.parquet")):
        digest.update(str(path.relative_to(lake)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@contextlib.contextmanager
def started(command: str, log: Path) -> Iterator[Server]:
    server = Server(command, log)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def try_fault(command: str, world: Path, fault: Fault) -> tuple[str, int, int, int]:
    """The hash of the predictions, and counts of runs, of requests with a whole reply, and of those with several."""
    world.mkdir()
    with started(command, world / "server.log") as server:
        proxy = FaultyServing(
            f"http://127.0.0.1:{server.port}", refuse_every=fault.refuse_every, hold_every=fault.hold_every
        )
        with proxy.running() as url:
            run = start_run(world, url)
            fault.during(server, proxy, run)
            status, runs = run.wait(), 1
            proxy.refuse_every = 0
            while status and runs < RUNS:
                status, runs = start_run(world, url).wait(), runs + 1
    if status:
        raise SystemExit(f"the run still fails:\n{(world / 'run.log').read_text()[-2000:]}")
    twice = sum(count > 1 for count in proxy.answered.values())
    return hash_predictions(world / "lake"), runs, len(proxy.answered), twice


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("command")
    parser.add_argument("--only", nargs="+", choices=list(FAULTS), default=list(FAULTS))
    parser.add_argument("--json", type=Path, help="a file to write the results to")
    options = parser.parse_args()
    rows, hashes = [], set()
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            predictions_hash, runs, requests, twice = try_fault(
                options.command, Path(folder) / name.replace(" ", "_"), FAULTS[name]
            )
            rows.append((name, str(runs), str(requests), str(twice), predictions_hash))
            hashes.add(predictions_hash)
            print(*rows[-1], sep="  ", flush=True)
    print_table(HEADS, rows)
    if options.json:
        write_results(options.json, HEADS, rows, "python -m tools.real_faults COMMAND")
    sys.exit(len(hashes) > 1 or any(row[3] != "0" for row in rows))


if __name__ == "__main__":
    main()
