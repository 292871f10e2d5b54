"""Servers as child processes in a bare folder, which end with their test."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from evidence_assets_tests.conftest import REPOSITORY
from tools.ports import free_port

START_TIMEOUT_S = 300.0
Start = Callable[[str, Sequence[str], Mapping[str, str]], "subprocess.Popen[bytes]"]
"""Starts a command under a name, with more environment variables; its output is in ``<name>.log``."""


@contextmanager
def child_processes(folder: Path) -> Iterator[Start]:
    """Start commands in a folder, without the settings of this process; their process groups end with the block."""
    processes: list[subprocess.Popen[bytes]] = []

    def start_process(name: str, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        bare = {name: os.environ[name] for name in ("HOME", "LANG", "PYTHONPATH", "TMPDIR") if name in os.environ}
        bare["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        with (folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=folder, env={**bare, **environment}, stdout=log, stderr=log, start_new_session=True
            )
        processes.append(process)
        return process

    try:
        yield start_process
    finally:
        for process in processes:
            with suppress(ProcessLookupError):  # its group is gone if the command has ended
                os.killpg(process.pid, signal.SIGTERM)
        for process in processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def wait_for_reply(address: str, process: subprocess.Popen[bytes], log: Path, data: bytes | None = None) -> str:
    """The reply of a server that is starting."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=30) as reply:
                return str(reply.read().decode())
        except OSError:
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.5)


def serve_dagster(start: Start, folder: Path, environment: Mapping[str, str]) -> str:
    """The address of ``dagster dev`` with the definitions of the repository, as soon as it has loaded them."""
    port = free_port()
    options = f"-m dagster dev --host 127.0.0.1 --port {port} -w {REPOSITORY / 'workspace.yaml'}"
    process = start("ui", [sys.executable, *options.split()], environment)
    address = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _has_loaded_assets(address):
        assert process.poll() is None and time.monotonic() < deadline, (folder / "ui.log").read_text()[-3000:]
        time.sleep(0.5)
    return address


def query_dagster(address: str, query: str, **variables: Any) -> Any:
    """What the interface itself asks its server."""
    request = urllib.request.Request(
        f"{address}/graphql",
        json.dumps({"query": query, "variables": variables}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)["data"]


def _has_loaded_assets(address: str) -> bool:
    """Whether the server knows the assets: it refuses connections first, and then answers before it has loaded them."""
    try:
        return bool(query_dagster(address, "{ assetNodes { id } }")["assetNodes"])
    except OSError:
        return False
