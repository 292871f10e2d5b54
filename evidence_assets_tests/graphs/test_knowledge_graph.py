"""A stored graph held against networkx."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import networkx as nx
import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evidence_assets.lake.blocks
from evidence_assets.experiment.stage import StageContext
from evidence_assets.graphs import passages as graph_passages
from evidence_assets.graphs.graph_store import (
    build_arrays,
    build_name_vectors,
    encode_texts,
    open_graph,
    tables_version,
)
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.merge import extract_definitions
from evidence_assets.graphs.passages import node_passages, passage_lineage, passage_table
from evidence_assets.graphs.paths import shortest_paths
from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import FloatArray
from evidence_assets_tests.graphs.small_graph import graph_of, graph_of_rows, merged, small_graph
from evidence_assets_tests.lake_rows import as_stored
from evidence_assets_tests.systems.four_step_focus.test_system import BASE
from evidence_assets_tests.systems.small_models import WordEncoder

RELATIONS, TYPES = ("eats", "made of", "Near"), ("animal", "place")
Edge = tuple[int, int, int]


@dataclass(frozen=True)
class World:
    """Nodes by type, and edges (head, relation, tail) between them."""

    types: Sequence[int]
    edges: Sequence[Edge]

    @property
    def names(self) -> list[str]:
        return [f"thing {chr(ord('a') + i)}" for i in range(len(self.types))]

    @property
    def triples(self) -> list[tuple[str, str, str]]:
        return [(self.names[h], RELATIONS[r], self.names[t]) for h, r, t in self.edges]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    node = st.integers(0, draw(st.integers(0, 8)))
    edges = draw(st.lists(st.tuples(node, st.integers(0, len(RELATIONS) - 1), node), max_size=24, unique=True))
    size = 1 + max((end for h, _, t in edges for end in (h, t)), default=0)
    return World(draw(st.lists(st.integers(0, len(TYPES) - 1), min_size=size, max_size=size)), edges)


EACH = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.differing_executors])


def stored_graph(folder: Path, world: World, *, arrays: bool = True) -> KnowledgeGraph:
    """The graph of a world from rows of a lake, and from memory-mapped arrays where they were built."""
    plain = graph_of(world.names, RELATIONS, world.edges, types=[TYPES[kind] for kind in world.types])
    lake = Lake.create(folder / "lake")
    for part, column in (("nodes", plain.node_column), ("edges", plain.edge_column)):
        rows = pl.DataFrame({name: column(name) for name in TABLES[f"kg_{part}"].names})
        lake.write(f"knowledge/base/{part}", "", {f"kg_{part}": rows})
    if arrays:
        build_arrays(lake, "base", tables_version(lake, "base", "nodes", "edges"))
    return open_graph(lake, "base", WordEncoder())


def build_graphs(world: World, *, arrays: bool = True) -> tuple[KnowledgeGraph, nx.MultiDiGraph]:
    """The stored graph, and its reference, whose nodes are the numbers of the graph's."""
    with tempfile.TemporaryDirectory() as folder:
        graph = stored_graph(Path(folder), world, arrays=arrays)
        assert isinstance(graph.arrays.heads, np.memmap) == arrays
        for column in (graph.node_ids, graph.names, graph.documents, graph.node_types, graph.forms, graph.edge_ids):
            assert len(column) is not None, "everything is read while the folder is there"
    number = {name: i for i, name in enumerate(graph.names)}
    reference = nx.MultiDiGraph()
    for name, kind in zip(world.names, world.types, strict=True):
        reference.add_node(number[name], kind=TYPES[kind])
    for head, relation, tail in world.triples:
        reference.add_edge(number[head], number[tail], relation)
    return graph, reference


@given(world=worlds(), arrays=st.booleans())
@EACH
def test_facts_names_types_and_ids_are_those_stated(world: World, arrays: bool) -> None:
    graph, reference = build_graphs(world, arrays=arrays)
    assert sorted(graph.triple(edge) for edge in range(graph.arrays.n_edges)) == sorted(world.triples)
    assert graph.relations == tuple(sorted({relation for _, relation, _ in world.triples}))
    assert [graph.type_names[code] for code in graph.node_types] == [
        reference.nodes[n]["kind"] for n in sorted(reference)
    ]
    for name, node in zip(graph.names, range(len(graph)), strict=True):
        assert graph.linker.link(name).nodes == (node,)
        assert len(graph.first_edges(node, 99)) == len(
            {*reference.in_edges(node, keys=True), *reference.out_edges(node, keys=True)}
        )

    for ids, numbers_of in ((graph.node_ids, graph.node_numbers), (graph.edge_ids, graph.edge_numbers)):
        assert ids.to_list() == sorted(set(ids))
        assert numbers_of(ids.reverse()).tolist() == list(range(len(ids)))[::-1]
        with pytest.raises(StaleInput, match="materialize the assets"):
            numbers_of(["zz"])


