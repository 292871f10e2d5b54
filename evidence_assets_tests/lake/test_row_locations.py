"""A trace by file locations equals a trace through the views."""

from pathlib import Path

import pytest

from evidence_assets.lake import connect, lineage
from evidence_assets.lake.lineage import DERIVED, USED, Node, distinct_ids, edge, impact, trace
from evidence_assets.lake.row_locations import find_question_row, find_sources
from evidence_assets.lake.store import Lake
from evidence_assets_tests.lake_rows import chain, chunk, evidence, prediction, question, write_answers


def long_id(name: str) -> str:
    """An id with the length of a content hash."""
    return name.ljust(32, "0")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three questions in two partitions, each with a prediction, a chain and two rows of evidence in shared chunks."""
    lake = Lake.create(tmp_path / "data_lake")
    lake.write("corpus/c/chunks", "0", {"chunks": [chunk(i, f"text {i}") for i in range(2)]})
    for partition, numbers in (("quiz|0", (1, 2)), ("quiz|1", (3,))):
        lake.write("questions/mcqa", partition, {"questions": [question(i) for i in numbers]})
        items = [evidence(i, rank, f"text {i}", evidence_id=long_id(f"e{i}{rank}")) for i in numbers for rank in (1, 2)]
        edges = [edge("evidence", e["evidence_id"], USED, "question", e["question_id"], "") for e in items]
        edges += [edge("evidence", e["evidence_id"], DERIVED, "chunk", f"k{e['rank'] - 1}", "v", 1) for e in items]
        chains = [chain(i, "A", "step", [], chain_id=long_id(f"c{i}")) for i in numbers]
        answers = [prediction(i, "A", prediction_id=long_id(f"p{i}")) for i in numbers]
        write_answers(lake, items, chains, answers, derived=edges, partition=partition)
    return lake


def trace_all_files(lake: Lake, identifier: str, monkeypatch: pytest.MonkeyPatch) -> Node:
    """The trace without file locations."""
    with monkeypatch.context() as patch, connect(lake.root) as connection:
        patch.setattr(lineage, "find_question_row", lambda *_: None)
        return trace(connection, identifier)


@pytest.mark.parametrize("name", ["p1", "p2", "p3", "c3", "e21"])
def test_a_trace_by_file_locations_equals_a_trace_through_views(
    name: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(lake.root, lazy=True) as connection:
        assert find_question_row(connection, long_id(name)) is not None
        root = trace(connection, long_id(name))
    assert root.as_dict() == trace_all_files(lake, long_id(name), monkeypatch).as_dict()
    assert root.next


def test_a_cell_of_a_joined_table_leads_to_those_of_its_files(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [{"row": 0, "column": 0, "text": "Bolt"}]
    origins = [{"locator": "r1c0", "table_id": name, "source_locator": f"r{n}c2"} for n, name in ((4, "a"), (5, "b"))]
    tables = [
        {"table_id": name, "benchmark": "asked", "caption": name, "header": ["x"], "n_rows": 1, "cells": cells}
        | {"content_hash": name, "origins": origins if name == "a + b" else None}
        for name in ("a + b", "a", "b")
    ]
    partition = "asked|q4"
    lake.write("tables", partition, {"tables": tables})
    lake.write("questions/table", partition, {"questions": [question(4)]})
    item = evidence(4, 1, "Bolt", evidence_id=long_id("e4"), source_kind="table", source_id="a + b", locator="r1c0")
    derived = [edge("evidence", long_id("e4"), DERIVED, "table", "a + b", "a + b", 1)]
    write_answers(lake, [item], [], [], derived=derived, partition=partition)
    with connect(lake.root) as connection:
        root = trace(connection, long_id("e4"))
        assert distinct_ids(root) == {"cell": ["a + b:r1c0", "a:r4c2", "b:r5c2"], "table": ["a", "a + b", "b"]}
        assert distinct_ids(impact(connection, "b:r5c2"))["evidence"] == [long_id("e4")]
        assert distinct_ids(impact(connection, "b"))["evidence"] == [long_id("e4")]
        assert find_sources(connection, "a:r4") == [("cell", "a:r4c2")]
    assert root.as_dict() == trace_all_files(lake, long_id("e4"), monkeypatch).as_dict()


@pytest.mark.parametrize(("table", "column"), [("lineage_edges", "child_id"), ("evidence", "evidence_id")])
def test_bloom_filters_exclude_absent_ids(table: str, column: str, lake: Lake) -> None:
    path = lake.path(table, "evidence/mcqa/s", "quiz|0")
    with connect(lake.root) as connection:

        def excluded(identifier: str) -> list[bool]:
            rows = connection.execute(
                f"SELECT bloom_filter_excludes FROM parquet_bloom_probe('{path}', '{column}', $id)", {"id": identifier}
            )
            return [row[0] for row in rows.fetchall()]

        assert excluded(long_id("e11")) == [False]
        assert sum(all(excluded(long_id(f"elsewhere{i}"))) for i in range(50)) > 45
