"""Declared variants of Attention2Query open with the definitions, classifier and vectors that their settings name."""

import gzip

import numpy as np
import polars as pl
import pytest

from evidence_assets import profiles
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks, all_raw_files
from evidence_assets.experiment import stage
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.variants import variants_of
from evidence_assets.graphs.graph_store import open_graph
from evidence_assets.graphs.passages import fact_passages, passage_table
from evidence_assets.lake.store import Lake
from evidence_assets.models.registry import get_encoder
from evidence_assets.systems.a2q import system
from evidence_assets.systems.a2q.selection import A2Q
from evidence_assets_tests.graphs.small_graph import graph_of
from evidence_assets_tests.lake_rows import as_stored
from evidence_assets_tests.systems.small_models import SharedWordReranker

NUMBERBATCH = {"oven": [0.0, 1.0], "kitchen": [0.6, 0.8], "appliance": [1.0, 0.0]}
GRAPH = graph_of(list(NUMBERBATCH), ["IsA", "AtLocation"], [(0, 0, 2), (0, 1, 1)])
DEFINITIONS = {"oven": GRAPH.sentence(0)}
NODES = ["node_id", "name", "aliases", "type", "document"]
EDGES = ["edge_id", "head_id", "relation", "tail_id", "triple_ids", "sources", "licences"]


@pytest.fixture
def csqa_lake(lake: Lake) -> Lake:
    """A lake with three nodes as ConceptNet, their text vectors, and their vectors in Numberbatch's format."""
    encoder = get_encoder(profiles.load().encoder)
    texts, _ = passage_table(fact_passages(GRAPH), as_stored("kg_passages", []), encoder, "m")
    nodes = pl.DataFrame([GRAPH.node_column(name).alias(name) for name in NODES]).to_dicts()
    edges = pl.DataFrame([GRAPH.edge_column(name).alias(name) for name in EDGES]).to_dicts()
    lake.write("knowledge/conceptnet/nodes", "", {"kg_nodes": nodes})
    lake.write("knowledge/conceptnet/edges", "", {"kg_edges": edges})
    lake.write("knowledge/conceptnet/passages", "0", {"kg_passages": texts})
    file = lake.raw_path({files.name: files.paths for files in all_raw_files()}["embeddings/numberbatch"][0])
    file.parent.mkdir(parents=True)
    lines = ["3 2", *(f"{word} {x} {y}" for word, (x, y) in NUMBERBATCH.items())]
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    return lake


def open_variant(name: str, lake: Lake) -> A2Q:
    """Open the selector as an evidence stage of CommonsenseQA does."""
    (variant,) = (each for each in variants_of("a2q") if (each.family, each.name) == ("mcqa", name))
    context = StageContext(lake, "evidence", f"evidence/mcqa/{name}", "csqa|0")
    selector = system.Attention2Query(variant).open_selector(context)
    assert isinstance(selector, A2Q)
    return selector


def test_each_ablation_opens_without_what_it_leaves_out(csqa_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    untuned, tuned = SharedWordReranker(), SharedWordReranker()
    monkeypatch.setattr(stage, "benchmarks", all_benchmarks)  # the small profile has no CommonsenseQA
    monkeypatch.setattr(system, "get_reranker", lambda *_: untuned)
    monkeypatch.setattr(system, "get_tuned_classifier", lambda _: tuned)
    names = ("a2q", "a2q_full", "a2q_no_taxonomy", "a2q_no_classifier", "a2q_graphembed")
    base, full, no_taxonomy, no_classifier, graphembed = (open_variant(name, csqa_lake) for name in names)
    encoder = get_encoder(profiles.load().encoder)
    text = open_graph(csqa_lake, "conceptnet", encoder).passage_vectors("node")
    words = np.array(list(NUMBERBATCH.values()), np.float32)
    joined = np.hstack([text, words]) / np.sqrt(2)

    assert [each._definitions for each in (base, full, no_classifier, graphembed)] == [DEFINITIONS] * 4
    assert no_taxonomy._definitions == {}
    assert [each._reranker for each in (base, full, no_taxonomy, graphembed)] == [untuned, tuned, tuned, tuned]
    assert no_classifier._reranker is None
    for selector, vectors in (
        (base, text),
        (full, joined),
        (no_taxonomy, joined),
        (no_classifier, joined),
        (graphembed, words),
    ):
        assert selector._nodes == pytest.approx(vectors, abs=1e-3)
        assert selector._encoder.encode_sentences(list(NUMBERBATCH)) == pytest.approx(vectors, abs=1e-3)
