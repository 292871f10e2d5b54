"""The campaigns find what they are for, and the one that is quick finds nothing in this project."""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path

import pytest

from evidence_assets.lake.atomic import replacing_file
from evidence_assets_tests.conftest import REPOSITORY, run_python
from tools.campaign.world import Moment, World, _watch, cut_power


def campaign(*arguments: str) -> str:
    return run_python("-m", "tools.campaign", *arguments, cwd=REPOSITORY, env={"PYTHONPATH": str(REPOSITORY)})


def test_corrupt_inputs_of_every_reader() -> None:
    assert "no find" in campaign("fuzz", "--inputs", "340", "--seed", "11")


@pytest.mark.long
def test_kills_leave_no_trace(tmp_path: Path) -> None:
    output = campaign("kill", "--rounds", "1", "--only", "removed", "--seed", "4", "--folder", str(tmp_path))
    *_, total, kills = output.strip().splitlines()
    assert re.fullmatch(r"all +1 +[1-3] +\d+ +0 +0 +0 +0 +0", total) and "write" in kills


def test_a_power_cut_loses_unflushed_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
