"""The declared variants of USCRaKE: what each ablation changes, and what the sweeps return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import polars as pl
import pytest

from evidence_assets import systems
from evidence_assets.assets.partitions import max_neighbours
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, benchmarks
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks as every_benchmark
from evidence_assets.experiment.evidence.selection import build_questions
from evidence_assets.experiment.evidence.sources import missing_source_reason, source_inputs
from evidence_assets.experiment.stage import StageContext, StageOutput
from evidence_assets.experiment.stages import build_stages
from evidence_assets.experiment.system import Method
from evidence_assets.experiment.variants import PRESETS_VARIABLE, Variant, presets, variants_of
from evidence_assets.lake.store import Lake
from evidence_assets.retrieval.corpus import open_corpus
from evidence_assets_tests.conftest import World

ALL = {v.name: v for v in variants_of("uscrake") if v.family == "mcqa"}
GRID = {f"uscrake_k{k}_s{s}": (k, s) for k in (5, 10, 15, 20) for s in (5, 10, 15, 20)}
WIDEST = "uscrake_k20_s20"
COSTS = ("jsd_unscaled", "cosine", "embedding", "euclidean", "euclidean_unscaled", "moverscore", "maxsim", "fusion")
TOGGLED: dict[str, tuple[str, set[str]]] = {
    **{f"uscrake_{cost}_chunks": ("uscrake_jsd_chunks", {"cost"}) for cost in COSTS},  # tables 7.5 and 7.6
    "uscrake_jsd_corpus_weights_chunks": ("uscrake_jsd_chunks", {"weights"}),
    "uscrake_jsd_chunks": ("uscrake_published", {"parts"}),
    "uscrake_published_graph": ("uscrake_published", {"parts"}),  # table 7.7
    "uscrake_r15000": ("uscrake_published", {"R"}),  # figure 7.4
    "uscrake_r20000": ("uscrake_published", {"R"}),
    WIDEST: ("uscrake_published", {"k", "s"}),  # figure 7.5
    "uscrake_chunks": ("uscrake", {"parts"}),
    "uscrake_graph": ("uscrake", {"parts"}),
    "uscrake_no_chains": ("uscrake", set()),
}
"""Each ablation with its base and the parameters that it may change."""


def settings_of(variant: Variant) -> dict[str, Any]:
    return asdict(systems.load("uscrake").method_of(variant).settings_of(variant))


@pytest.mark.parametrize("profile", ["embedded", "paper"])
def test_each_ablation_changes_the_parameters_that_it_names_and_no_other(
    profile: str, other_settings: pytest.MonkeyPatch
) -> None:
    other_settings.setenv("EVIDENCE_PROFILE", profile)
    assert ALL.keys() == TOGGLED.keys() | GRID.keys() | {"uscrake", "uscrake_published"}
    for name, (base, toggled) in TOGGLED.items():
        variant, settings, base_settings = ALL[name], settings_of(ALL[name]), settings_of(ALL[base])
        assert {key for key in settings if settings[key] != base_settings[key]} <= toggled, name
        assert set(variant.parameters) - set(ALL[base].parameters) <= toggled, name
        assert all(settings[key] != base_settings[key] for key in toggled - {"R", "k", "s"}), name
        same = [(v.uses_published_prompts, v.method, v.temperature) for v in (variant, ALL[base])]
        assert same[0] == same[1], name


def test_published_variants_are_as_printed() -> None:
    for name, variant in ALL.items():
        settings = settings_of(variant)
        if variant.method == "first_rows":
            k, s = GRID[name]
            assert variant.uses_published_prompts and settings == {"ranking": WIDEST, "k": k, "s": s}, name
        elif variant.uses_published_prompts:
            printed = {"linking": "spelling", "triples_judged": 0, "judge": 1, "titles": False, "grain": "chunk"}
            assert {key: settings[key] for key in printed} == printed, name
    names = {name.variant: v.name for v in ALL.values() for name in v.published}
    assert names["cost_cosine"] == "uscrake_cosine_chunks" and names["R=20000"] == "uscrake_r20000"


# The sweeps ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OtherRowsContext(StageContext):
    """A context with other rows of upstream assets than those in the lake."""

    other_rows: Mapping[str, pl.DataFrame] = field(default_factory=dict)

    def read(self, table: str, asset: str, partition: str | None = None) -> pl.DataFrame:
        return self.other_rows[asset] if asset in self.other_rows else super().read(table, asset, partition)


def run_evidence(name: str, made_world: World, **other_rows: pl.DataFrame) -> StageOutput:
    """Evidence of a variant for the sample's questions; ``other_rows`` replace those of other variants."""
    stage = build_stages(systems.load("uscrake"), ALL[name])[0]
    rows = {f"evidence/mcqa/{other}": frame for other, frame in other_rows.items()}
    lake = Lake(made_world.root / "data_lake")
    return stage.run(OtherRowsContext(lake, "evidence", f"{stage.key}_again", "sample_mcqa|0", other_rows=rows))


