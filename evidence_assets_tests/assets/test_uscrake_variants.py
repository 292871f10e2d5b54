"""The declared variants of USCRaKE."""

from __future__ import annotations

from evidence_assets import systems
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, benchmarks
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks as every_benchmark
from evidence_assets.experiment.evidence.sources import missing_source_reason, source_inputs
from evidence_assets.experiment.variants import presets, variants_of

ALL = [v for v in variants_of("uscrake") if v.family == "mcqa"]
GRID = {f"uscrake_k{k}_s{s}" for k in (5, 10, 15, 20) for s in (5, 10, 15, 20)} - {"uscrake_k15_s10"}
"""Every k with every s but the published pair."""


def test_every_variant_of_the_method_is_declared_and_answered() -> None:
    costs = {
        "jsd",
        "jsd_unscaled",
        "cosine",
        "euclidean",
        "euclidean_unscaled",
        "moverscore",
        "maxsim",
        "fusion",
        "jsd_words",
        "jsd_corpus_weights",
    }
    names = {f"uscrake_{cost}_chunks" for cost in costs} | {
        f"uscrake_{name}" for name in ("hybrid", "r15000", "r20000")
    }
    names |= {"uscrake", "uscrake_published", "uscrake_chunks", "uscrake_graph", "uscrake_published_graph"}
    assert {v.name for v in ALL} == names | GRID | {"uscrake_no_chains"}
    sizes = {(v.parameters["k"], v.parameters["s"]) for v in ALL if v.name in GRID}
    assert len(sizes) == len(GRID) and set(presets()["uscrake_sweeps"].benchmarks) == {
        "obqa.sample100-seed0",
        "csqa.sample100-seed0",
    }


def test_a_graph_beside_a_corpus_is_read_by_what_joins_both_alone() -> None:
    declared = benchmarks()["sample_mcqa"]
    assert declared.background_graph == "sample" and not declared.graph
    graphs = {source.key.split("/")[1] for source in source_inputs("mcqa", ("joined_graph",))}
    assert "sample" in graphs
    uscrake, ugat = (systems.load(name).methods[name].sources for name in ("uscrake", "ugat"))  # type: ignore[union-attr]
    assert not missing_source_reason(uscrake, declared)
    assert missing_source_reason(ugat, declared) == "benchmark sample_mcqa names no graph"
    neither = Benchmark(name="x", task="mcqa")
    assert missing_source_reason(uscrake, neither) == "benchmark x names no corpus and no graph"
    assert Benchmark(name="x", task="mcqa", graph="g").joined_graph == "g"
    for_each = every_benchmark()["medmcqa"]  # printed with two graphs
    assert (for_each.graph, for_each.joined_graph) == ("medical", "conceptnet") and not missing_source_reason(
        ugat, for_each
    )
