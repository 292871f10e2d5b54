"""A stored graph held against networkx."""

from __future__ import annotations

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

from evidence_assets.graphs.graph_store import build_arrays, open_graph, tables_version
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.merge import extract_definitions
from evidence_assets.graphs.paths import SubgraphPaths, shortest_paths
from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake
from evidence_assets_tests.graphs.small_graph import graph_of
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
def test_facts_names_and_types_are_those_stated(world: World, arrays: bool) -> None:
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


@given(world=worlds(), arrays=st.booleans())
@EACH
def test_ids_ascend_and_lead_back_to_their_numbers(world: World, arrays: bool) -> None:
    graph, _ = build_graphs(world, arrays=arrays)
    for ids, numbers_of in ((graph.node_ids, graph.node_numbers), (graph.edge_ids, graph.edge_numbers)):
        assert ids.to_list() == sorted(set(ids))
        assert numbers_of(ids.reverse()).tolist() == list(range(len(ids)))[::-1]
        with pytest.raises(StaleInput, match="materialize the assets"):
            numbers_of(["zz"])


@given(world=worlds(), data=st.data())
@EACH
def test_a_neighbourhood_is_the_ego_graph(world: World, data: st.DataObject) -> None:
    graph, reference = build_graphs(world)
    seeds = data.draw(
        st.lists(st.sampled_from([-1, *range(len(graph))]), max_size=4).map(lambda s: [n for n in s if n >= 0])
    )
    hops = data.draw(st.integers(0, 4))
    part = graph.arrays.neighbourhood(seeds, hops)
    plain = nx.Graph(reference)
    distance = nx.multi_source_dijkstra_path_length(plain, set(seeds), cutoff=hops) if seeds else {}
    assert dict(zip(part.nodes.tolist(), part.hop.tolist(), strict=True)) == distance
    inside = sorted((h, k, t) for h, t, k in reference.edges(keys=True) if h in distance and t in distance)
    arrays = graph.arrays
    for edges, ends in (
        (part.edges, (arrays.heads[part.edges], arrays.tails[part.edges])),
        (part.edges, (part.nodes[part.heads], part.nodes[part.tails])),
    ):
        names_by_id = [graph.relations[code] for code in arrays.relations[edges]]
        assert sorted(zip(ends[0].tolist(), names_by_id, ends[1].tolist(), strict=True)) == inside


@given(world=worlds(), data=st.data())
@EACH
def test_all_shortest_paths_are_those_of_networkx(world: World, data: st.DataObject) -> None:
    graph, reference = build_graphs(world)
    plain = nx.Graph(reference)
    ends = st.lists(st.sampled_from(range(len(graph))), max_size=3) if len(graph) else st.just([])
    sources, targets, longest = data.draw(ends), data.draw(ends), data.draw(st.integers(1, 5))
    # Quarters add up without rounding, so that ranks can be compared exactly.
    worth = [data.draw(st.integers(0, 4)) / 4 for _ in range(len(graph))]
    expected: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for source in set(sources):
        for target in set(targets) - {source}:
            if nx.has_path(plain, source, target):
                paths = [tuple(path) for path in nx.all_shortest_paths(plain, source, target)]
                if len(paths[0]) - 1 <= longest:
                    expected[source, target] = sorted(paths, key=lambda p: (-sum(worth[v] for v in p), p))
    every = shortest_paths(graph.arrays, sources, targets, longest, 10_000, np.array(worth))
    assert [path.score for path in every] == sorted((path.score for path in every), reverse=True)
    for max_nodes, of in (
        (10_000, every),
        (2, shortest_paths(graph.arrays, sources, targets, longest, 2, np.array(worth))),
    ):
        results: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        for path in of:
            results.setdefault((path.nodes[0], path.nodes[-1]), []).append(path.nodes)
        assert results == {pair: paths[:max_nodes] for pair, paths in expected.items()}
    for weights in (np.array(worth), np.zeros(len(graph))):
        ranked = shortest_paths(graph.arrays, sources, targets, longest, 2, weights)
        for top in (1, 3, 10):
            assert shortest_paths(graph.arrays, sources, targets, longest, 2, weights, top) == ranked[:top]
    for path in every:
        assert path.score == pytest.approx(np.mean([worth[v] for v in path.nodes]))
        for a, b, step in zip(path.nodes[:-1], path.nodes[1:], path.steps, strict=True):
            reports = sorted((graph.triple(edge)[1], along) for edge, along in step)
            both_ways = [(k, True) for k in reference.get_edge_data(a, b, default={})] + [
                (k, False) for k in reference.get_edge_data(b, a, default={})
            ]
            assert reports == sorted(both_ways), "each step keeps every edge of its pair with its direction"


@given(world=worlds(), data=st.data())
@EACH
def test_paths_of_a_subgraph_are_those_of_its_own_edges(world: World, data: st.DataObject) -> None:
    graph, reference = build_graphs(world)
    ends = st.lists(st.sampled_from(range(len(graph))), max_size=3) if len(graph) else st.just([])
    sources, targets, longest = data.draw(ends), data.draw(ends), data.draw(st.integers(1, 4))
    part = graph.arrays.neighbourhood(data.draw(ends), data.draw(st.integers(0, 2)))
    plain = nx.Graph(reference.subgraph(part.nodes.tolist()))
    worth = np.arange(len(graph)) / 4
    expected = {
        tuple(path)
        for source in set(sources) & set(plain)
        for target in (set(targets) & set(plain)) - {source}
        if nx.has_path(plain, source, target)
        for path in nx.all_shortest_paths(plain, source, target)
        if len(path) - 1 <= longest
    }
    paths = SubgraphPaths(part).shortest_paths(sources, targets, longest, 10_000, worth, 10_000)
    assert {path.nodes for path in paths} == expected and len(paths) == len(expected)
    for path in paths:
        assert path.score == pytest.approx(worth[list(path.nodes)].mean())
        steps = zip(path.nodes[:-1], path.nodes[1:], strict=True)
        assert path.steps == tuple(tuple(graph.arrays.edges_between(a, b)) for a, b in steps)


@given(world=worlds(), data=st.data())
@EACH
def test_typed_neighbours_are_those_of_networkx(world: World, data: st.DataObject) -> None:
    graph, reference = build_graphs(world)
    selection = data.draw(st.sets(st.sampled_from(range(len(graph))))) if len(graph) else set()
    for code, relation in [(None, None), *enumerate(graph.relations)]:
        for outgoing in (True, False):
            rows = graph.typed_graph.rows(code, outgoing=outgoing)
            edges = {(h, t) if outgoing else (t, h) for h, t, k in reference.edges(keys=True) if relation in (None, k)}
            near, far = rows.pairs(np.array(sorted(selection), dtype=np.int64))
            assert list(zip(near.tolist(), far.tolist(), strict=True)) == sorted(e for e in edges if e[0] in selection)


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
        rerun.passage_vectors("node")


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
