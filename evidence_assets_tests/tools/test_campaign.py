"""The campaigns find what they are for, and the one that is quick finds nothing in this project."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evidence_assets.lake.atomic import replacing_file
from evidence_assets_tests.conftest import REPOSITORY
from tools.campaign.world import Moment, World, _watch, cut_power


def campaign(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.campaign", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_spoilt_inputs_to_every_reader() -> None:
    process = campaign("fuzz", "--inputs", "340", "--seed", "11")
    assert process.returncode == 0, process.stdout + process.stderr
    assert "no find" in process.stdout


@pytest.mark.long
def test_kills_leave_no_trace(tmp_path: Path) -> None:
    process = campaign("kill", "--rounds", "1", "--only", "removed", "--seed", "4", "--folder", str(tmp_path))
    assert process.returncode == 0, process.stdout + process.stderr
    *_, total, kills = process.stdout.strip().splitlines()
    assert re.fullmatch(r"all +1 +[1-3] +\d+ +0 +0 +0 +0 +0", total) and "write" in kills


def test_a_power_cut_takes_what_was_not_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rename", "replace", "fsync", "mkdir", "unlink", "utime"):
        monkeypatch.setattr(os, name, getattr(os, name))  # so that each is as it was after the test
    world = World(tmp_path / "w")
    world.lake.mkdir(parents=True)
    (world.lake / "before").write_text("old")
    os.utime(world.lake / "before", (1, 1))
    began = time.time() - 1
    writes = _watch(world, Moment())
    with replacing_file(world.lake / "safe") as file:
        file.write_text("flushed")
    (world.lake / "unsafe").write_text("not flushed")
    for name in ("before", "safe", "unsafe"):
        os.utime(world.lake / name)
    assert writes[0] >= 4
    assert cut_power(world, began, random.Random(1)) == 1
    assert (world.lake / "before").read_text() == "old" and (world.lake / "safe").read_text() == "flushed"
    assert len((world.lake / "unsafe").read_text()) < len("not flushed")
