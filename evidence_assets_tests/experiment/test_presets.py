"""Which variants are loaded: those without a preset, and those of the presets that are opted in."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from evidence_assets.assets.reasoner import Reasoner
from evidence_assets.assets.selector import Selector
from evidence_assets.assets.variant import TAG

from evidence_assets import profiles
from evidence_assets.assets import partitions
from evidence_assets.benchmarks import declarations as declared
from evidence_assets.benchmarks import declared as benchmark
from evidence_assets.benchmarks.declared import declared as benchmarks
from evidence_assets.definitions import defs
from evidence_assets.experiment.presets import ALL, VARIABLE, is_loaded, opted_in, presets
from evidence_assets.experiment.published import SOURCES, figures
from evidence_assets.lake.errors import BadInput


def test_every_preset_stands_for_a_printed_table() -> None:
    printed = {(f.document, f.table) for f in figures()}
    for preset in presets().values():
        assert preset.about.endswith(".") and preset.tables, preset.name
        for table in preset.tables:
            document, _, number = table.partition(" ")
            assert document in SOURCES and (document, number) in printed, preset.name


def test_every_benchmark_of_a_preset_is_declared() -> None:
    known = benchmarks()
    for preset in presets().values():
        assert set(preset.benchmarks) <= set(known), preset.name


def test_a_variant_is_loaded_without_presets_or_with_one_that_is_opted_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert is_loaded(())
    assert not is_loaded(("uscrake_costs",))
    assert is_loaded(("uscrake_costs",), always=True)
    monkeypatch.setenv(VARIABLE, "ucret_main, uscrake_costs")
    assert opted_in() == {"ucret_main", "uscrake_costs"}
    assert is_loaded(("uscrake_costs", "uscrake_main"))
    assert not is_loaded(("uscrake_main",))
    monkeypatch.setenv(VARIABLE, ALL)
    assert opted_in() == set(presets())


def test_a_profile_opts_in_and_adds_to_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = tmp_path / "mine.yaml"
    profile.write_text("extends: embedded\nname: mine\npresets: [kaping_cases]\n")
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, str(profile))
    monkeypatch.setenv(VARIABLE, "a2q_main")
    assert opted_in() == {"kaping_cases", "a2q_main"}


def test_an_unknown_preset_is_refused_with_its_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "uscrake_cost")
    with pytest.raises(BadInput, match="did you mean 'uscrake_costs'"):
        opted_in()
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(BadInput, match="there is no preset 'nonsense'"):
        is_loaded(("nonsense",))


def test_a_variant_that_is_not_opted_in_makes_nothing_and_one_that_is_carries_the_presets_tag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    chosen = Selector(name="z", family="mcqa", method="bm25", presets=("uscrake_costs",))
    answered = Reasoner(name="z", family="mcqa", selector="bm25", presets=("uscrake_costs",))
    for component in (chosen, answered):
        assert not list(component.build_defs(None).assets or [])  # type: ignore[arg-type]
    monkeypatch.setenv(VARIABLE, "uscrake_costs")
    for component, count in ((chosen, 1), (answered, 4)):
        made = list(component.build_defs(None).assets or [])  # type: ignore[arg-type]
        assert len(made) == count
        for asset in made:
            assert isinstance(asset, dg.AssetsDefinition)
            assert "preset/uscrake_costs" in asset.tags_by_key[asset.key]


def test_a_typing_error_in_a_variant_that_is_not_opted_in_is_found_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(ValueError, match="has no parameter 'kk'"):
        Selector(name="z", family="mcqa", method="bm25", parameters={"kk": 1}, presets=("uscrake_costs",)).build_defs(
            None
        )  # type: ignore[arg-type]


def test_a_reasoner_without_its_selector_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "evidence" / "x"
    folder.mkdir(parents=True)
    (folder / "defs.yaml").write_text(
        "type: evidence_assets.assets.selector.Selector\n"
        "attributes: {name: hidden, family: mcqa, method: bm25, presets: [uscrake_costs]}\n"
    )
    read = declared.declarations
    monkeypatch.setattr(declared, "declarations", lambda _folder=None: read(tmp_path))
    monkeypatch.setenv(VARIABLE, "uscrake_main")
    with pytest.raises(ValueError, match="its selector hidden is not"):
        Reasoner(name="z", family="mcqa", selector="hidden", presets=("uscrake_main",)).build_defs(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("preset", ["", *sorted(presets())])
def test_no_preset_loads_a_reasoner_without_its_selector(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, preset)
    for reasoner in declared.variants("Reasoner"):
        if reasoner.loaded:
            family, selector = reasoner.attributes["family"], reasoner.attributes["selector"]
            assert not declared.selector_left_out(family, selector), reasoner.place


@pytest.mark.parametrize("profile", profiles.available())
def test_every_preset_loads_and_waits_for_nothing_that_nobody_makes(
    profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, profile)
    monkeypatch.setenv(VARIABLE, ALL)
    caches = (
        benchmark.benchmarks, partitions.benchmark_partitions, partitions.question_partitions, partitions.corpus_partitions
    )  # fmt: skip
    for cache in caches:
        cache.cache_clear()
    try:
        graph = defs().resolve_asset_graph()
        nobodys = {k for k in graph.get_all_asset_keys() if not graph.get(k).is_executable}
        assert not nobodys
        tags = {tag for key in graph.materializable_asset_keys for tag in graph.get(key).tags}
        assert {f"{TAG}{name}" for name in presets()} <= tags
    finally:
        monkeypatch.undo()
        for cache in caches:
            cache.cache_clear()
