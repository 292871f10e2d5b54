"""Every printed cell that claims to be fillable is filled, in miniature, by real assets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evidence_assets import profiles
from evidence_assets.assets.planning import measured_times
from evidence_assets.experiment import solvers
from evidence_assets.experiment.scores.published_figures import RECORDED
from evidence_assets.experiment.variants import VARIABLE, presets
from evidence_assets.lake.catalogue import connect
from evidence_assets.reproduction.cells import Cell, add_scores, build_cells, find_cell_sources, load_scores
from evidence_assets.systems.kbloom import sample_model
from evidence_assets.systems.kbloom import system as kbloom
from evidence_assets_tests.assets.small_worlds import SmallWorld, small_world
from evidence_assets_tests.assets.tiny_lake import (
    Model,
    make,
    make_harvests,
    masked,
    official_files,
    recorded_files,
    variants_by_benchmark,
)
from evidence_assets_tests.models.test_permuted import make_xlnet
from evidence_assets_tests.models.test_rerankers import make_cross_encoder
from evidence_assets_tests.models.test_sequence_models import make_bart, make_t5


def cells(world: SmallWorld | None = None) -> list[Cell]:
    """The printed cells as the profile in use would fill them, and as the lake of a world does."""
    able = find_cell_sources()
    declared = build_cells(able)
    if world is None:
        return declared
    with connect(world.lake.root) as connection:
        ours = load_scores(connection, declared)
    return add_scores(declared, ours | measured_times(world.instance, able, world.lake))


OPTED = {"paper": "all", "companions": "fourstepfocus_main,kaping_main,kaping_cases"}
"""Profiles whose models tables are printed for, with the presets that take those."""
LONG = [pytest.param((profile, opted, ""), marks=pytest.mark.long, id=profile) for profile, opted in OPTED.items()]


@pytest.fixture(scope="module", params=[*LONG, pytest.param(("paper", "ucret_ablation", "3.5"), id="one-table")])
def miniature(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, SmallWorld]]:
    """The scores of all variants that fill a cell of a table, or of all, on miniatures of all benchmarks.

    With the models of the companion papers only those that they are printed for.
    """
    profile, opted, table = request.param
    root = tmp_path_factory.mktemp(profile)
    models = profiles.load(profile).generators
    named = ", ".join(f"{n}: {{backend: openai, name: '{g.name}'}}" for n, g in models.items())
    harvesting = [] if table else published_harvesting(profile, root / "models")
    lines = ["name: paper", *harvesting, f"generators: {{{named}}}", f"presets: [{opted}]"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, opted)
        patch.setattr(solvers, "generator", lambda settings: Model(settings.name))
        for module in (kbloom, sample_model):
            patch.setattr(module, "get_masked_lm", lambda lake, settings: masked(settings.name))
        patch.setattr(
            "evidence_assets.systems.a2q.classifier_tuning.EMBEDDED_ENCODER", str(make_cross_encoder(root / "tiny"))
        )
        with small_world(root / "world", lines, patch) as world:
            official_files(world.lake.raw)
            chosen = [c for cell in claimed(cells(), profile, table) for c in cell.sources]
            recorded_files(world.lake, (c for c in chosen if c.variant.method == RECORDED))
            answering = [(c.variant, c.benchmark) for c in chosen if c.variant.family != "knowledge"]
            make(world, variants_by_benchmark(answering))
            harvests = {c.variant.place: c.variant for c in chosen if c.variant.family == "knowledge"}
            if harvests:
                make_harvests(world, list(harvests.values()))
            yield profile, table, world


def published_harvesting(profile: str, folder: Path) -> list[str]:
    """Lines of a profile: the masked models and collections of another, with seed files of the miniature's own.

    Models that write, propose and rate are tiny random ones of the published kinds.
    """
    tiny = {"writer": make_t5, "substitution": make_xlnet, "likelihood": make_bart}
    folder.mkdir()
    named = ", ".join(f"{field}: {{name: '{make(folder / field)}'}}" for field, make in tiny.items())
    published = profiles.load(profile)
    models = ", ".join(f"{name}: {{name: {one.name}}}" for name, one in published.masked_models.items())
    collections = ", ".join(published.harvesting.collections)
    return [
        f"masked_models: {{{models}}}",
        f"harvesting: {{collections: [{collections}], truth: '', sample_relations: [], n: 12, prompts: 2, "
        f"paraphraser: {published.harvesting.paraphraser}, {named}}}",
    ]


def claimed(every: list[Cell], profile: str, table: str = "") -> list[Cell]:
    """The cells that claim to be fillable; of the companions, those that `paper` does not claim."""
    fillable = [cell for cell in every if cell.fillable and table in ("", cell.figure.table)]
    if profile == "paper":
        return fillable
    return [c for c in fillable if c.figure.model and c.figure.document not in ("thesis", "a2q") and not c.from_records]


@pytest.mark.slow
def test_what_claims_to_be_fillable_is_filled(miniature: tuple[str, str, SmallWorld]) -> None:
    profile, table, world = miniature
    found = claimed(cells(world), profile, table)
    empty = [cell.figure for cell in found if not cell.filled]
    assert found and not empty, f"{len(empty)} cells, such as {empty[:3]}"


@pytest.mark.slow
def test_no_prediction_of_a_miniature_fails(miniature: tuple[str, str, SmallWorld]) -> None:
    with connect(miniature[2].lake.root) as connection:
        # What reads questions as triplets of a knowledge base's own types is beyond a model that answers by rule.
        failed = connection.execute(
            "SELECT asset, error FROM predictions "
            "WHERE status = 'failed' AND NOT starts_with(asset, 'predictions/search/') LIMIT 3"
        ).fetchall()
    assert not failed


@pytest.mark.slow
def test_the_miniature_claims_what_the_published_profile_claims(
    miniature: tuple[str, str, SmallWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    profile, table, _ = miniature
    here = [cell.figure for cell in claimed(cells(), profile, table)]
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, profile)
    assert [cell.figure for cell in claimed(cells(), profile, table)] == here


def test_each_preset_fills_a_cell_of_every_table_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    fills: dict[str, set[str]] = {name: set() for name in presets()}
    for profile in OPTED:
        monkeypatch.setenv(profiles.PROFILE_VARIABLE, profile)
        for cell, candidate in ((one, c) for one in cells() for c in one.sources):
            for name in candidate.variant.presets:
                harvest = candidate.variant.family == "knowledge" and presets()[name].relations
                if harvest or candidate.benchmark in presets()[name].benchmarks:
                    fills[name].add(f"{cell.figure.document} {cell.figure.table}")
    vain = {name: sorted(set(preset.tables) - fills[name]) for name, preset in presets().items()}
    assert not {name: named for name, named in vain.items() if named}
