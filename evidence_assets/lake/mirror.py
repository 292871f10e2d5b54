"""A lake in an object store, as the files that this machine has of it.

Whoever reads a lake needs files: DuckDB, memory maps, FAISS. So a lake at an address has a folder on this machine that
holds, under the same names, what was asked for so far. Two doors join them, and nothing else knows that there is a store:

- Before a file is read, ``lake.fetching`` has it brought up to date with the store: of what is there already and unchanged only the
  name is asked for. A local file is unchanged where its size and its time are those that the store says: the time is the
  store's, so that clocks of machines do not matter, and its fraction of a second is a hash of the object's tag.
- ``lake.atomic`` hands over each finished file or folder *before* it takes its place here: where the store refuses it,
  nothing has changed anywhere.

An object has the file's name below the lake. A folder below ``indexes`` belongs together and changes as one: its files lie
under names that hold their hash, and one object, ``indexes/asset=<key>.json``, says which of them it is made of. Nothing
is locked across machines. Two writers of one partition end with all files of one of them (``settle``), because whoever sees
files of both puts his own again.

Only on this machine are ``LOCAL``: what is made anew in moments, or is a lock. The folder is bounded by ``EVIDENCE_CACHE_GB``:
what was used least recently goes first, and nothing that was used within the hour.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from evidence_assets.lake.atomic import Keeper, replacing_file, replacing_folder
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import file_id
from evidence_assets.lake.object_store import Changed, ObjectStore, Stored

LIMIT_VARIABLE = "EVIDENCE_CACHE_GB"
LIMIT_GB = 50.0
IN_USE_SECONDS = 3600.0
"""What was asked for so recently may still be about to be opened, and stays."""
ADDRESS_FILE = ".address"
"""File of a mirror that says whose it is."""
TOGETHER = "indexes"
"""Folder whose folders change as one."""
LOCAL = (".locks", "cache/tokens", "cache/completions.sqlite")
"""How names begin of what only this machine has."""
LAST = 1 << 16
"""Bytes of a file's end that are fetched first."""
AT_ONCE = 8
"""Objects that are fetched at the same time."""
_UNHASHED = re.compile(r"\.[0-9a-f]{32}$")


def room() -> int:
    """Bytes that the copies of a lake may take on this machine."""
    return int(float(os.environ.get(LIMIT_VARIABLE) or LIMIT_GB) * 1e9)


def time_of(stored: Stored, tag: str = "") -> int:
    """The time that a local copy bears, in nanoseconds."""
    fraction = int.from_bytes(hashlib.blake2b((tag or stored.tag).encode(), digest_size=8).digest()) % 1_000_000_000
    return int(stored.changed.timestamp()) * 1_000_000_000 + fraction


