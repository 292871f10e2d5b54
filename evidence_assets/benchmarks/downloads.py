"""Fetches official files from their public homes, when a person asks for it and the network is allowed.

A file is put into its place whole or not at all, and only with the hash that is stated or that it had at first.
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
"""Set to 1, files may be fetched."""
RECEIPTS_FOLDER = ".got"
"""Folder below ``raw`` with the hashes of what was fetched."""
TIMEOUT_S = 60
"""Seconds without a byte after which a download is given up."""


class DownloadFile(BaseModel):
    """One file: its address, its place below ``raw``, and what of it is known beforehand."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(pattern=r"^https://")
    to: str
    member: str = ""
    """The file within the archive at that address, with ``*`` for the name of its folder."""
    sha256: str = Field("", pattern=r"^([0-9a-f]{64})?$")


class DownloadSource(BaseModel):
    """Where the files of a benchmark or graph are public."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    revision: str
    files: tuple[DownloadFile, ...] = Field(min_length=1)

    def url(self, file: DownloadFile, mirror: str = "") -> str:
        """A file's address, at a mirror of the same layout where one is named."""
        official = file.url.format(revision=self.revision)
        return mirror.rstrip("/") + urlsplit(official).path if mirror else official


@cache
def download_sources(file: Path = SOURCES_FILE) -> dict[str, DownloadSource]:
    """Every known home by the name of its benchmark or graph."""
    try:
        return {name: DownloadSource(**fields) for name, fields in read_yaml_mapping(file).items()}
    except (TypeError, ValidationError) as error:
        raise BadInput(f"a home is not as it should be: {error}", file=file) from error


def is_network_allowed() -> bool:
    """Whether the network may be used."""
    return os.environ.get(NETWORK_VARIABLE) == "1"


def download_files(name: str, lake: Lake, mirror: str = "", report: Callable[[str], None] = lambda text: None) -> int:
    """Fetch the files of a benchmark or graph that are not there yet, check them, and return how many were fetched.

    Raises BadInput where the network is not allowed, an address yields nothing, or a file is other than expected:
    another hash than stated or than at first, or another number of questions than its authors say.
    """
    home = download_sources()[name]
    missing = [file for file in home.files if not lake.raw_path(file.to).exists()]
    if missing and not is_network_allowed():
        files = "; ".join(f"{home.url(file)} as {lake.address}/raw/{file.to}" for file in missing)
        raise BadInput(
            f"the network is not allowed: set {NETWORK_VARIABLE}=1, or put the files there yourself: {files}"
        )
    receipt = lake.raw_path(f"{RECEIPTS_FOLDER}/{name}.json")
    earlier: dict[str, str] = json.loads(receipt.read_text())["sha256"] if receipt.exists() else {}
    hashes = {}
    with TemporaryDirectory() as folder:
        for file in home.files:
            place = source = lake.raw_path(file.to)
            if file in missing:
                report(f"{home.url(file, mirror)} → {place}")
                source = _download(home.url(file, mirror), file, Path(folder))
            hashes[file.to] = _check_hash(source, place, file.sha256 or earlier.get(file.to, ""))
            if file in missing:
                with replacing_file(place) as temporary:
                    shutil.copyfile(source, temporary)
    _check_count(name, lake)
    with replacing_file(receipt) as temporary:
        temporary.write_text(json.dumps({"revision": home.revision, "sha256": hashes}, indent=1) + "\n")
    if unknown := [file.to for file in missing if not (file.sha256 or file.to in earlier)]:
        report(
            f"no hash of {', '.join(unknown)} is stated beforehand: that of what came is recorded in {receipt}, and "
            "any other bytes are refused from now on"
        )
    return len(missing)


def _download(url: str, file: DownloadFile, folder: Path) -> Path:
    """Download a file, or the member of an archive, to below ``folder``; an archive is downloaded once."""
    import pooch
    from requests import HTTPError, RequestException

    pooch.get_logger().setLevel(logging.WARNING)
    downloader = pooch.HTTPDownloader(progressbar=True, chunk_size=1 << 20, timeout=TIMEOUT_S)
    try:
        fetched = Path(pooch.retrieve(url, known_hash=None, path=folder, downloader=downloader))
        if not file.member:
            return fetched
        with zipfile.ZipFile(fetched) as archive:
            names = [name for name in archive.namelist() if fnmatch.fnmatch(name, file.member)]
            if len(names) != 1:
                raise BadInput(f"holds {len(names)} files like {file.member}, expected one", field=url)
            return Path(archive.extract(names[0], folder))
    except HTTPError as error:
        raise BadInput(f"answers {error}", field=url) from error
    except zipfile.BadZipFile as error:
        raise BadInput(f"is no archive: {error}", field=url) from error
    except RequestException as error:
        raise ModelUnavailable(f"{url} could not be fetched: {error}") from error


def _check_hash(file: Path, place: Path, expected: str) -> str:
    """The hash of a file that is, or is to be, at ``place``; refused where another is expected."""
    import pooch

    sha256 = str(pooch.file_hash(str(file)))
    if expected and sha256 != expected:
        raise BadInput(
            f"is another file than it should be: its SHA-256 is {sha256}, expected is {expected}", file=place
        )
    return sha256


def _check_count(name: str, lake: Lake) -> None:
    """Refuse the files of a benchmark with another number of questions than is stated of its split."""
    benchmark = all_benchmarks().get(name)
    stated = benchmark.expected.questions if benchmark else 0
    if benchmark and stated:
        count = sum(question.split == benchmark.split for question in read_benchmark_questions(lake, benchmark))
        if count != stated:
            raise BadInput(
                f"{name} holds {count:,} questions, stated are {stated:,}", file=lake.raw_path(benchmark.files[0])
            )
