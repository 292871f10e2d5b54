"""Official files from a server: complete, checked, never downloaded without permission."""

import hashlib
import io
import json
import re
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evidence_assets.benchmarks import downloads
from evidence_assets.benchmarks.downloads import NETWORK_VARIABLE, DownloadSource, download_files, download_sources
from evidence_assets.cli import app
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.benchmarks.official.contract import json_lines
from evidence_assets_tests.benchmarks.official.test_choice_readers import AI2
from evidence_assets_tests.benchmarks.official.test_table_readers import TestScitab

Serve = Callable[..., None]


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Serves a content at every address of a source, with these hashes; the network is allowed."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv(NETWORK_VARIABLE, "1")
    official = download_sources()

    def serve_content(name: str, content: bytes, sha256: str = "") -> None:
        (tmp_path / "served").write_bytes(content)
        changes = {"url": f"http://127.0.0.1:{server.server_port}/served"} | ({"sha256": sha256} if sha256 else {})
        source = official[name]
        files = tuple(file.model_copy(update=changes) for file in source.files)
        served = DownloadSource(revision=source.revision, files=files)
        monkeypatch.setattr(downloads, "download_sources", lambda: {**official, name: served})

    yield serve_content
    server.shutdown()
    server.server_close()


def claims(count: int) -> bytes:
    return json.dumps([TestScitab.ROW | {"id": f"s{i}", "label": "supports"} for i in range(count)]).encode()


def test_a_file_is_downloaded_once_and_checked_every_time(serve: Serve, lake: Lake) -> None:
    content, changed = claims(1224), claims(1224).replace(b"A is 1", b"A is 2")
    sha256 = hashlib.sha256(content).hexdigest()
    serve("scitab", content, sha256)
    reports: list[str] = []
    assert download_files("scitab", lake, reports.append) == 1 and len(reports) == 1
    assert download_files("scitab", lake, reports.append) == 0 and len(reports) == 1
    target = lake.root / "raw" / "scitab/dataset/sci_tab.json"
    target.write_bytes(changed)
    with pytest.raises(BadInput, match=r"sci_tab\.json: differs from the official file"):
        download_files("scitab", lake)
    target.unlink()
    serve("scitab", changed, sha256)
    with pytest.raises(BadInput, match=r"sci_tab\.json: differs from the official file"):
        download_files("scitab", lake)
    assert not target.exists(), "an unexpected file is not stored"


def test_another_number_of_questions_is_reported(serve: Serve, lake: Lake) -> None:
    serve("scitab", claims(7))
    with pytest.raises(BadInput, match="SCITAB, split test: 7 questions, officially 1,224"):
        download_files("scitab", lake)


def test_members_of_an_archive(serve: Serve, lake: Lake, dev_data: Path) -> None:
    book = (dev_data / "obqa/Data/Main/openbook.txt").read_bytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("Open/Data/Main/test.jsonl", json_lines(*(AI2 | {"id": f"q{i}"} for i in range(500))))
        archive.writestr("Open/Data/Main/openbook.txt", book)
        archive.writestr("../../outside.txt", "never unpacked")
    serve("obqa", packed.getvalue())
    assert download_files("obqa", lake) == 2
    assert sorted(p.name for p in (lake.root / "raw").rglob("*") if p.is_file()) == ["openbook.txt", "test.jsonl"]


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


def test_get_downloads_a_benchmark_and_suggests_names(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVIDENCE_LAKE", str(tmp_path / "data_lake"))
    serve("scitab", claims(1224))
    runner = CliRunner()
    completed = runner.invoke(app, ["get", "scitab"])
    assert completed.exit_code == 0 and "1 files downloaded" in completed.output, completed.output
    assert "scitab" in runner.invoke(app, ["get"]).output
    for name, message in (("scitap", "did you mean 'scitab'"), ("riddle", "put the files in the lake yourself")):
        refusal = runner.invoke(app, ["get", name])
        assert refusal.exit_code == 1 and message in " ".join(refusal.output.split()), refusal.output
