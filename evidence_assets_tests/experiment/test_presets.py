"""Loaded variants: those without a preset, and those of enabled presets."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence_assets import profiles
from evidence_assets.assets.system import PRESET_TAG
from evidence_assets.definitions import defs
from evidence_assets.experiment.scores.published_figures import figures
from evidence_assets.experiment.variants import (
    ALL_PRESETS,
    PRESETS_VARIABLE,
    enabled_presets,
    is_enabled,
    presets,
    variants,
)
from evidence_assets.lake.errors import BadInput


def test_every_preset_reproduces_a_published_table() -> None:
    published_tables = {(f.document, f.table) for f in figures()}
    for preset in presets().values():
        assert preset.about.endswith(".") and (preset.tables or preset.beside), preset.name
        for table in (*preset.tables, *preset.beside):
            document, _, number = table.partition(" ")
            assert (document, number) in published_tables, preset.name


def test_a_variant_is_loaded_without_presets_or_with_an_enabled_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PRESETS_VARIABLE, raising=False)
    assert is_enabled(())
    assert not is_enabled(("uscrake_costs",))
    assert is_enabled(("uscrake_costs",), always=True)
    monkeypatch.setenv(PRESETS_VARIABLE, "ucret_main, uscrake_costs")
    assert enabled_presets() == {"ucret_main", "uscrake_costs"}
    assert is_enabled(("uscrake_costs", "uscrake_main"))
    assert not is_enabled(("uscrake_main",))
    monkeypatch.setenv(PRESETS_VARIABLE, ALL_PRESETS)
    assert enabled_presets() == set(presets())


def variants_in(folder: Path, text: str) -> Path:
    (folder / "baselines").mkdir()
    (folder / "baselines" / "variants.yaml").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mcqa/z: {metod: bm25}", "there is no 'metod'; did you mean 'method'"),
        ("mcqa/z: {like: mcqa/yy}\nmcqa/y: {}", "there is no variant 'mcqa/yy'; did you mean 'mcqa/y'"),
        ("z: {}", "'z' must have the form family/name"),
        ("mcqa/z: {evidence: y}", "reads the evidence of 'y', which is not declared"),
        (
            "mcqa/y: {presets: [uscrake_costs]}\nmcqa/z: {evidence: y, presets: [uscrake_main]}",
            "variant mcqa/z is loaded, but mcqa/y, whose evidence it reads, is not",
        ),
    ],
)
def test_invalid_variants_are_reported(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PRESETS_VARIABLE, "uscrake_main")
    with pytest.raises(BadInput, match=message):
        variants(variants_in(tmp_path, text))


def test_a_variant_inherits_method_and_parameters(tmp_path: Path) -> None:
    text = "mcqa/x: {method: bm25, parameters: {k: 3}, presets: [uscrake_main]}\nmcqa/y: {like: mcqa/x}\n"
    text += "mcqa/z: {like: mcqa/y, parameters: {k: 4}}\n"
    _, y, z = variants(variants_in(tmp_path, text))
    assert (y.method, y.parameters, y.presets) == ("bm25", {"k": 3}, ())
    assert (z.method, z.parameters) == ("bm25", {"k": 4})


@pytest.mark.parametrize(
    "profile", [p if p == "paper" else pytest.param(p, marks=pytest.mark.long) for p in profiles.available()]
)
def test_every_preset_loads_without_missing_upstream_assets(profile: str, other_settings: pytest.MonkeyPatch) -> None:
    other_settings.setenv(profiles.PROFILE_VARIABLE, profile)
    other_settings.setenv(PRESETS_VARIABLE, ALL_PRESETS)
    graph = defs().resolve_asset_graph()
    assert not {k for k in graph.get_all_asset_keys() if not graph.get(k).is_executable}
    tags = {tag for key in graph.materializable_asset_keys for tag in graph.get(key).tags}
    assert {f"{PRESET_TAG}{name}" for name in presets()} <= tags
