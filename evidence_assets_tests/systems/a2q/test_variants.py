"""Declared variants of Attention2Query open with the definitions, classifier and vectors that their settings name."""

import gzip
import json
from collections.abc import Sequence

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
from evidence_assets.reasoning.questions import Question
from evidence_assets.systems.a2q import system
from evidence_assets.systems.a2q.graph_vectors import JoinedVectors
from evidence_assets.systems.a2q.selection import A2Q
from evidence_assets.systems.a2q.word_vectors import WordVectors
from evidence_assets_tests.graphs.small_graph import graph_of
from evidence_assets_tests.lake_rows import as_stored
from evidence_assets_tests.systems.small_models import SharedWordReranker

NUMBERBATCH = {"oven": [0, 1, 0, 0], "kitchen": [0.6, 0.8, 0, 0], "appliance": [1, 0, 0, 0]}
GRAPH = graph_of(list(NUMBERBATCH), ["IsA", "AtLocation"], [(0, 0, 2), (0, 1, 1)])
DEFINITIONS = {"oven": GRAPH.sentence(0)}
NODES = ["node_id", "name", "aliases", "type", "document"]
EDGES = ["edge_id", "head_id", "relation", "tail_id", "triple_ids", "sources", "licences"]


def numberbatch_path() -> str:
    return next(files.paths[0] for files in all_raw_files() if files.name == "embeddings/numberbatch")


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
    file = lake.raw_path(numberbatch_path())
    file.parent.mkdir(parents=True)
    lines = ["3 4", *(f"{word} {' '.join(map(str, vector))}" for word, vector in NUMBERBATCH.items())]
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    return lake


class TunedReranker(SharedWordReranker):
    """A reranker with other scores and another id than the untuned one."""

    model_id = "tuned"

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        return -super().score(pairs)


def method_of(name: str) -> system.Attention2Query:
    (variant,) = (each for each in variants_of("a2q") if (each.family, each.name) == ("mcqa", name))
    return system.Attention2Query(variant)


def test_each_ablation_selects_without_what_it_leaves_out(csqa_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The evidence and version equal those of a selector that is built by hand from the expected parts."""
    untuned, tuned = SharedWordReranker(), TunedReranker()
    monkeypatch.setattr(stage, "benchmarks", all_benchmarks)  # the small profile has no CommonsenseQA
    monkeypatch.setattr(system, "get_reranker", lambda *_: untuned)
    monkeypatch.setattr(system, "get_tuned_classifier", lambda _: tuned)
    encoder = get_encoder(profiles.load().encoder)
    graph = open_graph(csqa_lake, "conceptnet", encoder)
    words = WordVectors(csqa_lake.raw_path(numberbatch_path()))
    word_nodes = np.array(list(NUMBERBATCH.values()), np.float32)
    both = JoinedVectors(encoder, words)
    both_nodes = np.hstack([graph.node_passage_vectors, word_nodes]) / np.sqrt(2)
    expected_parts = {
        "a2q": (encoder, untuned, DEFINITIONS, None),
        "a2q_full": (both, tuned, DEFINITIONS, both_nodes),
        "a2q_no_taxonomy": (both, tuned, {}, both_nodes),
        "a2q_no_classifier": (both, None, DEFINITIONS, both_nodes),
        "a2q_graphembed": (words, tuned, DEFINITIONS, word_nodes),
    }
    question = Question("q", "csqa", "mcqa", "Where is the oven?", ("kitchen", "appliance"))
    attention_of_variants = set()
    for name, (vectors, reranker, definitions, nodes) in expected_parts.items():
        method = method_of(name)
        expected = A2Q(graph, vectors, reranker, method.settings, definitions, nodes)
        selector = method.open_selector(StageContext(csqa_lake, "evidence", f"evidence/mcqa/{name}", "csqa|0"))
        assert selector.version == expected.version
        evidence = next(selector.select([question]))
        assert evidence == next(expected.select([question])) != []
        attention_of_variants.add(tuple(json.loads(item.why)["attention"] for item in evidence))
    assert len(attention_of_variants) == len(expected_parts), "no part is without effect on this question"
