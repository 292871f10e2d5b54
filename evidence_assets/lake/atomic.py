"""Atomic replacement of files and folders, flushed to disk."""

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
from uuid import uuid4

from evidence_assets.lake.errors import DiskFull

if TYPE_CHECKING:
    from evidence_assets.lake.mirror import Mirror

_DISK_FULL_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

mirrors: dict[Path, Mirror] = {}
"""Local folders that mirror a remote lake; finished files are uploaded."""


def mirror_of(path: Path) -> Mirror | None:
    """The mirror that contains a path; None for a local path."""
    return next((mirrors[folder] for folder in (path, *path.parents) if folder in mirrors), None) if mirrors else None


@contextlib.contextmanager
def replacing_file(path: Path, *, downloaded: bool = False) -> Iterator[Path]:
    """Yield a locked temporary file, which replaces ``path`` if the block succeeds, else is deleted.

    A ``downloaded`` file is neither uploaded nor flushed to disk.
    """
    _create_folder(path.parent)
    for leftover in path.parent.glob(f".{path.name}.*.tmp"):
        if is_abandoned(leftover):
            leftover.unlink(missing_ok=True)
    temporary = path.parent / f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp"
    handle = temporary.open("wb")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield temporary
        if not downloaded:
            _flush(temporary)
            if (mirror := mirror_of(path)) is not None:
                mirror.upload(temporary, path)
        temporary.replace(path)
        if not downloaded:
            _flush(path.parent)
    except (OSError, RuntimeError) as error:
        raise_if_disk_full(error, path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
        handle.close()


def raise_if_disk_full(error: Exception, path: Path) -> None:
    """Raise DiskFull if a disk is full; some libraries report this only in the message."""
    number = error.errno if isinstance(error, OSError) else None
    if number in _DISK_FULL_ERRNOS or any(os.strerror(full) in str(error) for full in _DISK_FULL_ERRNOS):
        message = f"no space left to write {path}; the previous version is unchanged: free some space and run again"
        raise DiskFull(number or errno.ENOSPC, message) from error


def _flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _create_folder(folder: Path) -> None:
    new_folders = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for created in new_folders:
        _flush(created.parent)


def is_abandoned(temporary: Path) -> bool:
    """Whether no process holds the lock of a temporary file or folder."""
    lock = temporary.with_suffix(".lock")
    try:
        handle = os.open(lock if lock.exists() else temporary, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


@contextlib.contextmanager
def replacing_folder(folder: Path, *, downloaded: bool = False) -> Iterator[Path]:
    """Yield a temporary folder that replaces ``folder`` when the block succeeds; see `replacing_file`.

    A version that a process killed between the two renames has left as ``.old`` is restored first.
    """
    _create_folder(folder.parent)
    # A download has its own lock, so that it does not wait for a writer.
    name = f".{folder.name}.fetched" if downloaded else f".{folder.name}"
    temporary = folder.parent / f"{name}.tmp"
    old = folder.parent / f"{name}.old"
    lock = folder.parent / f"{name}.lock"
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if old.exists() and not folder.exists():
            old.replace(folder)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        try:
            yield temporary
            if not downloaded:
                for path in [*sorted(temporary.rglob("*")), temporary]:
                    _flush(path)
                if (mirror := mirror_of(folder)) is not None:
                    mirror.upload(temporary, folder)
            shutil.rmtree(old, ignore_errors=True)
            if folder.exists():
                folder.replace(old)
            temporary.replace(folder)
            _flush(folder.parent)
            shutil.rmtree(old, ignore_errors=True)
        except (OSError, RuntimeError) as error:
            raise_if_disk_full(error, folder)
            raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Yield a new folder in ``parent`` and delete it afterwards; its mapped files remain readable.

    Deletes the folders of killed processes first.
    """
    for leftover in parent.glob(".*.tmp"):
        if is_abandoned(leftover):
            shutil.rmtree(leftover, ignore_errors=True)
    new = parent / f".{uuid4().hex}"
    new.mkdir()
    handle = os.open(new, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    temporary = new.rename(f"{new}.tmp")  # only a locked folder has a name that others may delete
    try:
        yield temporary
    except Exception as error:
        raise_if_disk_full(error, parent)
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(handle)
