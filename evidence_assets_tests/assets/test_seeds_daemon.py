"""The seed sensor under a real daemon process: what changed while none ran is made once, what did not is left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import pytest

from evidence_assets.definitions import defs
from evidence_assets.lake.store import Lake
from evidence_assets_tests.assets.house import write_seed
from evidence_assets_tests.conftest import REPOSITORY, World

SEEDS = "knowledge/seeds"
pytestmark = pytest.mark.slow


def test_a_daemon_that_was_down_makes_the_edited_relation_and_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    (world.root / "small.yaml").write_text(
        "extends: embedded\nname: small\nsample: small\nharvesting: {sample_relations: []}\n"
    )
    root = world.root / "data_lake"
    for name in ("kept", "edited"):
        write_seed(root, name, "<HEAD> may treat <TAIL>", [["allopurinol", "gout"]])
    key = dg.AssetKey(SEEDS.split("/"))
    with dg.DagsterInstance.get() as instance:
        job = defs().resolve_implicit_global_asset_job_def()
        assert job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey(["raw", "seeds"])]).success
        for name in ("kept", "edited"):
            assert job.execute_in_process(instance=instance, asset_selection=[key], partition_key=name).success
    write_seed(root, "edited", "<HEAD> may treat <TAIL>", [["colchicine", "gout"]])

    def heads() -> list[str]:
        return Lake(root).read("relation_seeds", SEEDS, "edited")["head"].to_list()

    log = (world.root / "daemon.log").open("w")
    daemon = subprocess.Popen(
        [Path(sys.executable).with_name("dagster-daemon"), "run", "-w", REPOSITORY / "workspace.yaml"],
        env={**os.environ, **world.environment}, stdout=log, stderr=log, start_new_session=True, cwd=REPOSITORY,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 300
        while heads() != ["colchicine"]:
            assert daemon.poll() is None and time.monotonic() < deadline, (world.root / "daemon.log").read_text()[
                -3000:
            ]
            time.sleep(1)
    finally:
        os.killpg(daemon.pid, signal.SIGTERM)
        daemon.wait(30)
        log.close()
    with dg.DagsterInstance.get() as instance:
        asked = [run for run in instance.get_runs() if key in (run.asset_selection or ())]
    assert [run.tags.get("dagster/partition") for run in asked] == ["edited", "edited", "kept"], "newest first"
