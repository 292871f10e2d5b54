"""The opted-in assets of a harvest: kinds and judges; the picture of its scores."""

import base64
from pathlib import Path
from typing import Any

import pytest

from evidence_assets.assets.system import PRESET_TAG, build_variant_defs
from evidence_assets.experiment.variants import Variant, variants_of
from evidence_assets.lake.store import Lake
from evidence_assets.systems.kbloom.rows import build_seed_rows
from evidence_assets_tests.assets.small_worlds import materialize
from evidence_assets_tests.systems.kbloom.test_scores import EATS, make_triples

HARVEST = "knowledge/mine/harvest"
JUDGED = """\
extends: embedded
name: judged
generators: {none: {backend: extractive}, judge: {backend: openai, name: judge}}
harvesting: {judges: [judge]}
"""


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


def test_models_judge_if_the_profile_has_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variant = harvest(baseline=False)
    assert not any("judged" in key for key in parents(variant)), "an extractive profile has no judge"
    (tmp_path / "judged.yaml").write_text(JUDGED)
    monkeypatch.setenv("EVIDENCE_PROFILE", str(tmp_path / "judged.yaml"))
    assert HARVEST in parents(variant)["scores/knowledge/mine_judged"]


def test_a_harvest_depends_on_its_type_triples() -> None:
    assert "knowledge/typed/triples" in parents(harvest(kinds="knowledge/typed/triples"))[HARVEST]


def test_a_shared_search_is_one_asset_that_all_presets_of_its_variants_select() -> None:
    """Also without the variant that it is named after."""
    names = ["kbloom_euclidean", "kbloom_corrected"]
    sharing = [next(variant for variant in variants_of("kbloom") if variant.name == name) for name in names]
    definitions: Any = build_variant_defs(*sharing)
    specs = [spec for asset in definitions.assets for spec in asset.specs]
    tags = {s.key.to_user_string(): {tag for tag in s.tags if tag.startswith(PRESET_TAG)} for s in specs}
    presets = [{f"{PRESET_TAG}{name}" for name in variant.printed.presets} for variant in sharing]
    assert presets[0] != presets[1]
    for stage in ("prompts", "candidates"):
        assert tags[f"knowledge/kbloom_printed/{stage}"] == presets[0] | presets[1]
    assert [tags[f"knowledge/{name}/harvest"] for name in names] == presets
    assert not any("bertnet" in key for key in tags), "neither runs the baseline"
    assert len(definitions.asset_checks) == len(tags)


def test_the_scores_of_a_harvest_have_a_picture_of_its_precision(lake: Lake) -> None:
    raw = lake.root / "raw" / "sample"
    (raw / "graphs").mkdir(parents=True)
    for name in ("graphs/biomedical.tsv", "graphs/commonsense.tsv", "held_out.tsv"):
        (raw / name).write_text("")
    (raw / "stated.tsv").write_text("owl\teats\tmouse\n")
    lake.write("knowledge/seeds", "eats", {"relation_seeds": build_seed_rows(EATS)})
    lake.write(HARVEST, "eats", {"triples": make_triples([("fox", "hen"), ("owl", "mouse")])})
    definitions = build_variant_defs(harvest(baseline=False, truth="sample"))
    result = materialize(lake, definitions, "scores/knowledge/mine")
    (materialization,) = result.asset_materializations_for_node("scores__knowledge__mine")
    markdown = str(materialization.metadata["precision on zoo"].value)
    assert "mine: 1.000 at 1" in base64.b64decode(markdown.partition("base64,")[2].rstrip(")")).decode()
