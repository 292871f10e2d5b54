"""Files of a lake, wherever it is: they are brought up to date before they are read, and uploaded when they are
finished.

For a lake in a folder the functions here do what their names say and no more. A lake in an object store
(``s3://bucket/prefix``, or a folder that machines share) has a folder on this machine with the same names, because
DuckDB, memory maps and FAISS read files: a cache that can be deleted at any time. ``lake.atomic`` uploads each
finished file before it takes its place here, so a failed upload changes nothing anywhere. obstore lists, downloads,
uploads in parts and retries.

- A copy is good where its size and its modification time are the object's: the store's own time, with a hash of the
  object's tag as its fraction of a second, so that clocks of machines do not matter.
- A folder below ``indexes`` is one object, ``indexes/asset=<key>.tar``, so that it is replaced as a whole.
- Two writers of one partition end with all files of one of them (``settle``).
- Names that begin with one of ``LOCAL`` are never uploaded.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import tarfile
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from evidence_assets.lake.atomic import Keeper, keeper_of, keepers, replacing_file, replacing_folder
from evidence_assets.lake.errors import BadInput, StoreUnavailable
from evidence_assets.lake.ids import content_id

if TYPE_CHECKING:
    from obstore import ObjectMeta

ADDRESS = re.compile(r"([a-z][a-z0-9]+):/+(.*)")
"""An address, or what is left of one whose slashes a path has taken for one."""
SCHEMES = ("s3", "gs", "az", "abfs", "file")
CACHE_VARIABLE = "EVIDENCE_CACHE"
PACKED = "indexes"
"""Folder whose folders are one object each."""
LOCAL = (".locks", "cache/tokens", "cache/completions.sqlite")
BLOCK = 16 << 20
"""Bytes that are uploaded, or written to a file, at once."""
PATIENCE = timedelta(minutes=3)
"""How long a store may be out of reach before it is given up."""
_opening = Lock()


def address_of(place: str | Path) -> str:
    """The address that a text or path is; empty where it is a local path."""
    match = ADDRESS.fullmatch(str(place))
    if match is None:
        return ""
    scheme, rest = match.groups()
    if scheme not in SCHEMES:
        raise BadInput(
            f"{place} is no address of a lake: {', '.join(f'{name}://' for name in SCHEMES)} or a local path"
        )
    return f"{scheme}://{'/' if scheme == 'file' else ''}{rest.strip('/')}"


def stamp_of(stored: ObjectMeta) -> int:
    """The modification time of an object's copy, in nanoseconds."""
    fraction = int.from_bytes(hashlib.blake2b(str(stored["e_tag"]).encode(), digest_size=8).digest()) % 1_000_000_000
    return int(stored["last_modified"].timestamp()) * 1_000_000_000 + fraction


