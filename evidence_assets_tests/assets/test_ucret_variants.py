"""The declared variants of UCRET and UCRET-JS; ``test_every_table`` tests that they answer."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from evidence_assets.experiment.variants import variants_of
from evidence_assets_tests.assets.small_worlds import small_world


def test_what_is_declared_and_opted_in() -> None:
    grid = [
        f"ucret_theta{theta}_tau{tau}" for theta in (55, 60, 65) for tau in (20, 25, 30) if (theta, tau) != (60, 25)
    ]
    js = ["ucret_js_eta20", "ucret_js_eta40", "ucret_js_temperature02", "ucret_js_temperature05"]
    js += ["ucret_js_raw", "ucret_js_distance", "ucret_js_several"]
    ablations = [
        "bidirectional",
        "bidirectional_claims",
        "keep_all",
        "without_explanations",
        "ucret_js_without_explanations",
    ]
    main = ["ucret", "ucret_published", "ucret_js", "ucret_js_published", "ucret_bridge"]
    declared = sorted(variant.name for variant in variants_of("ucret"))
    assert declared == sorted([*grid, *js, *ablations, *main, "ucret_k3", "ucret_k4"])


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
