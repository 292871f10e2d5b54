"""The opted-in assets of a harvest: kinds and judges."""

from pathlib import Path
from typing import Any

import pytest

from evidence_assets.assets.system import build_variant_defs
from evidence_assets.experiment.variants import Variant

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
