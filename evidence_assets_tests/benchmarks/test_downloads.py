"""Official files from a server of the same layout as their homes: whole, checked, never unasked."""

from __future__ import annotations

import hashlib
import io
import json
import re
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from evidence_assets.benchmarks.downloads import NETWORK_VARIABLE, RECEIPTS_FOLDER, download_files, download_sources
from evidence_assets.cli import app
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.benchmarks.official.contract import json_lines, write_files
from evidence_assets_tests.benchmarks.official.test_choice_readers import AI2
from evidence_assets_tests.benchmarks.official.test_table_readers import TestScitab


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """A server with the folder that it serves; the network is allowed."""
    folder = tmp_path / "served"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv(NETWORK_VARIABLE, "1")
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    server.server_close()


def claims(count: int) -> str:
    return json.dumps([TestScitab.ROW | {"id": f"s{i}", "label": "supports"} for i in range(count)])


def serve(folder: Path, name: str, *contents: bytes) -> None:
    for file, content in zip(download_sources()[name].files, contents, strict=True):
        write_files(folder, {urlsplit(download_sources()[name].url(file)).path.lstrip("/"): content})


def test_a_file_is_downloaded_once_and_checked_every_time(home: tuple[str, Path], lake: Lake) -> None:
    mirror, folder = home
    serve(folder, "scitab", claims(1224).encode())
    reports: list[str] = []
    assert download_files("scitab", lake, mirror, reports.append) == 1
    assert (
        "No hash is declared for scitab/dataset/sci_tab.json" in reports[-1]
        and "later downloads must match" in reports[-1]
    )
    place = lake.raw / "scitab/dataset/sci_tab.json"
    receipt = json.loads((lake.raw / RECEIPTS_FOLDER / "scitab.json").read_text())
    assert receipt["sha256"] == {"scitab/dataset/sci_tab.json": hashlib.sha256(place.read_bytes()).hexdigest()}
    assert receipt["revision"] == download_sources()["scitab"].revision
    reports.clear()
    assert download_files("scitab", lake, "http://127.0.0.1:1", reports.append) == 0 and not reports, (
        "nothing is asked of the network"
    )
    place.write_text(claims(1224).replace("A is 1", "A is 2"))
    with pytest.raises(BadInput, match="differs from the expected file"):
        download_files("scitab", lake, mirror)
    place.unlink()
    serve(folder, "scitab", claims(1224).replace("A is 1", "A is 2").encode())
    with pytest.raises(BadInput, match="differs from the expected file"):
        download_files("scitab", lake, mirror)
    assert not place.exists(), "what is not what was fetched at first is not put into its place"


def test_another_number_of_questions_is_reported(home: tuple[str, Path], lake: Lake) -> None:
    mirror, folder = home
    serve(folder, "scitab", claims(7).encode())
    with pytest.raises(BadInput, match="scitab has 7 questions, expected 1,224"):
        download_files("scitab", lake, mirror)
    assert not (lake.raw / RECEIPTS_FOLDER / "scitab.json").exists()


def test_members_of_an_archive(home: tuple[str, Path], lake: Lake, dev_data: Path) -> None:
    """Where the hash of a file is stated, the official one is taken and another refused."""
    mirror, folder = home
    book = (dev_data / "obqa/Data/Main/openbook.txt").read_bytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("Open/Data/Main/test.jsonl", json_lines(*(AI2 | {"id": f"q{i}"} for i in range(500))))
        archive.writestr("Open/Data/Main/openbook.txt", book)
        archive.writestr("../../outside.txt", "never unpacked")
    serve(folder, "obqa", packed.getvalue(), packed.getvalue())
    assert download_files("obqa", lake, mirror) == 2
    assert sorted(p.name for p in lake.raw.rglob("*") if p.is_file()) == ["obqa.json", "openbook.txt", "test.jsonl"]


def test_no_home_is_a_branch_that_may_move() -> None:
    """Files of a repository are named by a commit; of others the address itself names what was released."""
    for name, home in download_sources().items():
        if any(host in file.url for file in home.files for host in ("githubusercontent", "huggingface.co")):
            assert re.fullmatch("[0-9a-f]{40}", home.revision), name
            assert all("{revision}" in file.url for file in home.files), name


def test_without_the_network_the_error_says_which_file_to_put_where(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(NETWORK_VARIABLE, raising=False)
    with pytest.raises(
        BadInput, match=r"set EVIDENCE_NETWORK=1, or download .* https://raw.*sci_tab.json as .*sci_tab.json"
    ):
        download_files("scitab", lake)


def test_the_command(home: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror, folder = home
    monkeypatch.setenv("EVIDENCE_LAKE", str(tmp_path / "data_lake"))
    serve(folder, "scitab", claims(1224).encode())
    runner = CliRunner()
    completed = runner.invoke(app, ["get", "scitab", "--mirror", mirror])
    assert completed.exit_code == 0 and "1 files downloaded" in completed.output, completed.output
    assert "scitab" in runner.invoke(app, ["get"]).output
    for name, message in (("scitap", "did you mean 'scitab'"), ("riddle", "put the files in the lake yourself")):
        refusal = runner.invoke(app, ["get", name])
        assert refusal.exit_code == 1 and message in " ".join(refusal.output.split()), refusal.output
