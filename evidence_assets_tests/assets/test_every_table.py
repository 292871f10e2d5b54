"""Every printed cell that claims to be fillable is filled, in miniature, by real assets."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evidence_assets import profiles
from evidence_assets.assets.planning import measured_times
from evidence_assets.experiment import solvers
from evidence_assets.lake.catalogue import connect
from evidence_assets.models import registry
from evidence_assets.reproduction.cells import Cell, CellSource, add_scores, build_cells, find_cell_sources, load_scores
from evidence_assets.reproduction.presets import PRESETS_VARIABLE, presets
from evidence_assets.reproduction.published_figures import RECORDED_ANSWERS
from evidence_assets.systems.kbloom import harvest_stages, sample_model
from evidence_assets_tests.assets.small_worlds import SmallWorld, small_world
from evidence_assets_tests.assets.tiny_lake import (
    make,
    make_harvests,
    masked,
    official_files,
    recorded_files,
    reply_by_rule,
    variants_by_benchmark,
)
from evidence_assets_tests.models.test_rerankers import make_cross_encoder
from evidence_assets_tests.models.test_sequence_models import make_bart, make_gpt2, make_t5, make_xlnet
from evidence_assets_tests.models.test_span_reader import make_reader
from evidence_assets_tests.systems.small_models import ScriptedGenerator


def cells(world: SmallWorld | None = None) -> list[Cell]:
    """The printed cells for the current profile, with the scores of a small world's lake if given."""
    sources = find_cell_sources()
    declared = build_cells(sources)
    if world is None:
        return declared
    with connect(world.lake.root) as connection:
        scores = load_scores(connection)
    return add_scores(declared, scores | measured_times(world.instance, sources, world.lake))


PRESETS_OF_PROFILES = {"paper": "all", "companions": "fourstepfocus_main,kaping_main,kaping_cases"}
"""Presets to opt in to, by profile."""
LONG = [
    pytest.param((profile, opted, ""), marks=pytest.mark.long, id=profile)
    for profile, opted in PRESETS_OF_PROFILES.items()
]


@pytest.fixture(scope="module", params=[*LONG, pytest.param(("paper", "ucret_ablation", "3.5"), id="one-table")])
def miniature(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, SmallWorld]]:
    """The scores of all variants that fill cells of one table or of all tables, on miniatures of the benchmarks."""
    profile, opted, table = request.param
    root = tmp_path_factory.mktemp(profile)
    models = profiles.load(profile).generators
    generators = ", ".join(f"{n}: {{backend: openai, name: '{g.name}'}}" for n, g in models.items())
    harvesting = [] if table else published_harvesting(profile, root / "models")
    reader = f"reader: {{name: '{make_reader(root / 'reader', positions=514)}'}}"
    lines = ["name: paper", reader, *harvesting, f"generators: {{{generators}}}", f"presets: [{opted}]"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PRESETS_VARIABLE, opted)
        patch.setattr(
            solvers, "load_cached_generator", lambda settings: ScriptedGenerator(reply_by_rule, model_id=settings.name)
        )
        for module in (harvest_stages, registry, sample_model):
            patch.setattr(module, "get_masked_lm", lambda lake, settings: masked(settings.name))
        patch.setattr(
            "evidence_assets.systems.a2q.classifier_tuning.EMBEDDED_ENCODER", str(make_cross_encoder(root / "tiny"))
        )
        with small_world(root / "world", lines) as world:
            official_files(world.lake.root / "raw")
            sources = [c for cell in claimed(cells(), profile, table) for c in cell.sources if not _needs_vectors(c)]
            recorded_files(world.lake, (c for c in sources if c.variant.method == RECORDED_ANSWERS))
            answered_variants = [(c.variant, c.benchmark) for c in sources if c.variant.family != "knowledge"]
            make(world, variants_by_benchmark(answered_variants))
            harvests = {c.variant.key: c.variant for c in sources if c.variant.family == "knowledge"}
            if harvests:
                make_harvests(world, list(harvests.values()))
            yield profile, table, world


def _needs_vectors(source: CellSource) -> bool:
    """Whether it reads published vectors, which only users have; another variant fills its cells."""
    return source.variant.method == "published_vectors"


def published_harvesting(profile: str, folder: Path, n: int = 12, prompts: int = 2) -> list[str]:
    """Lines of a profile: the masked models and collections of another, and tiny random models."""
    tiny = {"writer": make_t5, "substitution": make_xlnet, "causal": make_gpt2, "likelihood": make_bart}
    folder.mkdir()
    tiny_models = ", ".join(f"{field}: {{name: '{make(folder / field)}'}}" for field, make in tiny.items())
    published = profiles.load(profile)
    models = ", ".join(
        f"{name}: {{name: {masked_model.name}}}" for name, masked_model in published.masked_models.items()
    )
    collections = ", ".join(published.harvesting.collections)
    return [
        f"masked_models: {{{models}}}",
        f"harvesting: {{collections: [{collections}], truth: '', sample_relations: [], n: {n}, prompts: {prompts}, "
        f"paraphraser: {published.harvesting.paraphraser}, {tiny_models}}}",
    ]


def claimed(every: list[Cell], profile: str, table: str = "") -> list[Cell]:
    """The fillable cells; for `companions`, without those that `paper` fills."""
    fillable = [cell for cell in every if not cell.reason and table in ("", cell.figure.table)]
    if profile == "paper":
        return fillable
    return [c for c in fillable if c.figure.model and c.figure.document not in ("thesis", "a2q") and not c.from_records]


@pytest.mark.slow
def test_fillable_cells_are_filled(miniature: tuple[str, str, SmallWorld]) -> None:
    profile, table, world = miniature
    claimed_cells = claimed(cells(world), profile, table)
    empty = [cell.figure for cell in claimed_cells if not cell.filled]
    assert claimed_cells and not empty, f"{len(empty)} cells, such as {empty[:3]}"


@pytest.mark.slow
def test_no_prediction_of_a_miniature_fails(miniature: tuple[str, str, SmallWorld]) -> None:
    with connect(miniature[2].lake.root) as connection:
        failed = connection.execute("SELECT asset, error FROM predictions WHERE status = 'failed' LIMIT 3").fetchall()
    assert not failed


@pytest.mark.slow
def test_the_miniature_claims_what_the_published_profile_claims(
    miniature: tuple[str, str, SmallWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    profile, table, _ = miniature
    figures = [cell.figure for cell in claimed(cells(), profile, table)]
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, profile)
    assert [cell.figure for cell in claimed(cells(), profile, table)] == figures


def test_each_preset_fills_a_cell_of_every_table_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    fills: dict[str, set[str]] = {name: set() for name in presets()}
    for profile in PRESETS_OF_PROFILES:
        monkeypatch.setenv(profiles.PROFILE_VARIABLE, profile)
        for cell, source in ((one, each) for one in cells() for each in one.sources):
            for name in source.variant.printed.presets:
                if source.variant.family == "knowledge" or source.benchmark in presets()[name].benchmarks:
                    fills[name].add(f"{cell.figure.document} {cell.figure.table}")
    unfilled = {name: sorted(set(preset.tables) - fills[name]) for name, preset in presets().items()}
    assert not {name: tables for name, tables in unfilled.items() if tables}
