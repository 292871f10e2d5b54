"""Local copies of remote lakes: files are downloaded before reading, and uploaded when finished.

DuckDB and FAISS read local files, so the mirror has the same file names. It can be deleted at any time."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
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
LOCAL_PREFIXES = (".locks", "cache/tokens", "cache/completions.sqlite")  # never uploaded
BLOCK_SIZE = 16 << 20  # bytes per part of an upload or download
BACKOFF = {"base": 6, "max_backoff": timedelta(seconds=8)}  # with a base of 2, the random delays do not grow
RETRY_TIMEOUT = timedelta(minutes=3)


def object_stamp(meta: ObjectMeta) -> int:
    """Modification time of a local copy in ns: the object's seconds, then a hash of its ETag."""
    fraction = int.from_bytes(hashlib.blake2b(str(meta["e_tag"]).encode(), digest_size=8).digest()) % 1_000_000_000
    return int(meta["last_modified"].timestamp()) * 1_000_000_000 + fraction


def _is_copy(path: Path, meta: ObjectMeta) -> bool:
    same = path.exists() and path.stat().st_mtime_ns == object_stamp(meta)
    return same and (path.is_dir() or path.stat().st_size == meta["size"])


class Mirror:
    """The local copy, in ``root``, of the lake at an address."""

    def __init__(self, address: str, root: Path) -> None:
        try:
            import obstore
        except ImportError as error:
            raise BadInput(f"{address} needs an extra: pip install 'evidence-assets[cloud]'") from error
        self.address = address
        self.root = root
        self._obstore = obstore
        root.mkdir(parents=True, exist_ok=True)
        endpoint = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT") or ""
        server = {
            "client_options": {"timeout": "1d", "read_timeout": "120s", "allow_http": endpoint.startswith("http://")},
            # Only the timeout ends retries.
            "retry_config": {"max_retries": 1_000_000, "retry_timeout": RETRY_TIMEOUT, "backoff": BACKOFF},
        }
        options: Any = {"automatic_cleanup": True, "mkdir": True} if address.startswith("file://") else server
        self._store: Any = obstore.store.from_url(address, **options)

    def _request(self, name: str, request: Callable[[], T]) -> T | None:
        """Send a request; None if the object does not exist, StoreUnavailable if the store fails."""
        try:
            return request()
        except FileNotFoundError:
            return None
        except (self._obstore.exceptions.BaseError, OSError) as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise StoreUnavailable(
                f"{self.address}/{name}: the object store failed ({reason}); its objects are unchanged: run again later"
            ) from error

    def object_name(self, path: Path) -> str:
        """Name of the object that stores a file or packed folder of the lake."""
        return path.relative_to(self.root).as_posix() + (".tar" if self._is_packed(path) else "")

    def _is_local(self, path: Path) -> bool:
        """Whether a path is never uploaded: LOCAL_PREFIXES, and files in temporary folders."""
        name = self.object_name(path)
        return name.startswith(LOCAL_PREFIXES) or re.search(r"(^|/)\.[^/]*\.tmp(/|$)", name) is not None

    def _is_packed(self, path: Path) -> bool:
        """Whether a folder is one object, ``indexes/asset=<key>.tar``, so that it is replaced atomically."""
        return path.relative_to(self.root).as_posix().startswith("indexes/")

    def head(self, path: Path) -> ObjectMeta | None:
        """Metadata of the object of a file or packed folder."""
        name = self.object_name(path)
        return self._request(name, lambda: self._obstore.head(self._store, name))

    def list_objects(self, folder: Path) -> list[ObjectMeta]:
        """All objects below a folder, sorted by name; a packed folder is one object."""
        if self._is_packed(folder):
            return [packed] if (packed := self.head(folder)) else []
        name = self.object_name(folder)
        objects = self._request(name, lambda: self._obstore.list(self._store, name).collect()) or []
        return sorted(objects, key=lambda meta: str(meta["path"]))

    def fetch(self, path: Path, listed: ObjectMeta | None = None) -> None:
        """Download a file, or a packed folder, if the local copy is stale; ``listed`` is its object, if known."""
        if self._is_local(path):
            return
        meta = listed or self.head(path)
        if meta is None and (self._is_packed(path) or not path.is_dir()):
            delete_path(path, local_only=True)
        elif meta and not _is_copy(path, meta):
            replacing = replacing_folder if self._is_packed(path) else replacing_file
            try:
                with replacing(path, downloaded=True) as temporary:
                    self._download(self.object_name(path), temporary)
            except FileNotFoundError:  # deleted since it was listed
                self.fetch(path)

    def fetch_folder(self, folder: Path, is_wanted: Callable[[str], bool] = lambda name: True) -> None:
        """Update the wanted files below a folder, and delete those that the store no longer has."""
        if self._is_local(folder) or self._is_packed(folder):
            return self.fetch(folder)
        objects = {meta["path"]: meta for meta in self.list_objects(folder) if is_wanted(meta["path"])}
        with ThreadPoolExecutor(8) as executor:
            list(executor.map(lambda meta: self.fetch(self.root / meta["path"], meta), objects.values()))
        for path in local_stamps(folder):
            if (name := self.object_name(path)) not in objects and is_wanted(name):
                self.fetch(path)  # another process may have uploaded it since

    def _download(self, name: str, temporary: Path) -> None:
        file = temporary / ".tar" if temporary.is_dir() else temporary

        def download() -> ObjectMeta:
            reply = self._obstore.get(self._store, name)
            with file.open("wb") as handle:
                handle.writelines(reply.stream(min_chunk_size=BLOCK_SIZE))
            return reply.meta

        meta = self._request(name, download)
        if meta is None:
            raise FileNotFoundError(name)
        if temporary.is_dir():
            try:
                shutil.unpack_archive(file, temporary, "tar", filter="data")
            except (shutil.ReadError, tarfile.TarError) as error:
                message = f"cannot be unpacked ({error}): materialize it again"
                raise BadInput(message, file=f"{self.address}/{name}") from error
            file.unlink()
        os.utime(temporary, ns=(object_stamp(meta),) * 2)

    def open_reader(self, path: Path) -> Any:
        """A file object that downloads only the ranges it reads; None if the object does not exist."""
        name = self.object_name(path)
        return self._request(name, lambda: self._obstore.open_reader(self._store, name, buffer_size=1 << 16))

    def upload(self, finished: Path, path: Path) -> None:
        """Upload a finished file, or all files of a folder, before it is renamed to ``path``."""
        if self._is_local(path):
            return
        if finished.is_file():
            return self._upload_file(finished, path)
        if self._is_packed(path):
            packed = finished / ".tar"
            with tarfile.open(packed, "w") as archive:
                archive.add(finished, ".")  # without the archive itself
            self._upload_file(packed, path)
            stamp = packed.stat().st_mtime_ns
            packed.unlink()
            return os.utime(finished, ns=(stamp, stamp))
        targets = {file: path / file.relative_to(finished) for file in sorted(finished.rglob("*")) if file.is_file()}
        for file, target in targets.items():
            self._upload_file(file, target)
        self.delete(path, keep={self.object_name(target) for target in targets.values()})

    def _upload_file(self, content: Path, path: Path) -> None:
        name = self.object_name(path)
        uploaded = self._request(name, lambda: self._obstore.put(self._store, name, content, chunk_size=BLOCK_SIZE))
        meta = self.head(path)
        if meta and uploaded and meta["e_tag"] == uploaded["e_tag"]:  # else another writer was later
            os.utime(content, ns=(object_stamp(meta),) * 2)

    def delete(self, path: Path, keep: Iterable[str] = ()) -> None:
        """Delete a file, or all files below a folder except ``keep``, from the store."""
        if not self._is_local(path):
            names = {meta["path"] for meta in [*self.list_objects(path), self.head(path)] if meta} - set(keep)
            self._request(self.object_name(path), lambda: self._obstore.delete(self._store, sorted(names)))


