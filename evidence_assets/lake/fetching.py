"""The door to files of a lake, wherever it is kept: here they are, or here they are brought up to date first.

Belongs here: what is asked before a file of a lake is read, listed or deleted. For a lake in a folder each of these does
what its name says and no more; for one at an address, ``lake.mirror`` does the work.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from evidence_assets.lake.atomic import keeper_of, keepers
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.mirror import ADDRESS_FILE, Mirror
from evidence_assets.lake.object_store import ObjectStore, address_of

CACHE_VARIABLE = "EVIDENCE_CACHE"
_opening = Lock()


def local_root(place: str | Path) -> Path:
    """The folder that stands for a lake: the place itself, or this machine's mirror of what is at an address."""
    address = address_of(place)
    if address:
        return fetched(mirror_at(address).root / "format.json").parent
    root = Path(place)
    if (root / ADDRESS_FILE).is_file():
        address = (root / ADDRESS_FILE).read_text(encoding="utf-8").strip()
        if root.resolve() == _root_of(address):  # a lake that someone else made does not send ours anywhere
            return mirror_at(address).root
    return root


def _root_of(address: str) -> Path:
    named = os.environ.get(CACHE_VARIABLE)
    base = Path(named) if named else Path.home() / ".cache" / "evidence_assets"
    return (base / f"{re.sub('[^a-z0-9]+', '-', address.lower())[:60]}-{content_id(address)[:8]}").resolve()


def mirror_at(address: str) -> Mirror:
    """This machine's mirror of the lake at an address."""
    root = _root_of(address)
    with _opening:
        if root not in keepers:
            keepers[root] = Mirror(ObjectStore(address), root)
        mirror = keepers[root]
        assert isinstance(mirror, Mirror)
        return mirror


def mirror_of(path: Path) -> Mirror | None:
    """The mirror that a path lies in; None for all that is only local."""
    keeper = keeper_of(path)
    return keeper if isinstance(keeper, Mirror) else None


def fetched(path: Path) -> Path:
    """The path, up to date with the store where it lies in a mirror: a file, or a folder that changes as one."""
    mirror = mirror_of(path)
    if mirror is not None:
        mirror.fetch(path)
    return path


def fetched_below(folder: Path, wanted: Callable[[str], bool] | None = None) -> Path:
    """The folder with all files that the store has below it, or those whose names, below the lake, are wanted."""
    mirror = mirror_of(folder)
    if mirror is not None:
        mirror.fetch_below(folder, wanted)
    return folder


def children(folder: Path) -> list[str]:
    """Names of what lies right below a folder, fetched or not."""
    mirror = mirror_of(folder)
    if mirror is not None:
        return mirror.children(folder)
    return sorted(path.name for path in folder.iterdir() if path.name[0] != ".") if folder.is_dir() else []


def below(folder: Path) -> list[Path]:
    """All files below a folder, by name, fetched or not."""
    mirror = mirror_of(folder)
    if mirror is not None:
        return [mirror.root / stored.name for stored in mirror.store.listed(mirror.name(folder))]
    return sorted(path for path in folder.rglob("[!.]*") if path.is_file()) if folder.is_dir() else []


def exists(file: Path) -> bool:
    """Whether there is a file, fetched or not."""
    mirror = mirror_of(file)
    return file.exists() if mirror is None else mirror.store.head(mirror.name(file)) is not None


def removed(path: Path) -> None:
    """Delete a file or a whole folder, in the store first; it does not matter whether it is there."""
    mirror = mirror_of(path)
    if mirror is not None:
        mirror.delete(path)
    if path.is_dir():
        with contextlib.suppress(FileNotFoundError):  # another process is at it, too
            shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
