"""Trace, impact, diff and dangling edges in a very small lake."""

from pathlib import Path
from typing import Any

import pytest

from evidence_assets.lake import connect, lineage
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.lineage import (
    DERIVED,
    USED,
    UnknownId,
    diff_runs,
    distinct_ids,
    edge,
    find_dangling_edges,
    find_row,
    history_rows,
    impact,
    trace,
)
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.lake.store import Lake
from evidence_assets_tests.lake.test_growing_schema import example_row
from evidence_assets_tests.lake_rows import chunk, evidence


def seed(i: int, version: str = "v1") -> dict[str, Any]:
    return example_row("relation_seeds", i) | {"head": f"h{i}", "seed_id": f"seed{i}", "seed_hash": version}


def triple(i: int) -> dict[str, Any]:
    return example_row("triples", i) | {"triple_id": f"triple{i}", "origin": "import", "source": "s"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two seeds, three triples; triple0 from both seeds, triple1 from seed1, triple2 from triple1."""
    lake = Lake.create(tmp_path / "data_lake")
    lake.write("seeds", "", {"relation_seeds": [seed(0), seed(1)]})
    lineage = [
        edge("triple", "triple0", DERIVED, "seed", "seed0", "v1", 1),
        edge("triple", "triple0", DERIVED, "seed", "seed1", "v1", 2),
        edge("triple", "triple1", DERIVED, "seed", "seed1", "v1", 1),
        edge("triple", "triple2", USED, "triple", "triple1", "triple1", 1),
    ]
    lake.write("triples", "", {"triples": [triple(i) for i in range(3)], "lineage_edges": lineage})
    return lake


def test_trace_leads_to_sources_and_impact_to_derived_rows(lake: Lake) -> None:
    with connect(lake.root) as connection:
        root = trace(connection, "triple2")
        assert distinct_ids(root) == {"file": ["s"], "seed": ["seed1"], "triple": ["triple1"]}
        parent = next(node for node in root.next if node.kind == "triple")
        assert parent.relation == USED
        assert next(node for node in parent.next if node.kind == "seed").content["head"] == "h1"
        assert distinct_ids(impact(connection, "seed1")) == {"triple": ["triple0", "triple1", "triple2"]}
        assert [n.id for n in trace(connection, "triple0").next] == ["s", "seed0", "seed1"]


def test_documents_files_and_cells_are_sources(lake: Lake) -> None:
    """Their ids come from columns of other rows, also in a lake whose nodes have no file."""
    cells = [
        evidence(n, 1, "5", source_kind="table", source_id="polls", locator=f"r{n}c2", kind="cell") for n in (1, 2)
    ]
    edges = [edge("evidence", f"e-s-{n}-1", DERIVED, "table", "polls", "v") for n in (1, 2)]
    lake.write("corpus/news/chunks", "0", {"chunks": [chunk(1, "one"), chunk(2, "two", source="g.txt")]})
    lake.write("evidence/table/x", "b|0", {"evidence": cells, "lineage_edges": edges})
    rows, edges = [evidence(3, 1, "one", source_id="k1")], [edge("evidence", "e-s-3-1", DERIVED, "chunk", "k1", "k1")]
    lake.write("evidence/mcqa/x", "b|0", {"evidence": rows, "lineage_edges": edges})
    node = {"node_id": "base:n1", "name": "n", "aliases": [], "source": "bases/own/nodes.jsonl"}
    graph_edge = {"head_id": "base:n1", "relation": "r", "tail_id": "base:n1", "licences": [], "triple_ids": []}
    lake.write("knowledge/base/nodes", "", {"kg_nodes": [node, {**node, "node_id": "base:n0", "source": None}]})
    graph_edge |= {"edge_id": "x", "sources": ["bases/own/edges.tsv"]}
    lake.write("knowledge/base/edges", "", {"kg_edges": [graph_edge]})
    with connect(lake.root) as connection:
        of_chunk = {"chunk": ["k1"], "document": ["news:d1"]}
        assert distinct_ids(trace(connection, "e-s-3-1")) == {**of_chunk, "file": ["news:f.txt"]}
        assert distinct_ids(trace(connection, "e-s-1-1")) == {"cell": ["polls:r1c2"], "table": ["polls"]}
        assert distinct_ids(trace(connection, "base:n1")) == {"file": ["bases/own/nodes.jsonl"]}
        assert distinct_ids(trace(connection, "base:n0")) == {}
        assert distinct_ids(trace(connection, "x")) == {"file": ["bases/own/edges.tsv"]}
        assert find_row(connection, "news:g") == ("file", "news:g.txt")
        assert distinct_ids(impact(connection, "news:f.txt")) == {**of_chunk, "evidence": ["e-s-3-1"]}
        assert distinct_ids(impact(connection, "news:d2")) == {"chunk": ["k2"]}
        assert trace(connection, "news:d1").content["title"] == "Title 1"
        cell = impact(connection, "polls:r2c2")
        assert (cell.kind, cell.content, distinct_ids(cell)) == ("cell", {"text": "5"}, {"evidence": ["e-s-2-1"]})


def test_an_unambiguous_prefix_of_an_id_is_enough(lake: Lake) -> None:
    with connect(lake.root) as connection:
        assert find_row(connection, "triple2") == ("triple", "triple2")
        assert find_row(connection, "seed0") == ("seed", "seed0")
        with pytest.raises(UnknownId, match="matches 3 rows"):
            find_row(connection, "trip")
        with pytest.raises(UnknownId, match="no row"):
            find_row(connection, "zzz' OR 1=1 --")


@pytest.mark.parametrize("edges_per_part", [1, 100])
def test_missing_and_changed_parents_are_found(
    edges_per_part: int, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lineage, "EDGES_PER_PART", edges_per_part)
    path = lake.path("lineage_edges", "triples")
    with connect(lake.root) as connection:
        assert find_dangling_edges(connection, path) == []
    lake.write("seeds", "", {"relation_seeds": [seed(1, "v2")]})
    with connect(lake.root) as connection:
        dangling = find_dangling_edges(connection, path)
    assert sorted((e["child_id"], e["parent_id"], e["present"]) for e in dangling) == [
        ("triple0", "seed0", False),
        ("triple0", "seed1", True),
        ("triple1", "seed1", True),
    ]


def test_diff_lists_the_rows_that_differ_between_two_runs(lake: Lake) -> None:
    def record(run: str, ids: dict[str, str], partition: str = "b|0") -> None:
        citation = {"step": 0, "evidence_id": "e", "quoted": ""}
        citations = [citation | {"citation_id": k, "chain_id": k, "verdict": v} for k, v in ids.items()]
        rows = history_rows("citations", prepare_rows("citations", citations), run, "citations/x", partition)
        lake.record_history(run, "citations/x", partition, rows)

    with connect(lake.root) as connection, pytest.raises(UnknownId, match="0 runs: `evidence run BENCHMARK` makes one"):
        diff_runs(connection, "a", "b")
    with connect(lake.root) as connection, pytest.raises(BadInput, match="fewer than two runs"):
        diff_runs(connection)
    record("run-a", {"1": "verified", "2": "verified", "3": "absent"})
    record("run-b", {"2": "verified", "3": "verified", "4": "absent"})
    record("run-b", {"9": "verified"}, "other|0")
    with connect(lake.root) as connection:
        diff = diff_runs(connection, "run-a", "run-b")
        assert {row["row_id"]: row["change"] for row in diff.rows} == {"1": "removed", "3": "changed", "4": "added"}
        assert diff.partitions == 1 and diff_runs(connection, "run-a", "run-a").rows == []
        with pytest.raises(UnknownId, match=r"nope' matches 0 of the .* runs.*run-b \(20"):
            diff_runs(connection, "nope", "run-a")
        assert diff_runs(connection) == diff, "the last two runs by default"
