"""Files of a lake in a folder, or at an address such as ``s3://bucket/prefix``: downloaded before they are read and
uploaded once finished. Copies of a lake at an address have the same names, because DuckDB and FAISS read files; they
can be deleted at any time."""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import tarfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from evidence_assets.lake.atomic import mirror_of, mirrors, replacing_file, replacing_folder
from evidence_assets.lake.errors import BadInput, StoreUnavailable
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.input_files import parse_address

if TYPE_CHECKING:
    from obstore import ObjectMeta

T = TypeVar("T")
CACHE_VARIABLE = "EVIDENCE_CACHE"
PACKED_FOLDER = "indexes/"
"""Folder whose folders are one object each, ``indexes/asset=<key>.tar``, so that they are replaced as a whole."""
LOCAL_PREFIXES = (".locks", "cache/tokens", "cache/completions.sqlite")
"""Names that begin so are never uploaded."""
BLOCK_SIZE = 16 << 20  # bytes that are uploaded, or written to a file, at once
BACKOFF = {"base": 6, "max_backoff": timedelta(seconds=8)}
RETRY_TIMEOUT = timedelta(minutes=3)  # for which a store may be out of reach


def object_stamp(stored: ObjectMeta) -> int:
    """Modification time of an object's copy: the store's seconds, and nanoseconds that hash the object's tag."""
    fraction = int.from_bytes(hashlib.blake2b(str(stored["e_tag"]).encode(), digest_size=8).digest()) % 1_000_000_000
    return int(stored["last_modified"].timestamp()) * 1_000_000_000 + fraction


def _is_copy(path: Path, stored: ObjectMeta | None) -> bool:
    same = stored is not None and path.exists() and path.stat().st_mtime_ns == object_stamp(stored)
    return same and (path.is_dir() or path.stat().st_size == stored["size"])  # type: ignore[index]


class Mirror:
    """The copies, below ``root``, that this machine has of the lake at an address."""

    def __init__(self, address: str, root: Path) -> None:
        try:
            import obstore
        except ImportError as error:
            raise BadInput(f"{address} needs a package: pip install 'evidence-assets[cloud]'") from error
        self.address, self.root, self._obstore = address, root, obstore
        root.mkdir(parents=True, exist_ok=True)
        endpoint = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT") or ""
        folder = {"automatic_cleanup": True, "mkdir": True}
        server = {
            "client_options": {"timeout": "1d", "read_timeout": "120s", "allow_http": endpoint.startswith("http://")},
            # Only time ends retries. A wait is drawn from 0.1 s to `base` times the one before: with 2 none would grow.
            "retry_config": {"max_retries": 1_000_000, "retry_timeout": RETRY_TIMEOUT, "backoff": BACKOFF},
        }
        options: Any = folder if address.startswith("file://") else server
        self._store: Any = obstore.store.from_url(address, **options)

    def _ask(self, name: str, request: Callable[[], T]) -> T | None:
        """What the store replies; None where there is no such object."""
        try:
            return request()
        except FileNotFoundError:
            return None
        except (self._obstore.exceptions.BaseError, OSError) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise StoreUnavailable(
                f"{self.address}/{name}: the store does not answer as it should ({reason}); what was there before is "
                "unchanged: run again when it does"
            ) from error

    def object_name(self, path: Path) -> str:
        """Name of a file or folder below the lake, as an object."""
        return path.relative_to(self.root).as_posix() + (".tar" if self._is_packed(path) else "")

    def _is_local(self, path: Path) -> bool:
        """Whether only this machine has it: what LOCAL names, and what is in a folder that is not finished."""
        name = self.object_name(path)
        return name.startswith(LOCAL_PREFIXES) or re.search(r"(^|/)\.[^/]*\.tmp(/|$)", name) is not None

    def _is_packed(self, path: Path) -> bool:
        return path.relative_to(self.root).as_posix().startswith(PACKED_FOLDER)

    def head(self, path: Path) -> ObjectMeta | None:
        """What the store says of a file or packed folder."""
        name = self.object_name(path)
        return self._ask(name, lambda: self._obstore.head(self._store, name))

    def list_objects(self, folder: Path) -> list[ObjectMeta]:
        """Every object below a folder, by name; of a packed folder the one that it is."""
        if self._is_packed(folder):
            return [packed] if (packed := self.head(folder)) else []
        name = self.object_name(folder)
        listed = self._ask(name, lambda: self._obstore.list(self._store, name).collect()) or []
        return sorted(listed, key=lambda stored: str(stored["path"]))

    def fetch(self, path: Path) -> None:
        """Download one file, or a folder below ``indexes``, where its copy is not up to date."""
        if not self._is_local(path):
            self._fetch(path, self.head(path))

    def fetch_folder(self, folder: Path, wanted: Callable[[str], bool] = lambda name: True) -> None:
        """Bring the wanted files below a folder up to date, and delete those that the store has no more."""
        if self._is_local(folder) or self._is_packed(folder):
            return self.fetch(folder)
        listed = {stored["path"]: stored for stored in self.list_objects(folder) if wanted(stored["path"])}
        with ThreadPoolExecutor(8) as several:
            list(several.map(lambda stored: self._fetch(self.root / stored["path"], stored), listed.values()))
        for path in _files(folder):
            if (name := self.object_name(path)) not in listed and wanted(name):
                self.fetch(path)  # another process may just have put it

    def _fetch(self, path: Path, stored: ObjectMeta | None) -> None:
        if stored is None:
            if self._is_packed(path) or not path.is_dir():
                _delete_copy(path)
        elif not self._is_local(path) and not _is_copy(path, stored):
            replacing = replacing_folder if self._is_packed(path) else replacing_file
            try:
                with replacing(path, downloaded=True) as temporary:
                    self._download(self.object_name(path), temporary)
            except FileNotFoundError:  # it was deleted meanwhile
                self.fetch(path)

    def _download(self, name: str, temporary: Path) -> None:
        file = temporary / ".tar" if temporary.is_dir() else temporary

        def download() -> ObjectMeta:
            reply = self._obstore.get(self._store, name)
            with file.open("wb") as handle:
                handle.writelines(reply.stream(min_chunk_size=BLOCK_SIZE))
            return reply.meta

        stored = self._ask(name, download)
        if stored is None:
            raise FileNotFoundError(name)
        if temporary.is_dir():
            try:
                shutil.unpack_archive(file, temporary, "tar", filter="data")
            except (shutil.ReadError, tarfile.TarError) as error:
                raise BadInput(f"cannot be unpacked: {error}", file=f"{self.address}/{name}") from error
            file.unlink()
        os.utime(temporary, ns=(object_stamp(stored),) * 2)

    def open_reader(self, path: Path) -> Any:
        """An object as a file of which only what is read is downloaded; None where there is none."""
        name = self.object_name(path)
        return self._ask(name, lambda: self._obstore.open_reader(self._store, name, buffer_size=1 << 16))

    def upload(self, finished: Path, path: Path) -> None:
        """Upload a finished file, or all files of a folder, that is about to become ``path``."""
        if self._is_local(path):
            return
        if finished.is_file():
            return self._upload_file(finished, path)
        if self._is_packed(path):
            packed, members = finished / ".tar", sorted(finished.iterdir())
            with tarfile.open(packed, "w") as archive:
                for member in members:
                    archive.add(member, member.name)
            self._upload_file(packed, path)
            stamp = packed.stat().st_mtime_ns
            packed.unlink()
            return os.utime(finished, ns=(stamp, stamp))
        files = [file for file in sorted(finished.rglob("*")) if file.is_file()]
        places = [path / file.relative_to(finished) for file in files]
        for file, place in zip(files, places, strict=True):
            self._upload_file(file, place)
        self.delete(path, keep={self.object_name(place) for place in places})

    def _upload_file(self, content: Path, path: Path) -> None:
        name = self.object_name(path)
        uploaded = self._ask(name, lambda: self._obstore.put(self._store, name, content, chunk_size=BLOCK_SIZE))
        stored = self.head(path)
        if stored and uploaded and stored["e_tag"] == uploaded["e_tag"]:  # else another writer came after
            os.utime(content, ns=(object_stamp(stored),) * 2)

    def ensure_consistent(self, paths: Sequence[Path]) -> None:
        """Ensure that files uploaded together are all in the store, or all those of another writer."""
        while True:
            ours = [_is_copy(path, self.head(path)) for path in paths]
            if all(ours) or not any(ours):
                return
            for path in paths:  # and look again: the last to upload also looks last
                self.upload(path, path)
            time.sleep(random.random())

    def delete(self, path: Path, keep: Iterable[str] = ()) -> None:
        """Delete a file, or all below a folder but for the objects to keep, in the store."""
        if not self._is_local(path):
            names = {stored["path"] for stored in [*self.list_objects(path), self.head(path)] if stored} - set(keep)
            self._ask(
                self.object_name(path), lambda: self._obstore.delete(self._store, sorted(names)) if names else None
            )