def _is_copy(path: Path, stored: ObjectMeta) -> bool:
    """Whether a file, or an unpacked folder, is what was fetched."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    return status.st_mtime_ns == stamp_of(stored) and (path.is_dir() or status.st_size == stored["size"])


class Mirror(Keeper):
    """The copies that this machine has of the lake at an address.

    ``root``: Their folder; every path handed over is below it.
    """

    def __init__(self, address: str, root: Path) -> None:
        self.address, self.root = address, root
        root.mkdir(parents=True, exist_ok=True)

    @cached_property
    def _obstore(self) -> Any:
        try:
            import obstore
        except ImportError as error:
            raise BadInput(f"{self.address} needs a package: pip install 'evidence-assets[cloud]'") from error
        return obstore

    @cached_property
    def _store(self) -> Any:
        if self.address.startswith("file://"):
            return self._obstore.store.LocalStore(
                self.address.removeprefix("file://"), automatic_cleanup=True, mkdir=True
            )
        endpoint = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT") or ""
        return self._obstore.store.from_url(
            self.address,
            client_options={"timeout": "1d", "read_timeout": "120s", "allow_http": endpoint.startswith("http://")},
            retry_config={
                "max_retries": 1_000_000,  # only time ends them
                "retry_timeout": PATIENCE,
                # Each wait is drawn from 0.1 s to `base` times the one before: with the usual 2 they would not grow.
                "backoff": {"base": 6, "max_backoff": timedelta(seconds=8)},
            },
        )

    def _ask(self, name: str, request: Callable[[], Any]) -> Any:
        """What the store replies; None where there is no such object, or where one is in the way of a new one."""
        errors = self._obstore.exceptions
        try:
            return request()
        except (FileNotFoundError, errors.AlreadyExistsError):
            return None
        except (errors.BaseError, OSError) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise StoreUnavailable(
                f"{self.address}/{name}: the store does not answer as it should ({reason}); what was there before is "
                "unchanged: run again when it does"
            ) from error

    # Names ----------------------------------------------------------------------------------------------------

    def name(self, path: Path) -> str:
        """Name of a file or folder below the lake."""
        return path.relative_to(self.root).as_posix()

    def _is_local(self, path: Path) -> bool:
        """Whether only this machine has it: what LOCAL names, and what is in a folder that is not finished."""
        name = self.name(path)
        unfinished = any(part.startswith(".") and part.endswith(".tmp") for part in name.split("/"))
        return unfinished or name.startswith(LOCAL)

    def _is_packed(self, path: Path) -> bool:
        return self.name(path).startswith(f"{PACKED}/")

    def _object(self, path: Path) -> str:
        """Name of the object that a file, or a packed folder, is."""
        return self.name(path) + (".tar" if self._is_packed(path) else "")

    def head(self, path: Path) -> ObjectMeta | None:
        """What the store says of a file or packed folder; None where there is none."""
        name = self._object(path)
        return cast("ObjectMeta | None", self._ask(name, lambda: self._obstore.head(self._store, name)))

    def listed(self, folder: Path) -> list[ObjectMeta]:
        """Every object below a folder, by name; of a packed folder the one that it is."""
        if self._is_packed(folder):
            packed = self.head(folder)
            return [packed] if packed else []
        name = self.name(folder)
        listed = self._ask(name, lambda: self._obstore.list(self._store, name).collect())
        return sorted(listed, key=lambda stored: str(stored["path"]))

    def children(self, folder: Path) -> list[str]:
        """Names of what the store has right below a folder."""
        name = self.name(folder)
        listed = self._ask(name, lambda: self._obstore.list_with_delimiter(self._store, name))
        paths = [*listed["common_prefixes"], *(stored["path"] for stored in listed["objects"])]
        names = {path.removeprefix(f"{name}/").removesuffix(".tar") for path in paths}
        return sorted(each for each in names if each[0] != ".")

    # Reading --------------------------------------------------------------------------------------------------

    def fetch(self, path: Path) -> None:
        """Bring one file, or a folder below ``indexes``, up to date."""
        if not self._is_local(path):
            self._fetch(path, self.head(path))

    def fetch_below(self, folder: Path, wanted: Callable[[str], bool] | None = None) -> None:
        """Bring all files below a folder up to date, and delete those that the store has no more."""
        if self._is_local(folder) or self._is_packed(folder):
            return self.fetch(folder)
        listed = {s["path"]: s for s in self.listed(folder) if wanted is None or wanted(s["path"])}
        with ThreadPoolExecutor(8) as several:
            list(several.map(lambda stored: self._fetch(self.root / stored["path"], stored), listed.values()))
        for path in _files(folder):
            if (name := self.name(path)) not in listed and (wanted is None or wanted(name)):
                self.fetch(path)  # another process may just have put it

    def _fetch(self, path: Path, stored: ObjectMeta | None) -> None:
        if stored is None:
            shutil.rmtree(path, ignore_errors=True) if self._is_packed(path) else _unlink(path)
        elif not self._is_local(path) and not _is_copy(path, stored):
            replacing = replacing_folder if self._is_packed(path) else replacing_file
            try:
                with replacing(path, fetched=True) as temporary:
                    self._download(self._object(path), temporary)
            except FileNotFoundError:  # it was deleted meanwhile
                self.fetch(path)

    def _download(self, name: str, temporary: Path) -> None:
        def write() -> ObjectMeta:
            reply = self._obstore.get(self._store, name)
            with file.open("wb") as handle:
                for block in reply.stream(min_chunk_size=BLOCK):
                    handle.write(block)
            return cast("ObjectMeta", reply.meta)

        file = temporary / ".tar" if temporary.is_dir() else temporary
        stored = self._ask(name, write)
        if stored is None:
            raise FileNotFoundError(name)
        if temporary.is_dir():
            try:
                with tarfile.open(file) as packed:
                    packed.extractall(temporary, filter="data")
            except tarfile.TarError as error:
                raise BadInput(f"cannot be unpacked: {error}", file=f"{self.address}/{name}") from error
            file.unlink()
        os.utime(temporary, ns=(stamp_of(stored),) * 2)

    def reader(self, path: Path) -> BinaryIO | None:
        """An object as a file of which only what is read is downloaded; None where there is none."""
        name = self.name(path)
        reader = self._ask(name, lambda: self._obstore.open_reader(self._store, name, buffer_size=1 << 16))
        return cast("BinaryIO | None", reader)

    # Writing --------------------------------------------------------------------------------------------------

    def put(self, finished: Path, path: Path) -> None:
        """Upload a finished file, or all files of a folder, that is about to become ``path``."""
        if self._is_local(path):
            return
        if finished.is_file():
            return self._upload(finished, path)
        files = {file.relative_to(finished): file for file in sorted(finished.rglob("*")) if file.is_file()}
        if self._is_packed(path):
            packed = finished / ".tar"
            with tarfile.open(packed, "w") as archive:
                for name, file in files.items():
                    archive.add(file, name.as_posix())
            self._upload(packed, path)
            stamp = packed.stat().st_mtime_ns
            packed.unlink()
            return os.utime(finished, ns=(stamp, stamp))
        for name, file in files.items():
            self._upload(file, path / name)
        self.delete(path, keeping={self.name(path / name) for name in files})

    def _upload(self, content: Path, path: Path) -> None:
        name = self._object(path)
        uploaded = self._ask(name, lambda: self._obstore.put(self._store, name, content, chunk_size=BLOCK))
        stored = self.head(path)
        if stored is not None and uploaded and stored["e_tag"] == uploaded["e_tag"]:  # else another writer came after
            os.utime(content, ns=(stamp_of(stored),) * 2)

    def create(self, path: Path, content: bytes) -> None:
        """Upload a small file where there is none; where there is one, it stays."""
        name = self.name(path)
        self._ask(name, lambda: self._obstore.put(self._store, name, content, mode="create"))
        self.fetch(path)

    def settle(self, paths: Iterable[Path]) -> None:
        """See that files uploaded together are all there, or all those of another writer.

        Who sees some of both uploads all again and looks again: the last to upload also looks last.
        """
        paths = list(paths)
        while True:
            ours = [stored is not None and _is_copy(path, stored) for path in paths for stored in [self.head(path)]]
            if all(ours) or not any(ours):
                return
            for path in paths:
                self.put(path, path)
            time.sleep(random.random())

    def delete(self, path: Path, keeping: Collection[str] = ()) -> None:
        """Delete a file, or all below a folder but for the objects to keep, in the store."""
        if self._is_local(path):
            return
        own = [stored] if (stored := self.head(path)) else []
        names = {stored["path"] for stored in [*self.listed(path), *own]} - set(keeping)
        self._ask(self.name(path), lambda: self._obstore.delete(self._store, sorted(names)) if names else None)


def _unlink(path: Path) -> None:
    """Delete a file; not a folder whose name others begin with."""
    if not path.is_dir():
        path.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    """Finished files below a folder; temporary ones begin with a dot."""
    return [
        path
        for path in folder.rglob("[!.]*")
        if not any(part.startswith(".") for part in path.relative_to(folder).parts) and path.is_file()
    ]


# Functions for every lake ---------------------------------------------------------------------------------------


def mirror_at(address: str) -> Mirror:
    """This machine's copy of the lake at an address, below ``EVIDENCE_CACHE``."""
    base = Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "evidence_assets")
    root = (base / f"{re.sub('[^a-z0-9]+', '-', address.lower())[:60]}-{content_id(address)[:8]}").resolve()
    with _opening:
        keeper = keepers.setdefault(root, Mirror(address, root))
    assert isinstance(keeper, Mirror)
    return keeper


