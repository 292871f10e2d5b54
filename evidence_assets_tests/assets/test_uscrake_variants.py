"""Every declared variant of USCRaKE, opted in and made of the small sample: rows, reasons, lineage, answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evidence_assets import systems
from evidence_assets.benchmarks.declared import Benchmark, benchmarks
from evidence_assets.benchmarks.declared import declared as every_benchmark
from evidence_assets.experiment.evidence.sources import lacking, source_reads
from evidence_assets.experiment.variants import presets, variants_of
from evidence_assets_tests.assets.small_worlds import SmallWorld, small_world, wrong
from evidence_assets_tests.models.tiny import make_encoder

PRESETS = "presets: [uscrake_costs, uscrake_sources, uscrake_sweeps]"
POOL = "retrieval: {R: 10}"
PARTITION = "sample_mcqa|0"
QUESTIONS = 6
ALL = [v for v in variants_of("uscrake") if v.family == "mcqa"]
GRID = {f"uscrake_k{k}_s{s}" for k in (5, 10, 15, 20) for s in (5, 10, 15, 20)} - {"uscrake_k15_s10"}
"""Every k with every s but the published pair."""
CORPUS = [f"corpus/sample/{part}" for part in ("chunks", "embeddings", "index", "token_store")]
GRAPH = [f"knowledge/sample/{part}" for part in ("triples", "nodes", "edges", "csr", "node_vectors")]


def prepared(world: SmallWorld) -> None:
    """The corpus, the graph without what is harvested, and a few questions."""
    world.make("raw/sample")
    file = world.lake.raw / "sample" / "benchmarks" / "sample_mcqa.jsonl"
    lines = file.read_text().splitlines(keepends=True)[:QUESTIONS]
    file.write_text("".join(lines).replace('"split": "dev"', '"split": "test"'))
    world.make(*CORPUS[:2], partition="0")
    world.make(*CORPUS[2:], *GRAPH)
    world.make("questions/mcqa", partition=PARTITION)


def test_every_variant_of_the_method_is_declared_and_answered() -> None:
    wanted = {
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
    named = {f"uscrake_{cost}_chunks" for cost in wanted} | {
        f"uscrake_{name}" for name in ("hybrid", "r15000", "r20000")
    }
    named |= {"uscrake", "uscrake_published", "uscrake_chunks", "uscrake_graph", "uscrake_published_graph"}
    assert {v.name for v in ALL} == named | GRID | {"uscrake_no_chains"}
    sizes = {(v.parameters["k"], v.parameters["s"]) for v in ALL if v.name in GRID}
    assert len(sizes) == len(GRID) and set(presets()["uscrake_sweeps"].benchmarks) == {
        "obqa.sample100-seed0",
        "csqa.sample100-seed0",
    }


def test_a_graph_beside_a_corpus_is_read_by_what_joins_both_alone() -> None:
    declared = benchmarks()["sample_mcqa"]
    assert declared.background_graph == "sample" and not declared.graph
    graphs = {read.key.split("/")[1] for read in source_reads("mcqa", ("joined_graph",))}
    assert "sample" in graphs
    uscrake, ugat = (systems.load(name).methods[name].reads for name in ("uscrake", "ugat"))  # type: ignore[union-attr]
    assert not lacking(uscrake, declared)
    assert lacking(ugat, declared) == "benchmark sample_mcqa names no graph"
    neither = Benchmark(name="x", task="mcqa")
    assert lacking(uscrake, neither) == "benchmark x names no corpus and no graph"
    assert Benchmark(name="x", task="mcqa", graph="g").joined_graph == "g"
    for_each = every_benchmark()["medmcqa"]  # printed with two graphs
    assert (for_each.graph, for_each.joined_graph) == ("medical", "conceptnet") and not lacking(ugat, for_each)


@pytest.mark.long
def test_the_token_encoder_is_a_setting_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_encoder(tmp_path / "tiny")
    profile = ["name: small", POOL, PRESETS, f"token_encoder: {{name: '{folder}'}}", "chunking: {max_tokens: 24}"]
    with small_world(tmp_path / "world", profile, monkeypatch) as world:
        prepared(world)
        names = ("uscrake", "uscrake_jsd_chunks", "uscrake_jsd_words_chunks")
        assert wrong(world.make(*(f"evidence/mcqa/{name}" for name in names), partition=PARTITION)) == {}
        for name in names:
            assert world.rows("evidence", f"evidence/mcqa/{name}").height
        store = json.loads((world.lake.index_folder("corpus/sample/token_store") / "meta.json").read_text())
        assert store["dimensions"] == 32 and world.rows("chunk_embeddings", "corpus/sample/embeddings").height
