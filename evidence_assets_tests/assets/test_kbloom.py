"""The opted-in assets of a harvest over stored rows: kinds and judges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.system import build_variant_defs
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.store import Lake
from evidence_assets.systems.kbloom.rows import build_seed_rows
from evidence_assets_tests.assets.small_worlds import materialize
from evidence_assets_tests.models.servers import MODEL, FaultyServer, running
from evidence_assets_tests.systems.kbloom.test_scores import EATS, make_triples

HARVEST = "knowledge/mine/harvest"
PROFILE = """\
extends: embedded
name: judged
generators: {{none: {{backend: extractive}}, judge: {{backend: openai, name: {judge}, base_url: "{url}"}}}}
harvesting:
  judges: [judge]
"""


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Seeds and two harvested triples of one relation."""
    monkeypatch.setenv("EVIDENCE_LAKE", str(tmp_path / "data_lake"))
    test_lake = LakeResource(root=str(tmp_path / "data_lake")).open()
    test_lake.write("knowledge/seeds", "eats", {"relation_seeds": build_seed_rows(EATS)})
    test_lake.write(HARVEST, "eats", {"triples": make_triples([("owl", "mouse"), ("cow", "moon")])})
    return test_lake


def harvest(**parameters: object) -> Variant:
    return Variant(system="kbloom", family="knowledge", name="mine", parameters={"collections": ["zoo"], **parameters})


def parents(variant: Variant) -> dict[str, set[str]]:
    """Every asset of the variant with its upstream keys."""
    definitions: Any = build_variant_defs(variant)
    return {
        spec.key.to_user_string(): {dep.asset_key.to_user_string() for dep in spec.deps}
        for asset in definitions.assets
        for spec in asset.specs
    }


def test_models_judge_if_the_profile_has_any(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variant = harvest(baseline=False)
    assert not any("judged" in key for key in parents(variant)), "an extractive profile has no judge"
    server, profile = FaultyServer(), tmp_path / "judged.yaml"
    server.reply = lambda user: "correct" if "owl eats mouse." in user else "wrong"
    with running(server.app) as url:
        profile.write_text(PROFILE.format(url=url, judge=MODEL))
        monkeypatch.setenv("EVIDENCE_PROFILE", str(profile))
        assert "scores/knowledge/mine_judged" in parents(variant)
        result = materialize(lake, build_variant_defs(variant), "scores/knowledge/mine_judged")
    (event,) = result.get_asset_materialization_events()
    metadata = event.step_materialization_data.materialization.metadata
    assert (metadata["model_tasks"].value, metadata["tokens_in"].value, metadata["tokens_out"].value) == (2, 22, 6)
    rows = lake.read("scores", "scores/knowledge/mine_judged")
    values = {(row["reasoner"].partition("@")[0], row["metric"]): row["value"] for row in rows.iter_rows(named=True)}
    assert values[MODEL, "precision"] == 0.5


def test_a_harvest_depends_on_its_type_triples() -> None:
    assert "knowledge/typed/triples" in parents(harvest(kinds="knowledge/typed/triples"))[HARVEST]
