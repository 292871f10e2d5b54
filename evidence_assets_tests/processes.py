"""Servers as child processes in a bare folder, which end with their test."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

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
            os.killpg(process.pid, signal.SIGTERM)
        for process in processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


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