def local_stamps(folder: Path) -> dict[Path, tuple[int, int]]:
    """Modification time in ns and size in bytes of every finished file below a local folder, in order.

    Temporary files and folders have a leading dot.
    """
    stamps = {}
    for parent, folders, names in os.walk(folder):  # not `rglob`, which fails if a folder vanishes meanwhile
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(parent, name) for name in names if not name.startswith(".")):
            with suppress(FileNotFoundError):  # deleted meanwhile
                stat = path.stat()
                stamps[path] = (stat.st_mtime_ns, stat.st_size)
    return dict(sorted(stamps.items()))


def local_root(location: str | Path) -> Path:
    """The local folder of a lake: its path, or for an address the mirror in ``EVIDENCE_CACHE``."""
    address = parse_address(location)
    if not address:
        return Path(location)
    base = Path(os.environ.get("EVIDENCE_CACHE") or Path.home() / ".cache" / "evidence_assets")
    root = (base / f"{re.sub('[^a-z0-9]+', '-', address.lower())[:60]}-{content_id(address)[:8]}").resolve()
    if root not in mirrors:
        mirrors[root] = Mirror(address, root)
    return fetch_path(root / "format.json").parent


def fetch_path(path: Path) -> Path:
    """Update a file or packed folder from the store, and return its path."""
    if mirror := mirror_of(path):
        mirror.fetch(path)
    return path


def fetch_folder(folder: Path, is_wanted: Callable[[str], bool] = lambda name: True) -> Path:
    """Update the files below a folder, or those with wanted names relative to the lake; return it."""
    if mirror := mirror_of(folder):
        mirror.fetch_folder(folder, is_wanted)
    return folder


def file_stamps(folder: Path) -> dict[Path, tuple[int, int]]:
    """Modification time in ns and size in bytes of every file below a folder, without downloading."""
    if mirror := mirror_of(folder):
        return {mirror.root / meta["path"]: (object_stamp(meta), meta["size"]) for meta in mirror.list_objects(folder)}
    return local_stamps(folder)


def child_names(folder: Path) -> list[str]:
    """Names of the direct children of a folder, without downloading."""
    paths = folder.iterdir() if mirror_of(folder) is None and folder.is_dir() else file_stamps(folder)
    names = {path.relative_to(folder).parts[0].removesuffix(".tar") for path in paths}
    return sorted(name for name in names if not name.startswith("."))


def delete_path(path: Path, *, local_only: bool = False) -> None:
    """Delete a file or folder, in the store first; a missing path is not an error."""
    if not local_only and (mirror := mirror_of(path)):
        mirror.delete(path)
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