def mirror_of(path: Path) -> Mirror | None:
    """The mirror that a path is in; None for all that is only local."""
    keeper = keeper_of(path)
    return keeper if isinstance(keeper, Mirror) else None


def local_root(place: str | Path) -> Path:
    """The folder that stands for a lake: the place itself, or this machine's copy of what is at an address."""
    address = address_of(place)
    return fetched(mirror_at(address).root / "format.json").parent if address else Path(place)


def fetched(path: Path) -> Path:
    """The path of a file, or of a folder below ``indexes``, up to date."""
    if (mirror := mirror_of(path)) is not None:
        mirror.fetch(path)
    return path


def fetched_below(folder: Path, wanted: Callable[[str], bool] | None = None) -> Path:
    """The folder with all files that the lake has below it, or those whose names, below the lake, are wanted."""
    if (mirror := mirror_of(folder)) is not None:
        mirror.fetch_below(folder, wanted)
    return folder


def sizes_below(folder: Path) -> dict[Path, int]:
    """Every file below a folder with its size in bytes, by name, fetched or not."""
    if (mirror := mirror_of(folder)) is not None:
        return {mirror.root / stored["path"]: stored["size"] for stored in mirror.listed(folder)}
    return {path: path.stat().st_size for path in sorted(_files(folder))}


def children(folder: Path) -> list[str]:
    """Names of what is right below a folder, fetched or not."""
    if (mirror := mirror_of(folder)) is not None:
        return mirror.children(folder)
    return sorted(path.name for path in folder.iterdir() if path.name[0] != ".") if folder.is_dir() else []


def exists(file: Path) -> bool:
    """Whether there is a file, fetched or not."""
    mirror = mirror_of(file)
    return file.exists() if mirror is None else mirror.head(file) is not None


def removed(path: Path) -> None:
    """Delete a file or a whole folder, in the store first; it does not matter whether it is there."""
    if (mirror := mirror_of(path)) is not None:
        mirror.delete(path)
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