@given(world=worlds(), data=st.data())
@EACH
def test_all_shortest_paths_are_those_of_networkx(world: World, data: st.DataObject) -> None:
    """In the whole graph, or in a subgraph by its own edges."""
    graph, reference = build_graphs(world)
    ends = st.lists(st.sampled_from(range(len(graph))), max_size=3) if len(graph) else st.just([])
    sources, targets, longest = data.draw(ends), data.draw(ends), data.draw(st.integers(1, 5))
    part = graph.arrays.neighbourhood(data.draw(ends), data.draw(st.integers(0, 2))).nodes
    within = data.draw(st.sampled_from([None, part]))
    reference = reference if within is None else reference.subgraph(within.tolist())
    plain = nx.Graph(reference)
    # Quarters add up without rounding, so that ranks can be compared exactly.
    worth = [data.draw(st.integers(0, 4)) / 4 for _ in range(len(graph))]
    expected: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for source in set(sources) & set(plain):
        for target in (set(targets) & set(plain)) - {source}:
            if nx.has_path(plain, source, target):
                paths = [tuple(path) for path in nx.all_shortest_paths(plain, source, target)]
                if len(paths[0]) - 1 <= longest:
                    expected[source, target] = sorted(paths, key=lambda p: (-sum(worth[v] for v in p), p))
    paths_by_limit = {
        limit: shortest_paths(graph.arrays, sources, targets, longest, limit, np.array(worth), within=within)
        for limit in (10_000, 2)
    }
    for limit, found_paths in paths_by_limit.items():
        results: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        for path in found_paths:
            results.setdefault((path.nodes[0], path.nodes[-1]), []).append(path.nodes)
        assert results == {pair: paths[:limit] for pair, paths in expected.items()}
        assert found_paths == sorted(found_paths, key=lambda path: (-path.score, len(path.nodes), path.nodes))
    for top in (1, 3, 10):
        top_paths = shortest_paths(graph.arrays, sources, targets, longest, 2, np.array(worth), top, within)
        assert top_paths == paths_by_limit[2][:top]
    for path in paths_by_limit[10_000]:
        assert path.score == pytest.approx(np.mean([worth[v] for v in path.nodes]))
        for a, b, step in zip(path.nodes[:-1], path.nodes[1:], path.steps, strict=True):
            reports = sorted((graph.triple(edge)[1], along) for edge, along in step)
            both_ways = [(k, True) for k in reference.get_edge_data(a, b, default={})] + [
                (k, False) for k in reference.get_edge_data(b, a, default={})
            ]
            assert reports == sorted(both_ways), "each step keeps every edge of its pair with its direction"


def test_opening_returns_the_same_object_until_a_file_changes(tmp_path: Path) -> None:
    model = WordEncoder()
    stored_graph(tmp_path, World([0, 1], [(0, 0, 1)]), arrays=False)
    lake = Lake(tmp_path / "lake")
    graph = open_graph(lake, "base", model)
    assert open_graph(lake, "base", model) is graph
    lake.write("knowledge/base/edges", "", {"kg_edges": []})
    rerun = open_graph(lake, "base", model)
    assert rerun is not graph and rerun.version != graph.version and rerun.arrays.n_edges == 0
    with pytest.raises(StaleInput, match="knowledge/other/nodes is missing"):
        open_graph(lake, "other", model)
    with pytest.raises(StaleInput, match=r"node_vectors.*is missing"):
        _ = rerun.node_vectors
    with pytest.raises(StaleInput, match="passages is missing"):
        _ = rerun.node_passage_vectors


def test_an_edge_without_its_node_is_an_error_with_a_remedy() -> None:
    graph = graph_of(["a"], ["r"], [(0, 0, 1)])
    with pytest.raises(StaleInput, match="1 edges have unknown nodes"):
        _ = graph.arrays


