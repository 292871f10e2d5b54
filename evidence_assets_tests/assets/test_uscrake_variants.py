"""The declared variants of USCRaKE: published settings, sweeps and sources."""

from dataclasses import asdict
from typing import Any

import pytest

from evidence_assets import systems
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, benchmarks
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks as every_benchmark
from evidence_assets.experiment.evidence.sources import missing_source_reason, source_inputs
from evidence_assets.experiment.question_rows import build_questions
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.stages import build_stages
from evidence_assets.experiment.variants import Variant, variants_of
from evidence_assets.lake.store import Lake
from evidence_assets.reproduction.presets import PRESETS_VARIABLE, presets
from evidence_assets.retrieval.corpus import open_corpus
from evidence_assets.systems.uscrake.system import Uscrake
from evidence_assets_tests.conftest import World

ALL = {v.name: v for v in variants_of("uscrake") if v.family == "mcqa"}
GRID = {f"uscrake_k{k}_s{s}": (k, s) for k in (5, 10, 15, 20) for s in (5, 10, 15, 20)}
WIDEST = "uscrake_k20_s20"


def settings_of(variant: Variant) -> dict[str, Any]:
    return asdict(systems.open_method(variant).settings)


def test_published_variants_are_as_printed() -> None:
    for name, variant in ALL.items():
        settings = settings_of(variant)
        if variant.method == "first_rows":
            k, s = GRID[name]
            assert variant.prompt_style == "published" and settings == {"ranking": WIDEST, "k": k, "s": s}, name
        elif variant.prompt_style == "published":
            printed = {"linking": "spelling", "triples_judged": 0, "judge": 1, "titles": False, "grain": "chunk"}
            assert {key: settings[key] for key in printed} == printed, name
    names = {name.variant: v.name for v in ALL.values() for name in v.printed.figures}
    assert names["cost_cosine"] == "uscrake_cosine_chunks" and names["R=20000"] == "uscrake_r20000"


# The sweeps ---------------------------------------------------------------------------------------------------------


def test_the_grid_of_k_and_s_is_selected_from_one_ranking(other_settings: pytest.MonkeyPatch) -> None:
    other_settings.setenv(PRESETS_VARIABLE, "uscrake_sweeps")
    inputs = {}
    for variant in [v for v in ALL.values() if not v.evidence]:
        stage = build_stages(systems.open_method(variant))[0]
        inputs[variant.name] = [each.key for each in stage.inputs if each.key.startswith("evidence/")]
    assert {name for name, keys in inputs.items() if keys} == GRID.keys() - {WIDEST}
    assert all(inputs[name] == [f"evidence/mcqa/{WIDEST}"] for name in GRID.keys() - {WIDEST})


@pytest.mark.long
def test_each_size_of_the_pool_ranks_so_many_chunks_of_each_option(made_world: World) -> None:
    lake = Lake(made_world.root / "data_lake")
    published = ALL["uscrake_published"]
    stage = build_stages(systems.open_method(published))[0]
    context = stage.prepare(StageContext(lake, "evidence", stage.key, "sample_mcqa|0"))
    questions, chunks = build_questions(context.read_input("questions")), len(open_corpus(lake, "sample"))
    large = [ALL[f"uscrake_r{R}"] for R in (15_000, 20_000)]
    assert [Uscrake(variant).settings.R for variant in large] == [15_000, 20_000] and chunks > 20
    small = [large[0].model_copy(update={"parameters": large[0].parameters | {"R": R}}) for R in (9, 20)]
    for variant in (*small, *large):
        method = Uscrake(variant)
        settings = method.settings
        selector = method.open_selector(context)
        rows = [row for rows in selector.select(questions) for row in rows]
        n_hypotheses = sum(len(question.hypotheses) for question in questions)
        assert sum(row.kind == "chunk" for row in rows) == n_hypotheses * settings.k
    assert set(presets()["uscrake_sweeps"].benchmarks) == {"obqa.sample100-seed0", "csqa.sample100-seed0"}


def test_only_methods_that_join_graph_and_corpus_read_a_background_graph() -> None:
    declared = benchmarks()["sample_mcqa"]
    assert declared.background_graph == "sample" and not declared.graph
    graphs = {source.key.split("/")[1] for source in source_inputs("mcqa", ("joined_graph",))}
    assert "sample" in graphs
    uscrake = systems.find_method("mcqa/uscrake").sources
    ugat = systems.find_method("mcqa/ugat").sources
    assert not missing_source_reason(uscrake, declared)
    assert missing_source_reason(ugat, declared) == "benchmark sample_mcqa names no graph"
    neither = Benchmark(name="x", task="mcqa")
    assert missing_source_reason(uscrake, neither) == "benchmark x names no corpus and no graph"
    assert Benchmark(name="x", task="mcqa", graph="g").joined_graph == "g"
    for_each = every_benchmark()["medmcqa"]  # printed with two graphs
    assert (for_each.graph, for_each.joined_graph) == ("medical", "conceptnet") and not missing_source_reason(
        ugat, for_each
    )