def _files(folder: Path) -> list[Path]:
    """Finished files below a folder; temporary ones begin with a dot."""
    below = sorted(path for path in folder.rglob("[!.]*") if path.is_file())
    return [path for path in below if not any(part.startswith(".") for part in path.relative_to(folder).parts)]


def local_root(place: str | Path) -> Path:
    """The folder of a lake: the place itself, or this machine's copy, below ``EVIDENCE_CACHE``, of an address."""
    address = parse_address(place)
    if not address:
        return Path(place)
    base = Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "evidence_assets")
    root = (base / f"{re.sub('[^a-z0-9]+', '-', address.lower())[:60]}-{content_id(address)[:8]}").resolve()
    if root not in mirrors:
        mirrors[root] = Mirror(address, root)
    return fetch_path(root / "format.json").parent


def fetch_path(path: Path) -> Path:
    """The path of a file, or of a folder below ``indexes``, up to date."""
    if mirror := mirror_of(path):
        mirror.fetch(path)
    return path


def fetch_folder(folder: Path, wanted: Callable[[str], bool] = lambda name: True) -> Path:
    """The folder with all files that the lake has below it, or those whose names, below the lake, are wanted."""
    if mirror := mirror_of(folder):
        mirror.fetch_folder(folder, wanted)
    return folder


def file_sizes(folder: Path) -> dict[Path, int]:
    """Every file below a folder with its size in bytes, by name, fetched or not."""
    if mirror := mirror_of(folder):
        return {mirror.root / stored["path"]: stored["size"] for stored in mirror.list_objects(folder)}
    return {path: path.stat().st_size for path in _files(folder)}


def child_names(folder: Path) -> list[str]:
    """Names of what is right below a folder, fetched or not."""
    paths = folder.iterdir() if mirror_of(folder) is None and folder.is_dir() else file_sizes(folder)
    names = {path.relative_to(folder).parts[0].removesuffix(".tar") for path in paths}
    return sorted(name for name in names if not name.startswith("."))


def delete_path(path: Path) -> None:
    """Delete a file or a whole folder, in the store first; it does not matter whether it is there."""
    if mirror := mirror_of(path):
        mirror.delete(path)
    _delete_copy(path)


def _delete_copy(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
