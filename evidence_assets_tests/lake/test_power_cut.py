"""A power cut loses no finished file: content and directory entries are flushed before the rename."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evidence_assets.lake.atomic import replacing_file, replacing_folder


def state(path: Path) -> list[str]:
    """What a flush secures: the entries of a folder, or a file's last change."""
    return [one.name for one in path.iterdir()] if path.is_dir() else [str(path.stat().st_mtime_ns)]


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[str]]:
    """The state of each inode at its last flush."""
    real_fsync = os.fsync
    states: dict[int, list[str]] = {}

    def fsync(handle: int) -> None:
        real_fsync(handle)
        path = Path(f"/proc/self/fd/{handle}").resolve()
        states[path.stat().st_ino] = state(path)

    monkeypatch.setattr(os, "fsync", fsync)
    return states


def is_flushed(path: Path, flushed: dict[int, list[str]]) -> bool:
    """Whether a file or folder, its contents and its directory entry are flushed in their current state."""
    return all(
        {name for name in state(one) if not name.endswith((".lock", ".tmp"))} <= set(flushed.get(one.stat().st_ino, []))
        for one in (path.parent, path, *path.rglob("*"))
    )


def test_replaced_files_and_folders_are_flushed_to_disk(tmp_path: Path, flushed: dict[int, list[str]]) -> None:
    with replacing_file(tmp_path / "a" / "file") as file, replacing_folder(tmp_path / "b" / "folder") as folder:
        file.write_text("one")
        (folder / "inner").mkdir()
        (folder / "inner" / "vectors").write_text("two")
    assert is_flushed(tmp_path / "a" / "file", flushed) and is_flushed(tmp_path / "b" / "folder", flushed)
    (tmp_path / "a" / "file").write_text("three")
    assert not is_flushed(tmp_path / "a" / "file", flushed)
