"""Questions a minute: worked out of what steps computed anew, read back from Dagster's own records."""

from __future__ import annotations

import dagster as dg
import pyarrow as pa
import pytest

from evidence_assets.assets.pace import A_MINUTE, SECONDS, pace, pace_of


def test_only_what_was_computed_anew_counts() -> None:
    rows = pa.table({"question_id": ["a", "a", "b", "b"]})
    assert pace(rows, 0, 4.0) == {SECONDS: 2.0, A_MINUTE: 30.0}
    assert pace(rows, 2, 4.0) == {SECONDS: 4.0, A_MINUTE: 15.0}
    assert pace(rows, 4, 4.0) == {}
    assert pace(pa.table({"chunk_id": ["a"]}), 0, 4.0) == {}


def record(instance: dg.DagsterInstance, asset: str, partition: str, seconds: float | None) -> None:
    metadata = {} if seconds is None else {SECONDS: seconds}
    key = dg.AssetKey(asset.split("/"))
    instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=partition, metadata=metadata))


def test_a_variant_is_as_fast_as_its_steps_together() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        record(instance, "evidence/x", "b|0", 9.0)
        record(instance, "evidence/x", "b|0", 0.5)
        record(instance, "evidence/x", "b|0", None)  # all rows taken over: says nothing
        record(instance, "predictions/x", "b|0", 1.0)
        record(instance, "predictions/x", "other|0", 99.0)
        assert pace_of(instance, ["evidence/x", "predictions/x"], ["b|0"]) == {A_MINUTE: pytest.approx(40.0)}
        assert pace_of(instance, ["evidence/x", "chains/x"], ["b|0"]) == {}
        assert pace_of(instance, ["evidence/x"], ["never|0"]) == {}
