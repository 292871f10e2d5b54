"""The check of served models, with a mock server and a small client in place of the demo."""

from __future__ import annotations

import contextlib
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from evidence_assets.lake.atomic import replacing_file
from evidence_assets_tests.conftest import REPOSITORY, run_python
from evidence_assets_tests.models.servers import chat_body, running
from tools import check_served
from tools.campaign.world import Moment, World, _watch, cut_power
from tools.check_served import Proxy

N_REQUESTS = 24
CLIENT = f"""
import json, sqlite3, sys, threading, httpx2

url, database, caches = sys.argv[1], sys.argv[2], sys.argv[3] == "caches"
lock = threading.Lock()
with sqlite3.connect(database) as db:
    db.execute("CREATE TABLE IF NOT EXISTS completions (key TEXT PRIMARY KEY, value TEXT)")
    db.execute("INSERT OR IGNORE INTO completions VALUES ('revision', ?)", [json.dumps(dict(prompt_tokens=None))])
    known = {{key for key, in db.execute("SELECT key FROM completions")}} if caches else set()

def ask(thread):
    for number in range(thread, {N_REQUESTS}, 8):
        if str(number) in known:
            continue
        httpx2.post(url + "/v1/chat/completions", json={{"number": number}}, timeout=None)
        with lock, sqlite3.connect(database) as db:
            db.execute("INSERT OR REPLACE INTO completions VALUES (?, ?)", [number, '{{"prompt_tokens": 11}}'])
        print(f"   {{number}}/{N_REQUESTS}      3 s, about   7 s left  chains/mcqa/bm25", flush=True)

threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
"""Sends requests, eight at once; with "caches" none whose reply is cached. Prints progress as the demo does."""


async def answer(request: Request) -> JSONResponse:
    await request.body()
    time.sleep(0.05)
    return JSONResponse(chat_body("the answer"))


@pytest.fixture
def mock_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A mock server in place of a model server."""
    app = Starlette(routes=[Route("/{path:path}", answer, methods=["POST"])])

    @contextlib.contextmanager
    def served(*_: object) -> Iterator[str]:
        with running(app) as url:
            yield url.removesuffix("/v1")

    monkeypatch.setattr(check_served, "served", served)
    yield


def run_check(monkeypatch: pytest.MonkeyPatch, cached: str) -> tuple[list[str], list[str]]:
    def demo(world: Path, url: str, constrain: str) -> subprocess.Popen[str]:
        (world / "lake").mkdir(exist_ok=True)
        command = [sys.executable, "-c", CLIENT, url, str(world / "lake" / "completions.sqlite"), cached]
        return subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True)

    monkeypatch.setattr(check_served, "demo", demo)
    monkeypatch.setattr(check_served, "SECONDS_BETWEEN_REPORTS", 0.1)
    return check_served.check(Path(sys.executable), "vllm", "none", Path(), 9, "check 1 of 1")


@pytest.mark.usefixtures("mock_server")
@pytest.mark.parametrize(("cached", "fault"), [("caches", ""), ("forgets", "requests asked again, though")])
def test_the_check_fails_only_if_cached_replies_are_requested_again(
    cached: str, fault: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    row, faults = run_check(monkeypatch, cached)
    printed = capfd.readouterr()
    assert row[0] == "vllm" and int(row[2]) >= N_REQUESTS and "per second" in printed.out
    assert len(faults) == bool(fault) and fault in "".join(faults)
    assert printed.err == "" and "Traceback" not in printed.out


@pytest.mark.parametrize("start_of_reply", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"])
def test_a_server_that_is_killed_is_reported_without_a_traceback(
    start_of_reply: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    def end_early() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(start_of_reply)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=end_early, daemon=True).start()
        proxy = Proxy(f"http://127.0.0.1:{listening.getsockname()[1]}")
        with proxy.running() as url:
            assert httpx2.post(url, content="{}").status_code == 502
    assert len(proxy.refused) == 1 and "no reply" in proxy.refused[0] and capfd.readouterr().err == ""


# The campaigns find what they are for, and the one that is quick finds nothing in this project


def campaign(*arguments: str) -> str:
    return run_python("-m", "tools.campaign", *arguments, cwd=REPOSITORY, env={"PYTHONPATH": str(REPOSITORY)})


def test_corrupt_inputs_of_every_reader() -> None:
    assert "no find" in campaign("fuzz", "--inputs", "340", "--seed", "11")


@pytest.mark.long
def test_kills_leave_no_trace(tmp_path: Path) -> None:
    output = campaign("kill", "--rounds", "1", "--only", "removed", "--seed", "4", "--folder", str(tmp_path))
    *_, total, kills = output.strip().splitlines()
    assert re.fullmatch(r"all +1 +[1-3] +\d+ +0 +0 +0 +0 +0", total) and "write" in kills


def test_a_power_cut_loses_unflushed_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rename", "replace", "fsync", "mkdir", "unlink", "utime"):
        monkeypatch.setattr(os, name, getattr(os, name))  # so that each is as it was after the test
    world = World(tmp_path / "w")
    world.lake.mkdir(parents=True)
    (world.lake / "before").write_text("old")
    os.utime(world.lake / "before", (1, 1))
    began = time.time() - 1
    writes = _watch(world, Moment())
    with replacing_file(world.lake / "safe") as file:
        file.write_text("flushed")
    (world.lake / "unsafe").write_text("not flushed")
    for name in ("before", "safe", "unsafe"):
        os.utime(world.lake / name)
    assert writes[0] >= 4
    assert cut_power(world, began, random.Random(1)) == 1
    assert (world.lake / "before").read_text() == "old" and (world.lake / "safe").read_text() == "flushed"
    assert len((world.lake / "unsafe").read_text()) < len("not flushed")
