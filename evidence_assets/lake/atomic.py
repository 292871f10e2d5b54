"""How a file or a folder takes the place of another: whole, flushed to disk, or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from evidence_assets.lake.errors import NoRoom

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextlib.contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its place when the block ends well and vanishes when it does not.

    Its lock says that someone writes it; the lock of a killed writer is gone with it.
    """
    _make_folder(path.parent)
    for stale in path.parent.glob(f".{path.name}.*.tmp"):
        if abandoned(stale):
            stale.unlink(missing_ok=True)
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
    held = temporary.open("wb")
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield temporary
        _flush(temporary)
        temporary.replace(path)
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
        raise NoRoom(
            number or errno.ENOSPC,
            f"no room to write {path}; what was there before is unchanged: free some space and run again",
        ) from error


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make_folder(folder: Path) -> None:
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        _flush(made.parent)


def abandoned(temporary: Path) -> bool:
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
def replacing_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that takes the place of ``folder`` when the block ends well.

    For indexes and token stores, whose files belong together. Between the two renames there is a moment without the
    folder; whoever opens it then is told to run again.
    """
    _make_folder(folder.parent)
    temporary = folder.parent / f".{folder.name}.tmp"
    lock = folder.parent / f".{folder.name}.lock"
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        try:
            yield temporary
            for made in [*sorted(temporary.rglob("*")), temporary]:
                _flush(made)
            old = folder.parent / f".{folder.name}.old"
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
