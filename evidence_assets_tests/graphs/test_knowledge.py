"""From graph files to rows and arrays: sources kept, ids stable, arrays refused when their rows have changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evidence_assets.benchmarks.graphs import rows as graph_rows
from evidence_assets.benchmarks.graphs.relations import load
from evidence_assets.benchmarks.graphs.rows import GraphSource
from evidence_assets.graphs import knowledge
from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets_tests.graphs.small_graph import TRIPLES, small_graph, stored, write_triples
from evidence_assets_tests.systems.small_models import WordEncoder


def test_triples_keep_file_line_and_licence(tmp_path: Path) -> None:
    rows = stored("triples", graph_rows.triple_table([write_triples(tmp_path)], tmp_path, load()))
    assert rows.height == len(TRIPLES) and set(rows["origin"]) == {"import"} and set(rows["licence"]) == {"CC0-1.0"}
    by_line = dict(zip(rows["source"], rows["head"], strict=True))
    assert by_line["graph.tsv:1"] == "metformin" and by_line["graph.tsv:9"] == "pen"


def test_relations_of_a_known_source_are_translated_and_untrue_triples_left_out(tmp_path: Path) -> None:
    (tmp_path / "umls.tsv").write_text("aspirin\tisa\tdrug\n")
    (tmp_path / "facts.txt").write_text("UsedFor\tpen\twriting\t1\nUsedFor\tpen\tflying\t0\n")
    sources = [
        GraphSource("umls", ("umls.tsv",), "UMLS"),
        GraphSource("conceptnet_completion", ("facts.txt",), "CC-BY-SA-4.0"),
    ]
    rows = graph_rows.triple_table(sources, tmp_path, load())
    assert rows.select("head", "relation", "tail").rows() == [
        ("aspirin", "is_a_subtype_of", "drug"), ("pen", "UsedFor", "writing")
    ]  # fmt: skip


def test_an_unknown_format_or_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no graph format 'rdf'"):
        graph_rows.triple_table([GraphSource("rdf", ("a",), "")], tmp_path, load())
    with pytest.raises(BadInput, match="takes 2 files"):
        graph_rows.triple_table([GraphSource("hetionet", ("a",), "")], tmp_path, load())


def test_two_ways_of_writing_a_name_are_one_node_and_the_edge_keeps_both_triples(tmp_path: Path) -> None:
    graph, edges = small_graph(tmp_path)
    thirst = edges.filter(pl.col("triple_ids").list.len() == 2)
    assert thirst.height == 1 and thirst["sources"][0].to_list() == ["graph.tsv:3", "graph.tsv:4"]
    lineage = stored("lineage_edges", knowledge.edge_lineage(edges))
    assert lineage.height == len(TRIPLES)
    assert set(lineage.filter(pl.col("child_id") == thirst["edge_id"][0])["rank"]) == {1, 2}
    assert lineage["parent_id"].equals(lineage["parent_version"].rename("parent_id"))
    assert graph.graph.n_edges == edges.height == len(TRIPLES) - 1


def test_arrays_count_as_the_stored_rows_do(tmp_path: Path) -> None:
    graph, edges = small_graph(tmp_path)
    for number, row in enumerate(edges.iter_rows(named=True)):
        assert graph.edge_ids[number] == row["edge_id"]
        assert graph.node_ids[graph.graph.heads[number]] == row["head_id"]
        assert graph.node_ids[graph.graph.tails[number]] == row["tail_id"]
        assert graph.relations[graph.graph.relations[number]] == row["relation"]
    wanted = WordEncoder().sentences(graph.names)
    np.testing.assert_allclose(graph.node_vectors, wanted, atol=1e-6)


def test_arrays_of_other_rows_or_another_model_are_refused(tmp_path: Path) -> None:
    small_graph(tmp_path)
    nodes = pl.DataFrame({"name": ["a"], "aliases": [[]]}, schema_overrides={"aliases": pl.List(pl.String)})
    with pytest.raises(StaleInput, match="materialize it again"):
        knowledge.open_csr(tmp_path / "csr", "v2")
    with pytest.raises(StaleInput, match="another model"):
        knowledge.open_name_vectors(tmp_path / "vectors", nodes, "other", "v1")
    with pytest.raises(StaleInput, match="materialize the asset"):
        knowledge.open_csr(tmp_path / "nowhere", "v1")


def test_edges_without_their_nodes_are_refused(tmp_path: Path) -> None:
    nodes = pl.DataFrame({"node_id": ["a"]})
    edges = pl.DataFrame({"head_id": ["a"], "relation": ["r"], "tail_id": ["b"]})
    with pytest.raises(StaleInput, match="1 edges end at nodes"):
        knowledge.build_csr(tmp_path / "csr", nodes, edges, "v1")


def test_vectors_of_unchanged_names_are_taken_over(tmp_path: Path) -> None:
    model = WordEncoder()
    aliases = pl.Series("aliases", [["b"], []], dtype=pl.List(pl.String))
    nodes = pl.DataFrame({"name": ["a", "c"]}).with_columns(aliases)
    assert knowledge.build_name_vectors(tmp_path / "v", nodes, model, "m", "1") == (3, 0)
    more = nodes.with_columns(pl.Series("name", ["a", "d"]))
    assert knowledge.build_name_vectors(tmp_path / "v", more, model, "m", "2") == (3, 2)
    assert model.asked == ["a", "b", "c", "d"]
    forms = knowledge.open_name_vectors(tmp_path / "v", more, "m", "2")
    np.testing.assert_allclose(forms.vectors, model.sentences(["a", "b", "d"]))
    assert forms.owners.tolist() == [0, 0, 1] and len(forms.of_nodes) == 2
    assert knowledge.build_name_vectors(tmp_path / "v", more, model, "other model", "2") == (3, 0)


def test_a_graph_without_triples(tmp_path: Path) -> None:
    graph, edges = small_graph(tmp_path, [])
    assert (graph.graph.n_nodes, graph.graph.n_edges, edges.height) == (0, 0, 0)
    assert not graph.linker.link("fever").found and len(graph.node_vectors) == 0


def test_texts_longer_than_the_encoder_reads_are_the_mean_of_their_chunks() -> None:
    model = WordEncoder()
    long = " ".join(f"Sentence number {i} speaks of things." for i in range(40))
    short, whole = knowledge.encoded(model, ["One.", long])
    np.testing.assert_allclose(short, model.sentences(["One."])[0], atol=1e-6)
    assert abs(np.linalg.norm(whole) - 1) < 1e-5
    assert knowledge.encoded(model, []).shape == (0, model.dimensions)


def test_harvests_are_cut_at_a_rank_within_their_relation() -> None:
    harvest = pl.DataFrame({"rank": [1, 2, 3, None]})
    assert knowledge.best_of(harvest, 2)["rank"].to_list() == [1, 2, None]
    assert knowledge.best_of(harvest, None).height == 4
