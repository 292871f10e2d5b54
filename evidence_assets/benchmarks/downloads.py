"""Downloads official files from their public sources, on request and if the network is allowed.

A file is written atomically, and only if it has the declared hash.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import shutil
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import Field

from evidence_assets.benchmarks.dataset_info import load_datasets
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks
from evidence_assets.benchmarks.readers import read_benchmark_questions
from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import StrictModel

SOURCES_FILE = Path(__file__).with_suffix(".yaml")
NETWORK_VARIABLE = "EVIDENCE_NETWORK"
"""Set to 1 to allow downloads."""
TIMEOUT_S = 60
"""Seconds without data before a download fails."""


class DownloadFile(StrictModel):
    """One file: URL, path below ``raw``, and hash if known."""

    url: str
    to: str
    member: str = ""
    """Path of the file in the archive at the URL; ``*`` matches any folder name."""
    sha256: str = ""


class DownloadSource(StrictModel):
    """Public source of the files of a benchmark or graph."""

    revision: str
    files: tuple[DownloadFile, ...] = Field(min_length=1)

    def url(self, file: DownloadFile) -> str:
        return file.url.format(revision=self.revision)


@cache
def download_sources() -> dict[str, DownloadSource]:
    """Load all download sources by benchmark or graph name."""
    return {name: DownloadSource(**fields) for name, fields in read_yaml_mapping(SOURCES_FILE).items()}


def download_files(name: str, lake: Lake, report: Callable[[str], None] = lambda text: None) -> int:
    """Download the missing files of a benchmark or graph, check all files, and return the number downloaded.

    Raises BadInput if the network is not allowed, a URL fails, or a hash or the number of questions differs from the
    declared one.
    """
    source = download_sources()[name]
    missing_files = [file for file in source.files if not lake.raw_path(file.to).exists()]
    if missing_files and os.environ.get(NETWORK_VARIABLE) != "1":
        files = "; ".join(
            f"{file.member and f'{file.member} in '}{source.url(file)} as {lake.address}/raw/{file.to}"
            for file in missing_files
        )
        raise BadInput(f"the network is not allowed: set {NETWORK_VARIABLE}=1, or download the files yourself: {files}")
    with TemporaryDirectory() as folder:
        for file in source.files:
            target = local_file = lake.raw_path(file.to)
            if file in missing_files:
                report(f"{source.url(file)} → {target}")
                local_file = _download(source.url(file), file, Path(folder))
            if file.sha256:
                _check_hash(local_file, target, file.sha256)
            if file in missing_files:
                with replacing_file(target) as temporary:
                    shutil.copyfile(local_file, temporary)
    _check_count(name, lake)
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


def _check_hash(file: Path, target: Path, expected: str) -> None:
    """Compare the hash of a file with the declared one; the error names ``target``."""
    import pooch

    sha256 = str(pooch.file_hash(str(file)))
    if sha256 != expected:
        message = f"differs from the official file: its SHA-256 is {sha256}, expected {expected}; download it again"
        raise BadInput(message, file=target)


def _check_count(name: str, lake: Lake) -> None:
    """Compare the number of questions with the official one."""
    benchmark = all_benchmarks().get(name)
    if benchmark is None or benchmark.reader not in load_datasets():
        return
    count = sum(1 for _ in read_benchmark_questions(lake, benchmark))
    if note := load_datasets()[benchmark.reader].count_note(benchmark.split, count):
        raise BadInput(f"{note} Download the official file", file=lake.raw_path(benchmark.files[0]))
