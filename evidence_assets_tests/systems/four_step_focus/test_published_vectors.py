"""4StepFocus with published vectors, in files of STaRK's format: only the similarities differ."""

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from evidence_assets import systems
from evidence_assets.benchmarks.declared_benchmarks import benchmarks, declarations
from evidence_assets.benchmarks.knowledge_bases import find_knowledge_base
from evidence_assets.experiment.stage import StageContext, StageInput
from evidence_assets.experiment.variants import variants_of
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.questions import Question
from evidence_assets.systems.four_step_focus import system
from evidence_assets.systems.four_step_focus.published_vectors import PublishedVectors
from evidence_assets.systems.four_step_focus.ranking import FocusSettings, FourStepFocus, NodeRanking
from evidence_assets.systems.four_step_focus.system import PublishedVectorsMethod
from evidence_assets_tests.benchmarks.official.contract import write_files
from evidence_assets_tests.graphs.small_graph import graph_of_rows, with_vectors
from evidence_assets_tests.lake_rows import graph_edge, node, question
from evidence_assets_tests.systems.four_step_focus.test_system import make_reader
from evidence_assets_tests.systems.small_models import WordEncoder
from tools.stark_vectors import app

NAMES = ("gout", "aspirin thins blood", "ibuprofen", "colchicine", "mild blood")
TREATED_BY = (2, 3)
TEXT = "What thins blood?"
DRUG_VECTORS = {1: [0.6, 0.8], 2: [0.8, 0.6], 3: [1.0, 0.0], 4: [0.0, 1.0]}
"""The published vectors of the drugs; STaRK publishes those of candidates alone, so gout has none."""
QUESTION_VECTORS = {0: [0.0, 1.0], 7: [1.0, 0.0]}
BENCHMARK = "stark_prime_synth"


