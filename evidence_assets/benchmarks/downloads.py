"""Downloads official files from their public sources, on request and if the network is allowed.

A file is written atomically, and only if its hash equals the declared hash or that of the first download.
"""

from __future__ import annotations

import fnmatch
import json
import logging
import os
import shutil
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks
from evidence_assets.benchmarks.readers import read_benchmark_questions
from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.lake.store import Lake

SOURCES_FILE = Path(__file__).with_suffix(".yaml")
NETWORK_VARIABLE = "EVIDENCE_NETWORK"
"""Set to 1 to allow downloads."""
RECEIPTS_FOLDER = ".got"
"""Folder below ``raw`` with the hashes of downloaded files."""
TIMEOUT_S = 60
"""Seconds without data before a download fails."""


class DownloadFile(BaseModel):
    """One file: URL, path below ``raw``, and hash if known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(pattern=r"^https://")
    to: str
    member: str = ""
    """Path of the file in the archive at the URL; ``*`` matches any folder name."""
    sha256: str = Field("", pattern=r"^([0-9a-f]{64})?$")


class DownloadSource(BaseModel):
    """Public source of the files of a benchmark or graph."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    revision: str
    files: tuple[DownloadFile, ...] = Field(min_length=1)

    def url(self, file: DownloadFile, mirror: str = "") -> str:
        """URL of a file, or its counterpart on a mirror with the same layout."""
        official = file.url.format(revision=self.revision)
        return mirror.rstrip("/") + urlsplit(official).path if mirror else official


@cache
def download_sources(file: Path = SOURCES_FILE) -> dict[str, DownloadSource]:
    """Load all download sources by benchmark or graph name."""
    try:
        return {name: DownloadSource(**fields) for name, fields in read_yaml_mapping(file).items()}
    except (TypeError, ValidationError) as error:
        raise BadInput(f"a download source is not valid: {error}", file=file) from error


def is_network_allowed() -> bool:
    return os.environ.get(NETWORK_VARIABLE) == "1"


def download_files(name: str, lake: Lake, mirror: str = "", report: Callable[[str], None] = lambda text: None) -> int:
    """Download the missing files of a benchmark or graph, check all files, and return the number downloaded.

    Raises BadInput if the network is not allowed, a URL fails, a hash differs from the declared or first one, or the
    number of questions differs from the declared one.
    """
    source = download_sources()[name]
    missing_files = [file for file in source.files if not lake.raw_path(file.to).exists()]
    if missing_files and not is_network_allowed():
        files = "; ".join(f"{source.url(file)} as {lake.address}/raw/{file.to}" for file in missing_files)
        raise BadInput(f"the network is not allowed: set {NETWORK_VARIABLE}=1, or download the files yourself: {files}")
    receipt = lake.raw_path(f"{RECEIPTS_FOLDER}/{name}.json")
    previous_hashes: dict[str, str] = json.loads(receipt.read_text())["sha256"] if receipt.exists() else {}
    hashes = {}
    with TemporaryDirectory() as folder:
        for file in source.files:
            target = local_file = lake.raw_path(file.to)
            if file in missing_files:
                report(f"{source.url(file, mirror)} → {target}")
                local_file = _download(source.url(file, mirror), file, Path(folder))
            hashes[file.to] = _check_hash(local_file, target, file.sha256 or previous_hashes.get(file.to, ""))
            if file in missing_files:
                with replacing_file(target) as temporary:
                    shutil.copyfile(local_file, temporary)
    _check_count(name, lake)
    with replacing_file(receipt) as temporary:
        temporary.write_text(json.dumps({"revision": source.revision, "sha256": hashes}, indent=1) + "\n")
    if unverified_files := [file.to for file in missing_files if not (file.sha256 or file.to in previous_hashes)]:
        report(
            f"No hash is declared for {', '.join(unverified_files)}. The hashes of this download are recorded in "
            f"{receipt}; later downloads must match them."
        )
    return len(missing_files)


def _download(url: str, file: DownloadFile, folder: Path) -> Path:
    """Download a file, or extract it from an archive, into ``folder``; an archive is downloaded once."""
    import pooch
    from requests import HTTPError, RequestException

    pooch.get_logger().setLevel(logging.WARNING)
    downloader = pooch.HTTPDownloader(progressbar=True, chunk_size=1 << 20, timeout=TIMEOUT_S)
    try:
        download = Path(pooch.retrieve(url, known_hash=None, path=folder, downloader=downloader))
        if not file.member:
            return download
        with zipfile.ZipFile(download) as archive:
            names = [name for name in archive.namelist() if fnmatch.fnmatch(name, file.member)]
            if len(names) != 1:
                raise BadInput(f"contains {len(names)} files that match {file.member}; expected one", field=url)
            return Path(archive.extract(names[0], folder))
    except HTTPError as error:
        raise BadInput(f"the server replied: {error}", field=url) from error
    except zipfile.BadZipFile as error:
        raise BadInput(f"is not a zip archive: {error}", field=url) from error
    except RequestException as error:
        raise ModelUnavailable(f"cannot download {url}: {error}") from error


def _check_hash(file: Path, target: Path, expected: str) -> str:
    """Compute the hash of a file and compare it with the expected one; errors name ``target``."""
    import pooch

    sha256 = str(pooch.file_hash(str(file)))
    if expected and sha256 != expected:
        raise BadInput(
            f"differs from the expected file: its SHA-256 is {sha256}, expected {expected}; download it again",
            file=target,
        )
    return sha256


def _check_count(name: str, lake: Lake) -> None:
    """Compare the number of questions with the declared one."""
    benchmark = all_benchmarks().get(name)
    expected_count = benchmark.expected.questions if benchmark else 0
    if benchmark and expected_count:
        count = sum(question.split == benchmark.split for question in read_benchmark_questions(lake, benchmark))
        if count != expected_count:
            raise BadInput(
                f"{name} has {count:,} questions, expected {expected_count:,}; download the official file",
                file=lake.raw_path(benchmark.files[0]),
            )
