"""Placement options of steps for Dagster and Ray."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import dagster as dg
import pytest

from evidence_assets import profiles
from evidence_assets.assets import resources
from evidence_assets.assets.resources import STEP_VARIABLE, executor, step_options
from evidence_assets.definitions import defs
from evidence_assets.lake.errors import BadInput

ON_RAY = "extends: embedded\nname: on_ray\nexecutor: ray\nneeds: {gpu: {cpus: 2, gpus: 0.5, memory: 3GB}}\n"
TAG = "dagster-ray/config"


@pytest.fixture
def on_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "on_ray.yaml").write_text(ON_RAY)
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, str(tmp_path / "on_ray.yaml"))


@pytest.mark.usefixtures("on_ray")
def test_the_profile_sets_a_steps_resources_by_its_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "executor", lambda: None)  # needs packages that this test does not
    config_by_op = {}
    for asset in [*(defs().assets or []), *(defs().asset_checks or [])]:
        assert isinstance(asset, dg.AssetsDefinition)
        config_by_op[asset.op.name] = json.loads(asset.op.tags.get(TAG, "null"))
        assert config_by_op[asset.op.name] is None or asset.op.retry_policy == dg.RetryPolicy(
            max_retries=resources.MAX_STEP_RESTARTS
        )
    assert config_by_op["evidence__mcqa__uscrake"] == {"num_cpus": 2, "num_gpus": 0.5, "memory": 3_000_000_000}
    assert config_by_op["evidence__mcqa__bm25"] == {"num_cpus": 1, "memory": 2_000_000_000}
    assert config_by_op["corpus__sample__embeddings"] == config_by_op["evidence__mcqa__uscrake"]
    unplaced = {"raw__seeds", "raw__seeds_seed_files", "raw__seeds_seed_pairs"}  # they only read small files
    assert config_by_op["corpus__sample__token_store"] == config_by_op["evidence__mcqa__uscrake"]
    assert {name for name, needs in config_by_op.items() if needs is None} == unplaced


@pytest.mark.usefixtures("on_ray")
def test_only_the_run_process_retries_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "retry_policy" in step_options("gpu")
    monkeypatch.setenv(STEP_VARIABLE, "a_step")
    assert "retry_policy" not in step_options("gpu")


@pytest.mark.usefixtures("on_ray")
def test_the_profile_needs_the_ray_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dagster_ray", None)
    with pytest.raises(BadInput, match=r"evidence-assets\[ray\]"):
        executor()