def _is(path: Path, size: int, stamp: int) -> bool:
    """Whether a local file is what was fetched; if so, it is in use."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    if (status.st_size, status.st_mtime_ns) != (size, stamp):
        return False
    if time.time() - status.st_atime > 60:
        with contextlib.suppress(FileNotFoundError):
            os.utime(path, ns=(time.time_ns(), stamp))
    return True


def _part(path: Path, start: int) -> bytes:
    with path.open("rb") as handle:
        handle.seek(start)
        return handle.read()


class Mirror(Keeper):
    """What this machine has of the lake in a store.

    ``root``: The folder; every path handed over lies below it.
    """

    def __init__(self, store: ObjectStore, root: Path) -> None:
        self.store, self.root = store, root
        root.mkdir(parents=True, exist_ok=True)
        said = root / ADDRESS_FILE
        if not said.exists():
            with replacing_file(said, fetched=True) as temporary:
                temporary.write_text(f"{store.address}\n", encoding="utf-8")
        self._room = Lock()
        self._since = float("inf")  # so that the first file fetched looks for room

    def name(self, path: Path) -> str:
        """The object's name of a file."""
        return path.relative_to(self.root).as_posix()

    def _is_local(self, name: str) -> bool:
        """Whether only this machine has it: what LOCAL names, and what is being made in a folder that is not finished."""
        making = any(part.startswith(".") and part.endswith(".tmp") for part in name.split("/"))
        return making or name.startswith(LOCAL)

    def _together(self, name: str) -> str:
        """The folder, by name, that changes as one and holds this file or folder; empty where none does."""
        parts = name.split("/")
        return "/".join(parts[:2]) if parts[0] == TOGETHER and len(parts) > 1 else ""

    # Reading --------------------------------------------------------------------------------------------------

    def fetch(self, path: Path) -> None:
        """Bring one file, or the folder that it belongs to, up to date."""
        name = self.name(path)
        if self._is_local(name):
            return
        if folder := self._together(name):
            self._fetch_folder(folder)
        else:
            self._fetch_file(name)

    def fetch_below(self, folder: Path, wanted: Callable[[str], bool] | None = None) -> None:
        """Bring all files below a folder up to date, and let go of those that the store has no more."""
        name = self.name(folder)
        if self._is_local(name):
            return
        if name == TOGETHER or self._together(name):
            for together in [self._together(name)] if "/" in name else self.children(folder):
                self._fetch_folder(together if "/" in together else f"{TOGETHER}/{together}")
            return
        listed = [
            s for s in self.store.listed(name) if not self._is_local(s.name) and (wanted is None or wanted(s.name))
        ]
        late = [stored for stored in listed if not _is(self.root / stored.name, stored.size, time_of(stored))]
        with ThreadPoolExecutor(AT_ONCE) as several:
            for _ in several.map(lambda stored: self._fetch_file(stored.name, stored), late):
                pass
        known = {stored.name for stored in listed}
        for path in self._files(folder):
            if (own := self.name(path)) not in known and not self._is_local(own) and (wanted is None or wanted(own)):
                self._fetch_file(own)  # another process may just have put it

    @staticmethod
    def _files(folder: Path) -> list[Path]:
        """Finished files below a folder; temporary ones begin with a dot."""
        return [
            path
            for path in folder.rglob("[!.]*")
            if not any(part.startswith(".") for part in path.relative_to(folder).parts) and path.is_file()
        ]

    def _fetch_file(self, name: str, stored: Stored | None = None) -> Stored | None:
        path = self.root / name
        while True:
            stored = stored or self.store.head(name)
            if stored is None:
                if not path.is_dir():  # a name that only others begin with
                    path.unlink(missing_ok=True)
                return None
            stamp = time_of(stored)
            if _is(path, stored.size, stamp):
                return stored
            try:
                with replacing_file(path, fetched=True) as temporary:
                    self._make_room(stored.size)
                    self.store.fetch(stored, temporary)
                    os.utime(temporary, ns=(time.time_ns(), stamp))
                return stored
            except Changed:
                stored = None

    def _manifest(self, folder: str) -> Path:
        return self.root / TOGETHER / f".{folder.partition('/')[2]}.json"

    def _fetch_folder(self, folder: str) -> None:
        """Bring a folder that changes as one up to date: what it is made of is said by one object."""
        manifest, place = self._manifest(folder), self.root / folder
        while True:
            stored = self.store.head(f"{folder}.json")
            if stored is None:
                manifest.unlink(missing_ok=True)
                if place.is_dir():
                    shutil.rmtree(place)
                return
            if _is(manifest, stored.size, time_of(stored)):
                files = json.loads(manifest.read_text(encoding="utf-8"))
                if all(_is(place / name, size, time_of(stored, hash_)) for name, (hash_, size) in files.items()):
                    return
            with contextlib.suppress(Changed):
                self._replace_folder(stored, manifest, place)

    def _replace_folder(self, stored: Stored, manifest: Path, place: Path) -> None:
        before = json.loads(manifest.read_text(encoding="utf-8")) if manifest.exists() else {}
        with replacing_folder(place, fetched=True) as made, replacing_file(manifest, fetched=True) as temporary:
            self.store.fetch(stored, temporary)
            files = json.loads(temporary.read_text(encoding="utf-8"))
            for name in files:
                if Path(name).is_absolute() or ".." in Path(name).parts:
                    raise BadInput(f"{name!r} leads out of its folder", file=f"{self.store.address}/{stored.name}")
            self._make_room(sum(size for _, size in files.values()))

            def bring(name: str) -> None:
                hash_, size = files[name]
                own, new = place / name, made / name
                new.parent.mkdir(parents=True, exist_ok=True)
                if before.get(name) == [hash_, size] and own.exists() and file_id(own) == hash_:
                    os.link(own, new)
                else:
                    found = self.store.head(f"{self.name(place)}/{name}.{hash_}")
                    if found is None:
                        raise Changed(name)
                    self.store.fetch(found, new)
                os.utime(new, ns=(time.time_ns(), time_of(stored, hash_)))

            with ThreadPoolExecutor(AT_ONCE) as several:
                for _ in several.map(bring, files):
                    pass
            os.utime(temporary, ns=(time.time_ns(), time_of(stored)))

    def stamp(self, folder: Path) -> list[tuple[str, int, int]]:
        """Path, time and size of the files of a folder as the store has them, without fetching any."""
        name = self.name(folder)
        head = self.store.head(f"{name}.json") if name == self._together(name) else None
        listed = self.store.listed(name) if head is None else [head]
        return [(str(self.root / stored.name), time_of(stored), stored.size) for stored in listed]

    def last(self, path: Path, wanted: Callable[[bytes], int]) -> bytes | None:
        """The last bytes of a file, without fetching it where it is not here; ``wanted`` tells from some how many."""
        stored = self.store.head(self.name(path))
        if stored is None:
            return None
        here = _is(path, stored.size, time_of(stored))
        end, size = b"", min(LAST, stored.size)
        while len(end) < size:
            start = stored.size - size
            end = _part(path, start) if here else self.store.get_range(stored.name, start, size)
            size = min(max(size, wanted(end)), stored.size)
        return end[-wanted(end) :]

    def children(self, folder: Path) -> list[str]:
        """Names of what the store has right below a folder."""
        name = self.name(folder)
        names = self.store.names(name)
        if name == TOGETHER:
            return [one.removesuffix(".json") for one in names if one.endswith(".json")]
        return [one for one in names if one[0] != "."]

    # Writing --------------------------------------------------------------------------------------------------

    def put(self, finished: Path, path: Path) -> None:
        """Put a finished file that is about to become ``path``."""
        name = self.name(path)
        if self._is_local(name):
            return
        if self._together(name):
            raise ValueError(f"{path} belongs to a folder that changes as one")
        tag = self.store.put(name, finished)
        stored = self.store.head(name)
        if stored is not None and stored.tag == tag:  # else another writer came after: it is fetched when it is read
            os.utime(finished, ns=(time.time_ns(), time_of(stored)))

    def put_folder(self, finished: Path, folder: Path) -> None:
        """Put a finished folder that is about to become ``folder``."""
        name = self.name(folder)
        if self._is_local(name):
            return
        files = {path.relative_to(finished).as_posix(): path for path in sorted(finished.rglob("*")) if path.is_file()}
        if not self._together(name):
            for below, path in files.items():
                self.put(path, folder / below)
            self.store.delete(s.name for s in self.store.listed(name) if s.name.removeprefix(f"{name}/") not in files)
            return
        made = {below: [file_id(path), path.stat().st_size] for below, path in files.items()}
        there = {stored.name: stored.size for stored in self.store.listed(name)}
        for below, (hash_, size) in made.items():
            if there.get(f"{name}/{below}.{hash_}") != size:
                self.store.put(f"{name}/{below}.{hash_}", files[below])
        manifest = self._manifest(name)
        with replacing_file(manifest, fetched=True) as temporary:
            temporary.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            tag = self.store.put(f"{name}.json", temporary)
            stored = self.store.head(f"{name}.json")
            if stored is not None and stored.tag == tag:
                for below, path in files.items():
                    os.utime(path, ns=(time.time_ns(), time_of(stored, str(made[below][0]))))
                os.utime(temporary, ns=(time.time_ns(), time_of(stored)))

    def create(self, path: Path, content: bytes) -> None:
        """Put a small file where there is none; where there is one, it stays."""
        self.store.put(self.name(path), content, new=True)
        self.fetch(path)

    def settle(self, paths: Iterable[Path]) -> None:
        """See that files put together are all there, or all another writer's, who put the same files meanwhile.

        Whoever sees both puts his own again and looks again: the last one to put also looks last, so that once no one puts
        any more, they are of one writer.
        """
        stored = {path: self.store.head(self.name(path)) for path in paths}
        while len({s is not None and _is(path, s.size, time_of(s)) for path, s in stored.items()}) > 1:
            for path in stored:
                self.put(path, path)
            time.sleep(random.random())
            stored = {path: self.store.head(self.name(path)) for path in stored}

    def delete(self, path: Path) -> None:
        """Delete a file, or all below a folder, in the store."""
        name = self.name(path)
        if self._is_local(name):
            return
        pointer = [f"{name}.json"] if name == self._together(name) else []
        below = [stored.name for stored in self.store.listed(name)]
        self.store.delete([*pointer, *(below or [name])])
        for one in pointer:
            self._manifest(one.removesuffix(".json")).unlink(missing_ok=True)

    def size(self, path: Path) -> int:
        """Bytes of a file or folder in the store, or here where only this machine has it."""
        name = self.name(path)
        own = self.store.head(name)
        listed = [*self.store.listed(name), *([own] if own else [])]
        here = [path] if path.is_file() else self._files(path)
        return sum(stored.size for stored in listed) or sum(file.stat().st_size for file in here)

    def forsaken(self, older_than: float = 86_400.0) -> Mapping[str, int]:
        """Objects below ``indexes`` that belong to no folder any more, with their sizes; writers may be about to use new ones."""
        listed = self.store.listed(TOGETHER)
        used = {
            f"{stored.name.removesuffix('.json')}/{name}.{hash_}"
            for stored in listed
            if stored.name.count("/") == 1
            for name, (hash_, _) in json.loads(self.store.get(stored.name) or b"{}").items()
        }
        now = max((stored.changed.timestamp() for stored in listed), default=0.0)
        return {
            stored.name: stored.size
            for stored in listed
            if _UNHASHED.search(stored.name)
            and stored.name not in used
            and max(now, time.time()) - stored.changed.timestamp() > older_than
        }

    # Room -----------------------------------------------------------------------------------------------------

    def _make_room(self, size: int) -> None:
        """Let go of what was used least recently, where the folder would outgrow its limit."""
        limit = room()
        with self._room:
            self._since += size
            if self._since < limit / 20:
                return
            self._since = 0.0
            units = _units(self.root)
            taken = sum(own for _, own, _ in units) + size
            for used, own, path in sorted(units, key=lambda unit: unit[0]):
                if taken <= limit or time.time() - used < IN_USE_SECONDS:
                    break
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
                taken -= own


def _units(root: Path) -> list[tuple[float, int, Path]]:
    """What can be let go of, as one: time of last use, bytes, file or folder."""
    units: dict[Path, list[tuple[float, int]]] = {}
    for path in root.rglob("*"):
        parts = path.relative_to(root).parts
        if any(part.startswith(".") and part != ".blocks" for part in parts) or parts[:2] == ("cache", "tokens"):
            continue
        with contextlib.suppress(FileNotFoundError):
            if path.is_file():
                unit = root.joinpath(*parts[:2]) if parts[0] == TOGETHER else path
                status = path.stat()
                units.setdefault(unit, []).append((status.st_atime, status.st_size))
    return [(max(used for used, _ in files), sum(size for _, size in files), unit) for unit, files in units.items()]