def build_base() -> KnowledgeGraph:
    """A base whose ids are in another order as texts than as numbers."""
    nodes = [
        {**node(f"stark_prime:{10 * number}", name), "type": "drug" if number else "disease", "document": ""}
        for number, name in enumerate(NAMES)
    ]
    edges = [graph_edge(f"e{n}", f"stark_prime:{10 * n}", "treats", "stark_prime:0") for n in TREATED_BY]
    return with_vectors(graph_of_rows("stark_prime", nodes, edges))


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake with vectors from files as emb_download.py writes them, and two questions of which one has a vector."""
    monkeypatch.setenv("EVIDENCE_LAKE", str(tmp_path / "data_lake"))
    monkeypatch.setenv("EVIDENCE_PROFILE", "paper")
    declarations.cache_clear()
    benchmarks.cache_clear()
    opened = Lake.create(tmp_path / "data_lake", question_shards=8)
    files = {"stark_qa.csv": f"id,query,answer_ids\n7,{TEXT},[30]\n", "split/test.index": "7\n"}
    write_files(opened.root / "raw/stark/prime", files)
    for name, vectors in (("query/query_emb_dict", QUESTION_VECTORS), ("doc/candidate_emb_dict", DRUG_VECTORS)):
        (tmp_path / name).parent.mkdir()
        scale = 10 if vectors is DRUG_VECTORS else 1
        torch.save({scale * key: torch.tensor([value]) for key, value in vectors.items()}, tmp_path / f"{name}.pt")
    result = CliRunner().invoke(app, [str(tmp_path), BENCHMARK])
    assert result.exit_code == 0, result.output
    rows = [question(n, BENCHMARK, task="skb_search", options=[], source_id=str(n), text=TEXT) for n in (7, 8)]
    opened.write("questions/search", f"{BENCHMARK}|0", {"questions": rows})
    return opened


@pytest.fixture
def published(lake: Lake) -> PublishedVectors:
    folder = lake.raw_path(f"vectors/{BENCHMARK}/text-embedding-ada-002")
    return PublishedVectors(folder, build_base(), {"q7": "7", "q8": "8"})


def rank(published: PublishedVectors | None, triplets: list[tuple[str, str, str]]) -> NodeRanking:
    reader = make_reader(triplets, d="drug") if triplets else None
    settings = FocusSettings(triplets="corrected", search="vector", k_max=4)
    answer_types = ("drug",)
    ranker = FourStepFocus(build_base(), WordEncoder(), reader, None, settings, frozenset(), answer_types, published)
    (ranking,) = ranker.rank([Question("q7", BENCHMARK, "skb_search", TEXT)])
    return ranking


def names_of(ranking: NodeRanking) -> list[str]:
    return [NAMES[int(ranked.node_id.partition(":")[2]) // 10] for ranked in ranking.nodes]


def test_published_vectors_rank_by_question_id_and_node_id(published: PublishedVectors) -> None:
    ranking = rank(published, [])
    assert names_of(ranking) == ["colchicine", "ibuprofen", "aspirin thins blood", "mild blood"]
    assert [ranked.similarity for ranked in ranking.nodes] == [1.0, 0.8, 0.6, 0.0]
    assert names_of(rank(None, []))[0] == "aspirin thins blood", "our encoder has another order"


def test_candidates_are_ranked_and_completed_by_published_vectors(published: PublishedVectors) -> None:
    ranking = rank(published, [("?d", "treats", "gout")])
    assert names_of(ranking) == ["colchicine", "ibuprofen", "aspirin thins blood", "mild blood"]
    assert [ranked.filtered for ranked in ranking.nodes] == [True, True, False, False]
    ours = rank(None, [("?d", "treats", "gout")])
    assert [ranked.filtered for ranked in ours.nodes] == [True, True, False, False]
    assert names_of(ours)[2:] == ["aspirin thins blood", "mild blood"]


def test_the_nearest_are_those_of_a_plain_loop(tmp_path: Path) -> None:
    """There are ties, as the numbers are small, and nodes without a vector, which cannot be answers."""
    rng = np.random.default_rng(3)
    graph = graph_of_rows("b", [node(f"b:{number}", f"node {number}") for number in range(50)], [])
    ids = np.sort(rng.permutation(50)[:40])
    vectors = rng.integers(-2, 3, (40, 4)).astype(np.float32)
    for name, array in {"question": vectors[:1], "question_ids": ids[:1], "node": vectors, "node_ids": ids}.items():
        np.save(tmp_path / f"{name}.npy", array)
    published = PublishedVectors(tmp_path, graph, {})
    vector_of = {int(n): vectors[row] for row, n in enumerate(graph.node_numbers([f"b:{i}" for i in ids]))}
    allowed = np.isin(np.arange(50), list(vector_of)) & (rng.random(50) < 0.7)
    for query in rng.integers(-2, 3, (5, 4)).astype(np.float32):
        nodes = np.flatnonzero(allowed).tolist()
        expected = sorted(nodes, key=lambda n: (-float(vector_of[n] @ query), n))
        for k in (0, 1, 7, 60):
            assert published.nearest(query, allowed, k, "vector").tolist() == expected[:k]


def test_missing_vectors_are_named(published: PublishedVectors) -> None:
    with pytest.raises(BadInput, match="has no vector of the question 8"):
        published.encode([Question("q8", BENCHMARK, "skb_search", TEXT)])
    with pytest.raises(BadInput, match="has no vector of the node 0"):
        published.similarities(np.zeros(2, np.float32), np.array([0]), "vector")


def test_the_variant_reads_the_raw_folder_and_no_vectors_of_ours(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    (variant,) = (each for each in variants_of("four_step_focus") if each.name == "fourstepfocus_ada_002")
    method = systems.open_method(variant)
    assert isinstance(method, PublishedVectorsMethod)
    assert method.extra_inputs == (StageInput("raw/vectors"),) and method.sources == ("nodes_and_edges",)
    base = build_base()
    declared = find_knowledge_base("stark_prime").model_copy(update={"answer_types": ("drug",)})
    monkeypatch.setattr(system, "find_knowledge_base", lambda name: declared)
    monkeypatch.setattr(system, "open_benchmark_graph", lambda context: base)
    monkeypatch.setattr(system, "get_encoder", lambda settings: WordEncoder())
    monkeypatch.setattr(system, "open_profile_model", lambda context: None)
    monkeypatch.setattr(system, "_open_grader", lambda context, model: None)
    inputs = [StageInput("questions/search")]
    context = StageContext(lake, "evidence", "evidence/search/x", f"{BENCHMARK}|0", inputs=inputs)
    selector = method.open_selector(context)
    (ranking,) = selector.rank([Question("q7", BENCHMARK, "skb_search", TEXT)])
    assert names_of(ranking)[0] == "colchicine"
    assert selector.vector_model == "text-embedding-ada-002"