def numbers_of_rows(rows: pl.DataFrame) -> dict[str, int]:
    """The most rows of each kind that an option has."""
    counts = rows.group_by("question_id", "option", "kind").len()
    return dict(counts.group_by("kind").agg(pl.col("len").max()).iter_rows())


@pytest.mark.slow
def test_the_grid_of_k_and_s_ranks_once_and_selects_k_chunks_and_s_triples(
    made_world: World, other_settings: pytest.MonkeyPatch
) -> None:
    other_settings.setenv(PRESETS_VARIABLE, "uscrake_sweeps")
    inputs = {}
    for variant in [v for v in ALL.values() if not v.evidence]:
        stage = build_stages(systems.load("uscrake"), variant)[0]
        inputs[variant.name] = [each.key for each in stage.inputs if each.key.startswith("evidence/")]
    assert {name for name, keys in inputs.items() if keys} == GRID.keys() - {WIDEST}
    assert all(inputs[name] == [f"evidence/mcqa/{WIDEST}"] for name in GRID.keys() - {WIDEST})
    widest = run_evidence(WIDEST, made_world)
    widest_rows = pl.DataFrame(widest.rows)
    available = numbers_of_rows(widest_rows)
    assert available["triple"] > 1 and available["chunk"] == 20
    for name, (k, s) in GRID.items():
        if name != WIDEST and {k, s} & {5, 20}:
            output = run_evidence(name, made_world, **{WIDEST: widest_rows})
            counts = numbers_of_rows(pl.DataFrame(output.rows))
            assert counts == {"chunk": min(k, available["chunk"]), "triple": min(s, available["triple"])}, name
    changed_rows = widest_rows.with_columns(text=pl.lit("other text"))
    assert set(pl.DataFrame(run_evidence("uscrake_k5_s5", made_world, **{WIDEST: changed_rows}).rows)["text"]) == {
        "other text"
    }


@pytest.mark.slow
def test_each_size_of_the_pool_ranks_so_many_chunks_of_each_option(made_world: World) -> None:
    lake, method = Lake(made_world.root / "data_lake"), systems.load("uscrake").methods["uscrake"]
    assert isinstance(method, Method)
    stage = build_stages(systems.load("uscrake"), ALL["uscrake_published"])[0]
    context = stage.prepare(StageContext(lake, "evidence", stage.key, "sample_mcqa|0"))
    questions, chunks = build_questions(context.read_input("questions")), len(open_corpus(lake, "sample"))
    of_variants = [method.settings_of(ALL[f"uscrake_r{R}"]) for R in (15_000, 20_000)]
    assert [settings.R for settings in of_variants] == [15_000, 20_000] and chunks > 20
    for settings in (replace(of_variants[0], R=9), replace(of_variants[0], R=20), *of_variants):
        selector = method.open_selector(context, settings)
        rows = [row for rows in selector.select(questions) for row in rows]
        n_hypotheses = sum(len(question.hypotheses) for question in questions)
        assert sum(row.kind == "chunk" for row in rows) == n_hypotheses * settings.k
    assert set(presets()["uscrake_sweeps"].benchmarks) == {"obqa.sample100-seed0", "csqa.sample100-seed0"}


def test_the_index_is_tuned_for_the_largest_pool_of_a_loaded_variant(other_settings: pytest.MonkeyPatch) -> None:
    other_settings.delenv(PRESETS_VARIABLE, raising=False)
    assert max_neighbours() < 15_000
    other_settings.setenv(PRESETS_VARIABLE, "uscrake_sweeps")
    assert max_neighbours() == 20_000


def test_only_methods_that_join_graph_and_corpus_read_a_background_graph() -> None:
    declared = benchmarks()["sample_mcqa"]
    assert declared.background_graph == "sample" and not declared.graph
    graphs = {source.key.split("/")[1] for source in source_inputs("mcqa", ("joined_graph",))}
    assert "sample" in graphs
    methods = (systems.load(name).methods[name] for name in ("uscrake", "ugat"))
    uscrake, ugat = (method.sources for method in methods if isinstance(method, Method))
    assert not missing_source_reason(uscrake, declared)
    assert missing_source_reason(ugat, declared) == "benchmark sample_mcqa names no graph"
    neither = Benchmark(name="x", task="mcqa")
    assert missing_source_reason(uscrake, neither) == "benchmark x names no corpus and no graph"
    assert Benchmark(name="x", task="mcqa", graph="g").joined_graph == "g"
    for_each = every_benchmark()["medmcqa"]  # printed with two graphs
    assert (for_each.graph, for_each.joined_graph) == ("medical", "conceptnet") and not missing_source_reason(
        ugat, for_each
    )
