"""Knowledge bases as rows and back: ids, gold, empty tables, edges that lead nowhere."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from evidence_assets.benchmarks.records import Question
from evidence_assets.benchmarks.rows import question_rows
from evidence_assets.graphs.base_rows import (
    base_of,
    definitions_of,
    edge_rows,
    facts_of_rows,
    node_id,
    node_rows,
    source_id,
)
from evidence_assets.graphs.knowledge_base import KnowledgeBase
from evidence_assets.graphs.passages import fact_passages, lineage_of, passage_table
from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import prepare
from evidence_assets.systems.four_step_focus.node_search import NodePassages, NodeSearch, node_passages
from evidence_assets_tests.systems.four_step_focus.test_system import BASE
from evidence_assets_tests.systems.small_models import WordEncoder


def frame(table: str, rows: list[dict[str, object]]) -> pl.DataFrame:
    made = pl.from_arrow(prepare(table, rows))
    assert isinstance(made, pl.DataFrame)
    return made


NODES, EDGES = frame("kg_nodes", node_rows("own", BASE)), frame("kg_edges", edge_rows("own", BASE, "folder", "CC0"))


def test_a_base_comes_back_under_ids_that_name_it() -> None:
    back = base_of(NODES, EDGES, ("gene",))
    assert back.node_ids == tuple(f"own:{i}" for i in BASE.node_ids)
    assert (back.names, back.aliases, back.documents) == (BASE.names, BASE.aliases, BASE.documents)
    words = {back.triple(*e) for e in zip(back.heads, back.edge_types, back.tails, strict=True)}
    assert words == {BASE.triple(*e) for e in zip(BASE.heads, BASE.edge_types, BASE.tails, strict=True)}
    assert [back.node_type_names[c] for c in back.answer_types] == ["gene"]
    assert set(EDGES["edge_id"]) == {
        back.edge_id(*e) for e in zip(back.heads.tolist(), back.edge_types.tolist(), back.tails.tolist(), strict=True)
    }, "an edge's id in evidence is that of its row"
    assert source_id("own", node_id("own", "n1")) == "n1"
    assert set(EDGES["licences"].explode()) == {"CC0"}


def test_gold_nodes_are_named_as_the_lake_names_them_and_other_gold_is_left_alone() -> None:
    search = Question("b", "1", "test", "skb_search", "which?", gold=("n1",))
    short = Question("b", "2", "test", "kgqa", "what?", gold=("n1",))
    rows = question_rows([search, short], "test", 0, 1, "own")
    assert [row["gold"] for row in rows] == [["own:n1"], ["n1"]]


def test_empty_tables_are_an_empty_base_and_graph() -> None:
    nodes, edges = (pl.from_arrow(TABLES[t].arrow.empty_table()) for t in ("kg_nodes", "kg_edges"))
    assert isinstance(nodes, pl.DataFrame) and isinstance(edges, pl.DataFrame)
    assert len(base_of(nodes, edges)) == 0
    facts = facts_of_rows(nodes, edges)
    assert (facts.graph.n_nodes, facts.graph.n_edges) == (0, 0)


def test_an_edge_without_its_node_is_refused_with_what_to_do() -> None:
    with pytest.raises(StaleInput, match="make the graph's nodes again"):
        facts_of_rows(NODES.filter(pl.col("node_id") != "own:n5"), EDGES)


def passages(base: KnowledgeBase, previous: pl.DataFrame | None = None) -> tuple[pl.DataFrame, int, WordEncoder]:
    encoder = WordEncoder()
    before = frame("kg_passages", []) if previous is None else previous
    table, reused = passage_table(node_passages(base, encoder), before, encoder, "words@1")
    rows = pl.from_arrow(prepare("kg_passages", table))
    assert isinstance(rows, pl.DataFrame)
    assert len(lineage_of(table)) == rows.height
    return rows, reused, encoder


def test_stored_passages_search_like_fresh_ones() -> None:
    base = base_of(NODES, EDGES)
    rows, reused, encoder = passages(base)
    stored, fresh = NodePassages.from_rows(base, rows), NodePassages.build(base, encoder)
    assert reused == 0
    assert list(stored.ids) == list(fresh.ids)
    query = encoder.sentences(["what comes from willow bark"])[0]
    for method in ("vector", "multi_vector"):
        left, right = (NodeSearch(p, method).similarities(query) for p in (stored, fresh))  # type: ignore[arg-type]
        assert np.array_equal(left, right)


def test_only_changed_texts_are_encoded_again() -> None:
    before, _, _ = passages(base_of(NODES, EDGES))
    changed = NODES.with_columns(
        pl.when(pl.col("node_id") == "own:n6").then(pl.lit("Gout is old.")).otherwise("document").alias("document")
    )
    after, reused, encoder = passages(base_of(changed, EDGES), before)
    assert reused == before.height - 1
    assert encoder.asked == ["gout (disease): Gout is old."]
    fresh, _, _ = passages(base_of(changed, EDGES))
    assert after.equals(fresh)


def test_a_graph_stands_by_names_and_sentences() -> None:
    facts = facts_of_rows(NODES, EDGES)
    made = list(fact_passages(facts, NODES["node_id"]))
    assert [p.text for p in made[:7]] == list(BASE.names)
    assert {p.text for p in made[7:]} >= {"aspirin treats fever"}
    assert {p.owner_id for p in made[7:]} == set(EDGES["edge_id"])


def test_definitions_are_first_sentences_by_name_and_alias() -> None:
    found = definitions_of(NODES)
    assert found["aspirin"] == found["ASA"] == "Aspirin comes from willow bark."
    assert found["pyrexia"] == "Fever is heat."
    assert "tubulin" not in found, "a node without a document defines nothing"
    twice = pl.concat([NODES, NODES.with_columns(pl.lit("Another aspirin.").alias("document")).head(1)])
    assert "aspirin" not in definitions_of(twice), "a name that means two things is no definition"