def test_definitions_are_first_sentences_by_name_and_alias() -> None:
    documents = ["Aspirin comes from willow bark. It thins blood.", "", "Fever is heat."]
    graph = graph_of(["aspirin", "tubulin", "fever"], [], [], documents=documents, aliases=[["ASA"], [], ["pyrexia"]])
    nodes = pl.DataFrame({name: graph.node_column(name) for name in ("name", "aliases", "document")})
    results = extract_definitions(nodes)
    assert results["aspirin"] == results["ASA"] == "Aspirin comes from willow bark."
    assert results["pyrexia"] == "Fever is heat."
    assert "tubulin" not in results, "a node without a document defines nothing"
    twice = pl.concat([nodes, nodes.with_columns(pl.lit("Another aspirin.").alias("document")).head(1)])
    assert "aspirin" not in extract_definitions(twice), "a name that means two things is no definition"


# Files of a graph: reused vectors, ignored folders of other rows, long texts encoded whole


def test_vectors_are_in_the_order_of_nodes_and_edges(tmp_path: Path) -> None:
    graph, encoder = small_graph(tmp_path), WordEncoder()
    names = encoder.encode_sentences(graph.names.to_list())
    for vectors in (graph.node_vectors, graph.node_passage_vectors):
        np.testing.assert_allclose(vectors, names, atol=1e-6)
    sentences = [graph.sentence(edge) for edge in range(graph.arrays.n_edges)]
    np.testing.assert_allclose(graph.edge_passage_vectors, encoder.encode_sentences(sentences), atol=1e-6)
    with pytest.raises(StaleInput, match="open it with an encoder"):
        _ = graph_of_rows("plain", *merged(tmp_path)).node_vectors


def test_vectors_of_unchanged_names_are_reused(tmp_path: Path) -> None:
    model = WordEncoder()
    aliases = pl.Series("aliases", [["b"], []], dtype=pl.List(pl.String))
    nodes = pl.DataFrame({"name": ["a", "c"]}).with_columns(aliases)
    assert build_name_vectors(tmp_path / "v", nodes, model, "m", "1", 10**9) == (3, 0)
    extra_args = nodes.with_columns(pl.Series("name", ["a", "d"]))
    assert build_name_vectors(tmp_path / "v", extra_args, model, "m", "2", 10**9) == (3, 2)
    assert model.encoded_texts == ["a", "c", "b", "d"]
    np.testing.assert_array_equal(
        np.load(tmp_path / "v" / "vectors.npy"), model.encode_sentences(["a", "d", "b"]).astype(np.float16)
    )
    assert build_name_vectors(tmp_path / "v", extra_args, model, "other model", "2", 10**9) == (3, 0)


def test_texts_longer_than_the_encoder_reads_are_the_mean_of_their_chunks() -> None:
    model = WordEncoder()
    long = " ".join(f"Sentence number {i} speaks of things." for i in range(40))
    short, full = encode_texts(model, ["One.", long])
    np.testing.assert_allclose(short, model.encode_sentences(["One."])[0], atol=1e-6)
    assert abs(np.linalg.norm(full) - 1) < 1e-5
    assert encode_texts(model, []).shape == (0, model.dimensions)


# Texts that stand for nodes and edges: search over them, and encoding only what changed


def passages(graph: KnowledgeGraph, previous: pl.DataFrame | None = None) -> tuple[pl.DataFrame, int, WordEncoder]:
    encoder = WordEncoder()
    before = as_stored("kg_passages", []) if previous is None else previous
    table, reused = passage_table(node_passages(graph, encoder), before, encoder, "words@1")
    rows = as_stored("kg_passages", table)
    assert len(passage_lineage(table)) == rows.height
    return rows, reused, encoder


def test_vectors_encoded_before_a_fault_are_reused(monkeypatch: pytest.MonkeyPatch, lake: Lake) -> None:
    monkeypatch.setattr(graph_passages, "TEXTS_PER_BLOCK", 3)
    monkeypatch.setattr(evidence_assets.lake.blocks, "BLOCK_SECONDS", 0.0)
    step = StageContext(lake, "kg_passages", "knowledge/base/passages")
    full, _, _ = passages(BASE)

    class Breaks(WordEncoder):
        def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
            if len(self.encoded_texts) >= 6:
                raise OSError("the card fell off the bus")
            return super().encode_sentences(texts)

    encoder = Breaks()
    with pytest.raises(OSError, match="fell off"):
        passage_table(node_passages(BASE, encoder), step.previous_rows(), encoder, "words@1", step.blocks)
    after, reused, rerun = passages(BASE, step.previous_rows())
    assert after.equals(full)
    assert reused == 6 and not set(rerun.encoded_texts) & set(encoder.encoded_texts)
