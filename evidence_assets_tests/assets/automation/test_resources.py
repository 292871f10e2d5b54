"""The pools of steps and the executor of runs."""

from pathlib import Path

import dagster as dg
import pytest

from evidence_assets import profiles
from evidence_assets.assets.definitions import load_definitions


def test_steps_with_a_model_are_in_its_pool() -> None:
    pools = {
        asset.op.name: asset.op.pool
        for asset in load_definitions().assets or []
        if isinstance(asset, dg.AssetsDefinition)
    }
    for name in ("evidence__mcqa__uscrake", "corpus__sample__embeddings", "corpus__sample__token_store"):
        assert pools[name] == "gpu"
    assert pools["evidence__mcqa__bm25"] is pools["raw__seeds"] is None


@pytest.mark.parametrize("executor", ["in_process", "multiprocess"])
def test_the_profile_chooses_the_executor(executor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.yaml").write_text(f"extends: embedded\nname: own\nexecutor: {executor}\n")
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, str(tmp_path / "own.yaml"))
    chosen = load_definitions().executor
    assert isinstance(chosen, dg.ExecutorDefinition) and chosen.name == executor
