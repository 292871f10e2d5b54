"""4StepFocus, A2Q and knowledge prompting as assets of a small world: rows, lineage, scores and errors."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from evidence_assets.lake import connect
from evidence_assets.lake.lineage import distinct_ids, trace
from evidence_assets_tests.assets.small_worlds import SmallWorld, failures, small_world

PRESETS = "presets: [fourstepfocus_main, kaping_cases]"
BASE = tuple(f"knowledge/sample_skb/{part}" for part in ("nodes", "edges", "csr", "passages", "passage_index"))


def variant(family: str, *names: str) -> list[str]:
    return [f"{table}/{family}/{name}" for name in names for table in ("evidence", "predictions")]


def scores(family: str, *names: str) -> list[str]:
    return [f"scores/{family}/{name}" for name in names]


def prepared(world: SmallWorld) -> None:
    """Materialize the questions of both splits and their graph."""
    world.make("raw/sample")
    for name in ("sample_skb", "sample_kgqa"):
        file = world.lake.root / "raw" / "sample" / "benchmarks" / f"{name}.jsonl"
        file.write_text(file.read_text().replace('"split": "dev"', '"split": "test"'))
    world.make("questions/search", partition="sample_skb|0")
    world.make("questions/graph", partition="sample_kgqa|0")
    world.make("knowledge/sample/triples", "knowledge/sample/nodes", "knowledge/sample/edges")


@pytest.fixture(scope="module")
def default_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallWorld]:
    """The default assets of the three systems, materialized once and read-only."""
    with small_world(tmp_path_factory.mktemp("made"), ["name: small"]) as world:
        prepared(world)
        world.make(*BASE, "knowledge/sample/passages")
        world.make(*variant("search", "fourstepfocus", "vector_search"), partition="sample_skb|0")
        world.make(*variant("graph", "a2q", "nearest_triples", "kg_graph"), partition="sample_kgqa|0")
        world.make(*scores("search", "fourstepfocus", "vector_search"), partition="sample_skb")
        world.make(*scores("graph", "a2q", "nearest_triples", "kg_graph"), partition="sample_kgqa")
        yield world


def test_ranked_nodes_have_the_ids_of_their_base_and_of_the_gold(default_world: SmallWorld) -> None:
    nodes = set(default_world.rows("kg_nodes", BASE[0])["node_id"])
    gold = set(default_world.rows("questions", "questions/search")["gold"].explode(empty_as_null=True))
    assert gold and gold <= nodes
    assert all(node.startswith("sample_skb:n") for node in nodes)
    predictions = default_world.rows("predictions", "predictions/search/fourstepfocus")
    assert set(predictions["ranked_answers"].explode(empty_as_null=True)) <= nodes
    assert predictions["ranked_answers"].list.len().to_list() == [20] * predictions.height
    assert predictions["answer"].to_list() == predictions["ranked_answers"].list.first().to_list()
    assert set(predictions["reasoner"]) == {"form_parser"}, "no language model read the questions"
    assert set(default_world.rows("predictions", "predictions/search/vector_search")["reasoner"]) == {"vector"}


def test_every_answer_rests_on_rows_that_exist(default_world: SmallWorld) -> None:
    with connect(default_world.lake.root) as connection:
        for asset, sources in (
            ("predictions/search/fourstepfocus", {"question", "evidence", "edge", "node", "passage", "file"}),
            ("predictions/graph/kg_graph", {"question", "evidence", "edge", "triple", "file"}),
        ):
            rows = default_world.rows("predictions", asset).filter(pl.col("status") == "answered")
            root = trace(connection, rows["prediction_id"][0])
            if asset.startswith("predictions/search"):
                answer_nodes = [node for node in root.next if node.kind == "node"]
                assert [node.id for node in answer_nodes] == [rows["answer"][0]]
                assert answer_nodes[0].content["name"], "the answer's row has its name"
            assert distinct_ids(root).keys() == sources


# Errors -----------------------------------------------------------------------------------------------------------


def test_empty_and_missing_inputs_are_reported(tmp_path: Path) -> None:
    with small_world(tmp_path, ["name: small", PRESETS]) as world:
        world.make("raw/sample")
        world.make("questions/search", partition="sample_skb|0")
        world.make("questions/graph", partition="sample_kgqa|0")
        failed_run = world.make("evidence/graph/nearest_triples", partition="sample_kgqa|0", fails=True)
        assert "knowledge/sample/nodes is missing; materialize it first" in failures(failed_run)
        failed_run = world.make("chains/graph/background", partition="sample_kgqa|0", fails=True)
        assert "background knowledge needs a language model" in failures(failed_run)

        # An empty graph or base gives an insufficient row per question.
        world.lake.write("knowledge/sample/nodes", "", {"kg_nodes": []})
        world.lake.write("knowledge/sample/edges", "", {"kg_edges": []})
        world.make("knowledge/sample/passages")
        world.make(*variant("graph", "a2q", "nearest_triples", "kg_graph"), partition="sample_kgqa|0")
        for name in ("a2q", "nearest_triples", "kg_graph"):
            assert set(world.rows("predictions", f"predictions/graph/{name}")["status"]) == {"insufficient"}
        for part, table in (("nodes", "kg_nodes"), ("edges", "kg_edges"), ("passages", "kg_passages")):
            world.lake.write(f"knowledge/sample_skb/{part}", "0" if part == "passages" else "", {table: []})
        world.make("knowledge/sample_skb/passage_index")
        world.make(*variant("search", "vector_search"), partition="sample_skb|0")
        rows = world.rows("predictions", "predictions/search/vector_search")
        assert (set(rows["status"]), set(rows["answer"])) == ({"insufficient"}, {None})
