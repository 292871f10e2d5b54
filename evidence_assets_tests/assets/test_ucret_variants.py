"""The variant of UCRET that adds passages; ``test_every_table`` tests that all variants answer."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from evidence_assets_tests.assets.small_worlds import small_world


@pytest.mark.long
def test_the_bridge_adds_passages_marked_as_outside(tmp_path: Path) -> None:
    with small_world(tmp_path / "world", ["name: small", "presets: [ucret_bridge]"]) as world:
        world.make("raw/sample")
        world.make("corpus/sample/chunks", "corpus/sample/embeddings", partition="0")
        world.make("corpus/sample/index")
        world.make("tables", partition="sample_claims")
        world.make("questions/table", "evidence/table/ucret_bridge", partition="sample_claims|0")
        rows = world.rows("evidence", "evidence/table/ucret_bridge")
    outside, cells = (rows.filter(pl.col("kind") == kind) for kind in ("chunk", "cell"))
    assert outside.height and {json.loads(reason)["rule"] for reason in outside["why"]} == {"outside"}
    later = outside.join(cells.group_by("question_id").agg(pl.col("rank").max().alias("last")), on="question_id")
    assert (later["rank"] > later["last"]).all()
