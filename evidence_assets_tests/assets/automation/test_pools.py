"""Steps with models have pools, and are retried when their server is unavailable."""

from pathlib import Path

import dagster as dg
import pytest

from evidence_assets.assets import table_asset as table_assets
from evidence_assets.assets.definitions import load_definitions
from evidence_assets.assets.table_asset import FAIL_FAST_TAG, MAX_RETRIES, table_asset
from evidence_assets.experiment.stage import StageContext, StageOutput
from evidence_assets.lake.errors import BadInput, ModelUnavailable, TemporarilyUnavailable
from evidence_assets.lake.store import Lake
from evidence_assets_tests.assets.small_worlds import materialize


def test_every_step_with_a_model_has_a_pool() -> None:
    pools = {}
    for asset in load_definitions().assets or []:
        if isinstance(asset, dg.AssetsDefinition):
            pools["/".join(asset.key.path)] = asset.op.pool
    for key, pool in {
        "evidence/mcqa/uscrake": "gpu",
        "evidence/mcqa/bm25": None,
        "evidence/table/ucret": "gpu",
        "evidence/mcqa/ugat": "gpu",
        "chains/mcqa/uscrake": "gpu",
        "predictions/table/ucret": None,
        "subgraphs/mcqa": "gpu",
        "corpus/sample/embeddings": "gpu",
        "knowledge/kbloom/candidates": "gpu",
        "knowledge/kbloom/harvest": "gpu",
        "models/masked_lm": "gpu",
        "scores/mcqa/uscrake": None,
        "scores/graph/a2q": "gpu",
    }.items():
        assert pools[key] == pool, key


class Failing:
    """Fails ``times`` times, then succeeds."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.times, self.attempts = error, times, 0

    def __call__(self, step: StageContext) -> StageOutput:
        self.attempts += 1
        if self.attempts <= self.times:
            raise self.error
        return StageOutput([])


@pytest.mark.parametrize(
    ("error", "times", "attempts", "succeeds", "tags"),
    [
        (TemporarilyUnavailable("the server is down"), 2, 3, True, {}),
        (TemporarilyUnavailable("the server is down"), 99, MAX_RETRIES + 1, False, {}),
        (TemporarilyUnavailable("the server is down"), 99, 1, False, {FAIL_FAST_TAG: "true"}),
        (ModelUnavailable("no such weights"), 1, 1, False, {}),
        (BadInput("a typing error"), 1, 1, False, {}),
    ],
)
def test_only_temporary_errors_are_retried(
    error: Exception,
    times: int,
    attempts: int,
    succeeds: bool,
    tags: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_assets, "FIRST_RETRY_DELAY_S", 0.01)
    failing = Failing(error, times)
    asset = table_asset(
        "chains/x", "chains", failing, description="Of the test.", group="test", code_version="1", pool="llm"
    )
    result = materialize(Lake.create(tmp_path), asset, raise_on_error=False, tags=tags)
    assert (result.success, failing.attempts) == (succeeds, attempts)
    if not succeeds:
        failed = next(event for event in result.all_events if event.is_step_failure)
        assert str(error) in failed.step_failure_data.error_display_string
