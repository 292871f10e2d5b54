"""The check of served models reports a server that ends early; campaigns find nothing in this project."""

import json
import re
import socket
import threading
from pathlib import Path

import httpx2
import pytest

from evidence_assets_tests.conftest import REPOSITORY, run_python
from evidence_assets_tests.tools.miniatures import collect_miniatures
from tools.campaign.fuzz import MINIATURES
from tools.check_served import Proxy


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


def campaign(*arguments: str) -> str:
    return run_python("-m", "tools.campaign", *arguments, cwd=REPOSITORY, env={"PYTHONPATH": str(REPOSITORY)})


def test_the_fuzz_campaign_corrupts_the_files_of_every_contract() -> None:
    stored = json.loads(MINIATURES.read_text(encoding="utf-8"))
    assert stored == collect_miniatures(), "run python -m evidence_assets_tests.tools.miniatures"


@pytest.mark.long
def test_corrupt_inputs_of_every_reader() -> None:
    assert "no find" in campaign("fuzz", "--inputs", "340", "--seed", "11")


@pytest.mark.long
def test_kills_leave_no_trace(tmp_path: Path) -> None:
    output = campaign("kill", "--rounds", "1", "--only", "removed", "--seed", "4", "--folder", str(tmp_path))
    *_, total, kills = output.strip().splitlines()
    assert re.fullmatch(r"all +1 +[1-3] +\d+ +0 +0 +0 +0 +0", total) and "write" in kills
