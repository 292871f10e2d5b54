"""Loaded variants: those without a preset, and those of enabled presets."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from evidence_assets import profiles, systems
from evidence_assets.assets.definitions import load_definitions
from evidence_assets.assets.system import PRESET_TAG
from evidence_assets.experiment.variants import Variant, variants
from evidence_assets.lake.errors import BadInput
from evidence_assets.reproduction.presets import ALL_PRESETS, PRESETS_VARIABLE, enabled_presets, is_enabled, presets
from evidence_assets.reproduction.printed_variants import PrintedVariant, printed_variants
from evidence_assets.reproduction.published_figures import figures


def test_every_preset_reproduces_a_published_table() -> None:
    published_tables = {(f.document, f.table) for f in figures()}
    for preset in presets().values():
        assert preset.about.endswith("."), preset.name
        assert preset.all_tables or preset.name == "confidence", preset.name
        for table in preset.all_tables:
            document, _, number = table.partition(" ")
            assert (document, number) in published_tables, preset.name


def test_a_variant_is_loaded_without_presets_or_with_an_enabled_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PRESETS_VARIABLE, raising=False)
    assert is_enabled(())
    assert not is_enabled(("uscrake_costs",))
    printed = PrintedVariant(presets=("uscrake_costs",))
    assert not printed.is_enabled
    assert printed.model_copy(update={"load_by_default": True}).is_enabled
    monkeypatch.setenv(PRESETS_VARIABLE, "ucret_main, uscrake_costs")
    assert enabled_presets() == {"ucret_main", "uscrake_costs"}
    assert is_enabled(("uscrake_costs", "uscrake_main"))
    assert not is_enabled(("uscrake_main",))
    monkeypatch.setenv(PRESETS_VARIABLE, ALL_PRESETS)
    assert enabled_presets() == set(presets())
    monkeypatch.setenv(PRESETS_VARIABLE, "reader")
    assert enabled_presets() == {"confidence"}, "settings of earlier releases stay valid"


def variants_in(folder: Path, text: str) -> Path:
    (folder / "baselines").mkdir()
    (folder / "baselines" / "variants.yaml").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mcqa/z: {metod: bm25}", "mcqa/z: Extra inputs are not permitted"),
        ("mcqa/z: {like: mcqa/yy}\nmcqa/y: {}", "there is no variant 'mcqa/yy'; did you mean 'mcqa/y'"),
        ("z: {}", "'z' must have the form family/name"),
    ],
)
def test_invalid_variants_are_reported(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PRESETS_VARIABLE, "uscrake_main")
    with pytest.raises(BadInput, match=message):
        variants(variants_in(tmp_path, text))


def test_a_variant_inherits_method_and_parameters(tmp_path: Path) -> None:
    text = "mcqa/x: {method: bm25, parameters: {k: 3}, prompt_style: published}\nmcqa/y: {like: mcqa/x}\n"
    text += "mcqa/z: {like: mcqa/y, parameters: {k: 4}}\n"
    _, y, z = variants(variants_in(tmp_path, text))
    assert (y.method, y.parameters, y.prompt_style) == ("bm25", {"k": 3}, "published")
    assert (z.method, z.parameters) == ("bm25", {"k": 4})


def test_everything_printed_is_about_a_variant_and_names_presets() -> None:
    declared = variants_by_key()
    for key, printed in printed_variants().items():
        assert key in declared
        assert set(printed.presets) <= set(presets()), key
    ours = {key for key, variant in declared.items() if variant.prompt_style == "ours" and variant.explain}
    with_options = {key for key in printed_variants() if key.startswith(("mcqa/", "table/"))}
    assert not {key for key in ours & with_options if printed_variants()[key].figures}, "not the printed prompts"


@pytest.mark.parametrize(
    "text, message",
    [
        ("mcqa/z: {figure: []}", "Extra inputs are not permitted.*mcqa/z.figure"),
        ("mcqa/z: {figures: [{variant: full}]}", "mcqa/z.figures.0.system"),
    ],
)
def test_invalid_notes_about_printed_variants_are_reported(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "printed_variants.yaml"
    file.write_text(text)
    with pytest.raises(BadInput) as error:
        printed_variants(file)
    assert re.search(message, f"{error.value} {error.value.field}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "profile", [p if p == "paper" else pytest.param(p, marks=pytest.mark.long) for p in profiles.available()]
)
def test_every_preset_loads_without_missing_upstream_assets(profile: str, other_settings: pytest.MonkeyPatch) -> None:
    other_settings.setenv(profiles.PROFILE_VARIABLE, profile)
    other_settings.setenv(PRESETS_VARIABLE, ALL_PRESETS)
    graph = load_definitions().resolve_asset_graph()
    assert not {k for k in graph.get_all_asset_keys() if not graph.get(k).is_executable}
    tags = {tag for key in graph.materializable_asset_keys for tag in graph.get(key).tags}
    assert {f"{PRESET_TAG}{name}" for name in presets()} <= tags


# Each published ablation differs from its base in what its printed row names, and in nothing else

TABLES, ABLATIONS, SEVERAL_STEPS = yaml.safe_load(Path(__file__).with_name("ablations.yaml").read_text()).values()


def changed_settings(base: Variant, ablation: Variant) -> set[str]:
    """Names of the settings of evidence, prompts and answers that differ between two variants."""
    methods = [systems.open_method(variant) for variant in (base, ablation)]
    answer_fields = ("explain", "prompt_style", "reader")
    fields = (*answer_fields, "temperature") if not (base.reader or ablation.reader) else answer_fields
    changed = {name for name in fields if getattr(base, name) != getattr(ablation, name)}
    if type(methods[0]) is not type(methods[1]):
        changed.add("method")
    if methods[0].settings_class is not methods[1].settings_class:
        return changed
    values: list[dict[str, Any]] = [asdict(method.settings) for method in methods]
    used_kinds = [set(method.model_kinds) for method in methods]
    kinds = used_kinds[0] & used_kinds[1]
    models = [{k: v for k, v in variant.models.items() if k in kinds} for variant in (base, ablation)]
    return (
        changed
        | {name for name in values[0] if values[0][name] != values[1][name]}
        | ({"models"} if models[0] != models[1] else set())
    )


def variants_by_key() -> dict[str, Variant]:
    return {variant.key: variant for variant in variants()}


@pytest.mark.parametrize("profile", ["paper", "companions"])
@pytest.mark.parametrize(
    ("base", "ablation", "names"),
    [(base, ablation, names) for base, rows in ABLATIONS.items() for ablation, names in rows.items()],
    ids=lambda value: value.partition("/")[2] or value,
)
def test_an_ablation_changes_what_its_row_names(
    profile: str, base: str, ablation: str, names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, profile)
    declared = variants_by_key()
    assert changed_settings(declared[base], declared[ablation]) == set(names.split())


def test_every_row_of_the_tables_is_an_ablation_or_a_base() -> None:
    rows = {(f.system, f.variant) for f in figures() if f.table in TABLES.get(f.document, ())}
    compared = {*ABLATIONS, *(key for ablations in ABLATIONS.values() for key in ablations), *SEVERAL_STEPS}
    in_tables = {
        variant.key
        for variant in variants()
        if any((name.system, name.variant) in rows for name in variant.printed.figures)
        or any((name.system, name.variant) in rows for name in variant.printed.times)
    }
    assert not in_tables - compared, "name the base of these variants and what they change"
    assert not compared - {variant.key for variant in variants()}
