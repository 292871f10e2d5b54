"""What a power cut would lose: nothing that was put in its place, because the disk has the content and the name
first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evidence_assets.lake.atomic import replacing_file, replacing_folder


def state(path: Path) -> list[str]:
    """What a flush makes safe: the names in a folder, or a file as it was last changed."""
    return [one.name for one in path.iterdir()] if path.is_dir() else [str(path.stat().st_mtime_ns)]


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[str]]:
    """The state in which each inode was flushed last."""
    real = os.fsync
    seen: dict[int, list[str]] = {}

    def fsync(handle: int) -> None:
        real(handle)
        path = Path(f"/proc/self/fd/{handle}").resolve()
        seen[path.stat().st_ino] = state(path)

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


def safe(path: Path, flushed: dict[int, list[str]]) -> bool:
    """Whether a file is on the disk as it is, and its name, and all that lies in a folder."""
    return all(
        {name for name in state(one) if not name.endswith((".lock", ".tmp"))} <= set(flushed.get(one.stat().st_ino, []))
        for one in (path.parent, path, *path.rglob("*"))
    )


def test_files_and_folders_that_took_their_place_are_on_the_disk(tmp_path: Path, flushed: dict[int, list[str]]) -> None:
    with replacing_file(tmp_path / "a" / "file") as file, replacing_folder(tmp_path / "b" / "folder") as folder:
        file.write_text("one")
        (folder / "inner").mkdir()
        (folder / "inner" / "vectors").write_text("two")
    assert safe(tmp_path / "a" / "file", flushed) and safe(tmp_path / "b" / "folder", flushed)
    (tmp_path / "a" / "file").write_text("three")
    assert not safe(tmp_path / "a" / "file", flushed)
