"""Merging triples: every source stays findable, the order of the rows does not matter, nothing is joined by a guess."""

from unittest import mock

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.graphs.merge import edge_id, edge_lineage, node_id
from evidence_assets.lake import sorted_rows
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.text.words import name_key
from evidence_assets_tests.graphs.small_graph import merge_triples

COLUMNS = ["head", "relation", "tail", "triple_id", "source", "licence", "head_type", "tail_type"]


def frame(*rows: tuple[str | None, ...]) -> pl.DataFrame:
    padded = [(*row, *[None] * (len(COLUMNS) - len(row))) for row in rows]
    return pl.DataFrame(padded, schema=dict.fromkeys(COLUMNS, pl.String), orient="row")


def test_names_edges_sources_and_licences_are_merged() -> None:
    merged = merge_triples(
        frame(
            ("Aspirin", "may_treat", "Fever", "t1", "ddb", "none", "drug", "symptom"),
            ("aspirin", "may_treat", "fever", "t2", "kbloom", None, None, "disease"),
            ("Aspirin", "may_treat", "fever", "t3", "umls", "UMLS", "chemical", "symptom"),
            ("Aspirin", "may_contraindicate", "fever", "t4", "umls", "UMLS"),
            ("fever", "see_also", "Fever", "t5", "ddb", "none"),
        )
    )
    aspirin, fever = node_id("aspirin"), node_id("fever")
    nodes = merged.nodes.drop("document", "source").to_dicts()
    assert {row["node_id"]: row for row in nodes} == {
        aspirin: {"node_id": aspirin, "name": "Aspirin", "aliases": ["aspirin"], "type": "chemical"},
        fever: {"node_id": fever, "name": "fever", "aliases": ["Fever"], "type": "symptom"},
    }
    edges = {row["edge_id"]: row for row in merged.edges.to_dicts()}
    assert {edge: row["triple_ids"] for edge, row in edges.items()} == {
        edge_id(aspirin, "may_contraindicate", fever): ["t4"],
        edge_id(aspirin, "may_treat", fever): ["t1", "t2", "t3"],
        edge_id(fever, "see_also", fever): ["t5"],
    }
    treats = edges[edge_id(aspirin, "may_treat", fever)]
    assert (treats["sources"], treats["licences"]) == (["ddb", "kbloom", "umls"], ["UMLS", "none"])


def test_synonyms_lead_to_their_name_unless_they_have_two() -> None:
    merged = merge_triples(
        frame(
            ("heart attack", "may_cause", "death", "t1", "a"),
            ("myocardial infarction", "may_cause", "shock", "t2", "b"),
            ("cold", "may_cause", "sneezing", "t3", "a"),
            ("common cold", "may_cause", "cough", "t4", "a"),
        ),
        pl.DataFrame(
            {
                "name": ["Myocardial infarction", "myocardial infarction", "common cold", "COPD"],
                "alias": ["Heart Attack", "MI", "cold", "cold"],
            }
        ),
    )
    by_key = {name_key(row["name"]): row for row in merged.nodes.to_dicts()}
    assert "heart attack" not in by_key and "cold" in by_key and "common cold" in by_key
    infarction = by_key["myocardial infarction"]
    assert infarction["name"] == "myocardial infarction", "not the synonym, although it is used as often"
    assert infarction["aliases"] == ["Heart Attack", "MI", "Myocardial infarction", "heart attack"]
    assert "copd" not in by_key, "a synonym list alone makes no node"


NAMES = st.sampled_from(["a", "A", "b c", "b_c", "B  C", "d's", "δ", "é", "é", "+", "-"])


@given(st.lists(st.tuples(NAMES, st.sampled_from(["r", "s"]), NAMES), min_size=1, max_size=12), st.randoms())
@settings(max_examples=60, deadline=None)
def test_every_triple_is_kept_once_in_any_order(triples: list[tuple[str, str, str]], random: st.DataObject) -> None:
    rows = [(*triple, f"t{i}", f"s{i % 2}") for i, triple in enumerate(triples)]
    merged = merge_triples(frame(*rows))
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    rerun = merge_triples(frame(*shuffled))
    with mock.patch.object(sorted_rows, "ROWS_PER_BLOCK", 2):
        in_parts = merge_triples(frame(*shuffled), rows_per_block=3)
    assert in_parts.nodes.equals(merged.nodes) and in_parts.edges.equals(merged.edges)
    assert merged.nodes.equals(rerun.nodes) and merged.edges.equals(rerun.edges)
    key = {row["node_id"]: name_key(row["name"]) for row in merged.nodes.to_dicts()}
    results = {
        (key[row["head_id"]], row["relation"], key[row["tail_id"]], triple_id)
        for row in merged.edges.to_dicts()
        for triple_id in row["triple_ids"]
    }
    assert results == {(name_key(h), r, name_key(t), i) for h, r, t, i, _ in rows}
    assert sum(merged.edges["triple_ids"].list.len()) == len(rows)


def test_edges_have_lineage_and_a_graph_may_have_none() -> None:
    merged = merge_triples(frame(("a", "r", "b", "t1", "s"), ("A", "r", "b", "t2", "s"), ("c", "r", "d", "t3", "s")))
    [lineage] = edge_lineage(prepare_rows("kg_edges", merged.edges))
    edge = edge_id(node_id("a"), "r", node_id("b"))
    ranks = [(row["parent_id"], row["rank"]) for row in lineage.to_pylist() if row["child_id"] == edge]
    assert (merged.edges.height, ranks) == (2, [("t1", 1), ("t2", 2)])
    nothing = merge_triples(frame())
    assert nothing.nodes.height == nothing.edges.height == 0
