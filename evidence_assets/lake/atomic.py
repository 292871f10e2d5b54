"""How a file or a folder takes the place of another: whole, flushed to disk, or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from evidence_assets.lake.errors import DiskFull

if TYPE_CHECKING:
    from evidence_assets.lake.mirror import Mirror

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


mirrors: dict[Path, Mirror] = {}
"""Folders of copies of lakes at an address, whose finished files are uploaded."""


def mirror_of(path: Path) -> Mirror | None:
    """The mirror that a path is in; None for all that is only local."""
    return next((mirrors[folder] for folder in (path, *path.parents) if folder in mirrors), None) if mirrors else None


@contextlib.contextmanager
def replacing_file(path: Path, *, downloaded: bool = False) -> Iterator[Path]:
    """A locked temporary file that takes the place of ``path`` when the block ends well and vanishes when it does not.

    A ``downloaded`` file is neither uploaded nor flushed to the disk.
    """
    _make_folder(path.parent)
    for stale in path.parent.glob(f".{path.name}.*.tmp"):
        if is_abandoned(stale):
            stale.unlink(missing_ok=True)
    temporary = path.parent / f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp"
    held = temporary.open("wb")
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield temporary
        if not downloaded:
            _flush(temporary)
            if (mirror := mirror_of(path)) is not None:
                mirror.upload(temporary, path)
        temporary.replace(path)
        if not downloaded:
            _flush(path.parent)
    except (OSError, RuntimeError) as error:
        _tell_no_room(error, path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
        held.close()


def _tell_no_room(error: OSError | RuntimeError, path: Path) -> None:
    """Say of a full disk what was being written; some libraries tell of one by text alone."""
    number = error.errno if isinstance(error, OSError) else None
    if number in _FULL or any(os.strerror(full) in str(error) for full in _FULL):
        message = f"no room to write {path}; what was there before is unchanged: free some space and run again"
        raise DiskFull(number or errno.ENOSPC, message) from error


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make_folder(folder: Path) -> None:
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for new in missing:
        _flush(new.parent)


def is_abandoned(temporary: Path) -> bool:
    """Whether nobody writes a temporary file, or folder, any more."""
    lock = temporary.with_suffix(".lock") if temporary.is_dir() else temporary
    try:
        with lock.open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return temporary.is_dir()
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def replacing_folder(folder: Path, *, downloaded: bool = False) -> Iterator[Path]:
    """Yield a temporary folder that replaces ``folder`` when the block succeeds; see `replacing_file`."""
    _make_folder(folder.parent)
    # A download has its own lock, so that it does not wait for a writer.
    name = f".{folder.name}.fetched" if downloaded else f".{folder.name}"
    temporary = folder.parent / f"{name}.tmp"
    lock = folder.parent / f"{name}.lock"
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        try:
            yield temporary
            if not downloaded:
                for made in [*sorted(temporary.rglob("*")), temporary]:
                    _flush(made)
                if (mirror := mirror_of(folder)) is not None:
                    mirror.upload(temporary, folder)
            old = folder.parent / f"{name}.old"
            shutil.rmtree(old, ignore_errors=True)
            if folder.exists():
                folder.replace(old)
            temporary.replace(folder)
            _flush(folder.parent)
            shutil.rmtree(old, ignore_errors=True)
        except (OSError, RuntimeError) as error:
            _tell_no_room(error, folder)
            raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
