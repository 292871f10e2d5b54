"""The declared variants of USCRaKE: published settings, sweeps and sources."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from evidence_assets import systems
from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.system import PRESET_TAG, build_variant_defs
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, benchmarks
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks as every_benchmark
from evidence_assets.experiment.evidence.sources import missing_source_reason, source_inputs
from evidence_assets.experiment.question_rows import build_questions
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.stages import build_stages
from evidence_assets.experiment.variants import Variant, variants_of
from evidence_assets.explorer.scratch_lake import open_scratch_lake
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import PROFILE_VARIABLE
from evidence_assets.reproduction.presets import PRESETS_VARIABLE, presets
from evidence_assets.retrieval.corpus import open_corpus
from evidence_assets.systems.uscrake import system
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


SHARING = {f"uscrake_{cost}_chunks" for cost in ("jsd", "jsd_unscaled", "cosine", "euclidean", "euclidean_unscaled")}
SHARING |= {f"uscrake_{cost}_chunks" for cost in ("jsd_corpus_weights", "maxsim", "fusion")}
RANKING = "chunk_rankings/mcqa/uscrake_jsd_chunks"


def test_variants_that_differ_in_cost_read_the_rankings_of_one_pass(other_settings: pytest.MonkeyPatch) -> None:
    other_settings.setenv(PRESETS_VARIABLE, "uscrake_costs")
    resources = dg.Definitions(resources={"lake": LakeResource()})
    graph = dg.Definitions.merge(build_variant_defs(*variants_of("uscrake")), resources).resolve_asset_graph()
    rankings = {key for key in graph.get_all_asset_keys() if key.path[0] == "chunk_rankings"}
    assert {key.to_user_string() for key in rankings} == {RANKING}
    (ranking,) = (graph.get(key) for key in rankings)
    assert {key.to_user_string() for key in ranking.child_keys} == {f"evidence/mcqa/{name}" for name in SHARING}
    sources = {"questions/mcqa", "corpus/sample/chunks", "corpus/sample/index", "corpus/sample/token_store"}
    assert {key.to_user_string() for key in ranking.parent_keys} >= sources
    assert ranking.pools == {"gpu"} and f"{PRESET_TAG}uscrake_costs" in ranking.tags


def test_another_encoder_has_a_pass_of_its_own_and_another_generator_has_not(
    tmp_path: Path, other_settings: pytest.MonkeyPatch
) -> None:
    lines = ["extends: embedded", "name: two", "encoders: {a: {name: embedded-minilm}, b: {name: all-mpnet}}"]
    lines += ["generators: {c: {backend: extractive}, d: {backend: openai, name: d, revision: d}}"]
    (tmp_path / "two.yaml").write_text("\n".join(lines))
    other_settings.setenv(PROFILE_VARIABLE, str(tmp_path / "two.yaml"))
    for models, name in (({"encoder": "b", "generator": "d"}, "/b"), ({"generator": "d"}, "")):
        variant = ALL["uscrake_cosine_chunks"].model_copy(update={"active_models": models})
        ranking, evidence, *_ = build_stages(systems.open_method(variant))
        assert (ranking.key, evidence.key) == (f"{RANKING}{name}", f"evidence/mcqa/uscrake_cosine_chunks{name}")
        assert ranking.key in {each.key for each in evidence.inputs}
        assert f"corpus/sample/index{name}" in {each.key for each in ranking.inputs}
        assert ranking.models == {kind: model for kind, model in models.items() if kind == "encoder"}


def test_the_costs_of_a_pass_are_those_of_the_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another cost of the same pools joins the pass and changes its version; other pools do not."""

    def read_pass(*more: Variant) -> tuple[str, str]:
        monkeypatch.setattr(system, "variants_of", lambda name: (*variants_of(name), *more))
        (stage,) = systems.find_method("mcqa/uscrake_cosine_chunks").shared_stages  # type: ignore[attr-defined]
        return stage.description, stage.version

    description, version = read_pass()
    assert description.endswith(
        ": jsd, jsd_unscaled, cosine, euclidean, euclidean_unscaled, jsd with corpus weights, maxsim, fusion."
    )
    another = ALL["uscrake_cosine_chunks"].model_copy(
        update={"name": "z", "parameters": ALL["uscrake_cosine_chunks"].parameters | {"weights": "idf"}}
    )
    assert read_pass(another) != (description, version) and "cosine with idf weights" in read_pass(another)[0]
    for name, value in (("R", 3), ("titles", True), ("cost", "moverscore"), ("cost", "embedding")):
        elsewhere = another.model_copy(update={"parameters": another.parameters | {"weights": "text", name: value}})
        assert read_pass(elsewhere) == (description, version), name


@pytest.mark.long
def test_a_variant_has_the_evidence_of_ranking_by_its_cost_alone(made_world: World, tmp_path: Path) -> None:
    demo, partition = Lake(made_world.root / "data_lake"), "sample_mcqa|0"
    lake = open_scratch_lake(demo, tmp_path)
    questions = demo.read("questions", "questions/mcqa", partition).head(4)
    lake.write("questions/mcqa", partition, {"questions": questions})
    n_reused = 0
    for name in sorted(SHARING):
        stages = {stage.table: stage for stage in build_stages(systems.open_method(ALL[name]))}
        outputs = {}
        for table in ("chunk_rankings", "evidence"):
            stage = stages[table]
            outputs[table] = stage.run(StageContext(lake, table, stage.key, partition))
            lake.write(stage.key, partition, {table: outputs[table].rows})
        assert outputs["chunk_rankings"].reused == n_reused, "the first variant has made the rows of all"
        n_reused = len(SHARING) * questions.height
        # A variant that the file does not have shares nothing.
        alone = build_stages(systems.open_method(ALL[name].model_copy(update={"name": "z"})))[0]
        assert alone.table == "evidence"
        expected = alone.run(StageContext(lake, "evidence", alone.key, partition))
        rows = [prepare_rows("evidence", output.rows) for output in (outputs["evidence"], expected)]
        assert len(rows[0]) == 5 * questions["options"].list.len().sum()
        same = [column for column in rows[0].column_names if column not in ("evidence_id", "selector", "input_hash")]
        assert rows[0].select(same).equals(rows[1].select(same)), name


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
