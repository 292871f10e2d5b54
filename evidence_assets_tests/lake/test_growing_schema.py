"""A table gets a nullable column: what was written before is read, asked, traced, reused and checked with it empty."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence_assets.assets.table_asset import sound_check, table_asset
from evidence_assets.experiment.rows import RowWriter
from evidence_assets.experiment.stage import StageContext, StageOutput
from evidence_assets.lake import connect, lineage, table
from evidence_assets.lake.errors import LakeVersionError, SchemaMismatch
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import USED, edge
from evidence_assets.lake.rows import prepare, version_of
from evidence_assets.lake.schemas import KINDS, TABLES, Column
from evidence_assets.lake.store import FORMAT, Lake
from evidence_assets_tests.assets.small_worlds import materialize
from evidence_assets_tests.lake_rows import evidence, prediction, question

ADDED = "added_later"


def value(type_: pa.DataType, number: int) -> Any:
    """Any value of this type."""
    if pa.types.is_list(type_):
        return [value(type_.value_type, number)]
    if pa.types.is_struct(type_):
        return {part.name: value(part.type, number) for part in type_}
    return {"string": f"v{number}", "bool": True}.get(str(type_), number)


def row(name: str, number: int) -> dict[str, Any]:
    """A row that a table of this name takes, with every column filled."""
    return {column.name: value(column.type, number) for column in TABLES[name].columns}


def grow(monkeypatch: pytest.MonkeyPatch, *names: str, type_: pa.DataType = pa.string()) -> None:
    """Let the schemas of these tables be those of a release that has added a column."""
    for name in names:
        columns = (*TABLES[name].columns, Column(ADDED, type_, "Added later.", nullable=True))
        grown = replace(TABLES[name], columns=columns)
        monkeypatch.setitem(TABLES, name, grown)
        monkeypatch.setitem(KINDS, grown.kind, grown)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path / "data_lake")


def queried(lake: Lake, sql: str) -> list[tuple[Any, ...]]:
    with connect(lake.root) as connection:
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize("name", ["chunks", "predictions", "lineage_edges", "kg_edges"])
def test_every_table_may_grow(name: str, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read, queried and written again: old files alone, beside new files, and old and new partitions of one asset."""
    before = lake.write("an/asset", "b|0", {name: [row(name, 1)]})[name]
    version = version_of(prepare(name, [row(name, 1)]))
    grow(monkeypatch, name)
    old = lake.read(name, "an/asset", "b|0")
    assert old.to_dicts() == [row(name, 1) | {ADDED: None}]
    assert lake.read(name, columns=[ADDED]).to_dicts() == [{ADDED: None}]
    assert queried(lake, f'SELECT {ADDED} FROM "{name}"') == [(None,)]
    assert table(name, lake.root).schema[ADDED] == pl.String
    lake.write("an/asset", "b|1", {name: [row(name, 2)]})
    lake.write("another/asset", "", {name: [row(name, 3) | {ADDED: None}]})
    assert lake.read(name)[ADDED].sort().to_list() == [None, None, "v2"]
    assert queried(lake, f'SELECT {ADDED} FROM "{name}" ORDER BY 1 NULLS FIRST') == [(None,), (None,), ("v2",)]
    assert version_of(prepare(name, old)) == version, "what was made from these rows would be stale"
    assert lake.written_version(name, "an/asset", "b|0") == version, "so would what opens the file"
    assert lake.write("an/asset", "b|0", {name: old})[name].rows == before.rows
    assert pq.read_schema(before.path).names[-1] == ADDED
    assert lake.written_version(name, "an/asset", "b|0") == version


@pytest.mark.parametrize(
    "type_",
    [pa.int32(), pa.float64(), pa.bool_(), pa.list_(pa.string()), pa.list_(pa.struct([pa.field("a", pa.float32())]))],
    ids=str,
)
def test_a_column_of_any_type_may_be_added(type_: pa.DataType, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.write("x", "0", {"citations": [row("citations", 1)]})
    grow(monkeypatch, "citations", type_=type_)
    empty = table("citations", lake.root).schema[ADDED]
    lake.write("x", "1", {"citations": [row("citations", 2)]})
    assert lake.read("citations")[ADDED].to_list() == [None, value(type_, 2)]
    assert table("citations", lake.root).sort("citation_id")[ADDED].to_list() == [None, value(type_, 2)]
    assert table("citations", lake.root).schema[ADDED] == lake.read("citations").schema[ADDED] == empty


def test_an_older_release_reads_what_it_knows_of_a_newer_one(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        grow(newer, "citations")
        lake.write("x", "", {"citations": [row("citations", 1)]})
    assert lake.read("citations").to_dicts() == [row("citations", 1)]
    assert ADDED not in table("citations", lake.root).columns


def test_lineage_is_followed_and_checked_through_old_and_new_files(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(number: int) -> str:
        name, fact = content_id("prediction", number), content_id("evidence", number)
        lake.write("questions/mcqa", f"quiz|{number}", {"questions": [question(number)]})
        picked = evidence(number, 1, "text", evidence_id=fact, content_hash="v")
        lake.write(
            "evidence/mcqa/s",
            f"quiz|{number}",
            {
                "evidence": [picked],
                "lineage_edges": [edge("evidence", fact, USED, "question", f"q{number}", f"q{number}")],
            },
        )
        lake.write(
            "predictions/mcqa/s",
            f"quiz|{number}",
            {
                "predictions": [prediction(number, "A", prediction_id=name)],
                "lineage_edges": [edge("prediction", name, USED, "evidence", fact, "v")],
            },
        )
        return name

    old = write(0)
    names = ("predictions", "evidence", "questions", "lineage_edges")
    with connect(lake.root) as connection:
        before = lineage.trace(connection, old).as_dict()
    grow(monkeypatch, *names)
    for new in ("", write(1)):
        with connect(lake.root, lazily=True) as connection:
            assert lineage.trace(connection, old).as_dict() == before
            assert lineage.trace(connection, old[:20]).as_dict() == before
            assert not lineage.dangling(connection, lake.path("lineage_edges", "predictions/mcqa/s", "quiz|0"))
            if new:
                assert lineage.distinct_rows(lineage.trace(connection, new))["question"] == ["q1"]
            assert lineage.distinct_rows(lineage.impact(connection, "q0"))["prediction"] == [old]
        with monkeypatch.context() as shown:  # the new column may be what people want to see
            shown.setitem(lineage._SHOWN, "predictions", ("answer", ADDED))
            with connect(lake.root, lazily=True) as connection:
                assert lineage.trace(connection, old).content == {"answer": "A", ADDED: None}


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def test_an_asset_takes_its_old_rows_over_and_they_are_sound(
    lake: Lake, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [evidence(number, 1, "text", input_hash=f"h{number}") for number in range(3)]

    def make(step: StageContext) -> StageOutput:
        wanted = {str(r["question_id"]): str(r["input_hash"]) for r in rows}
        writer = RowWriter("evidence", step.before, wanted, "question_id")
        for row_ in rows:
            if row_["question_id"] in writer.todo:
                writer.add(row_)
        return writer.finish()

    asset = table_asset("evidence/x", "evidence", make, description="Of the test.", group="test", code_version="1")
    checked = dg.Definitions(assets=[asset], asset_checks=[sound_check(asset)])

    def made() -> tuple[int, bool, str]:
        result = materialize(lake, checked, instance=instance)
        [materialization] = result.asset_materializations_for_node("evidence__x")
        [check] = result.get_asset_check_evaluations()
        return materialization.metadata["rows_reused"].value, check.passed, materialization.tags["dagster/data_version"]  # type: ignore[return-value]

    reused, passed, version = made()
    assert (reused, passed) == (0, True)
    grow(monkeypatch, "evidence", "lineage_edges", "history")
    assert made() == (3, True, version)
    rows.append(evidence(9, 1, "text", input_hash="h9") | {ADDED: "x"})
    assert made()[:2] == (3, True)
    assert queried(lake, f"SELECT question_id FROM evidence WHERE {ADDED} = 'x'") == [("q9",)]


def test_a_file_without_a_required_column_is_refused(lake: Lake) -> None:
    path = lake.write("x", "", {"citations": [row("citations", 1)]})["citations"].path
    pq.write_table(pq.read_table(path).drop_columns(["verdict"]), path)
    with pytest.raises(SchemaMismatch, match=r"all\.parquet lacks the column verdict.*make its asset again"):
        lake.read("citations")


@pytest.mark.parametrize(
    ("version", "says"), [(FORMAT + 1, "upgrade evidence-assets"), (FORMAT - 1, "make the lake anew, or use the older")]
)
def test_a_lake_of_another_format_is_refused_with_what_to_do(version: int, says: str, lake: Lake) -> None:
    (lake.root / "format.json").write_text(f'{{"format": {version}}}')
    for open_it in (lambda: Lake(lake.root), lambda: Lake.create(lake.root), lambda: connect(lake.root)):
        with pytest.raises(LakeVersionError, match=f"has format {version}, this program reads {FORMAT}: {says}"):
            open_it()


def test_a_view_over_old_files_still_hands_filters_to_them(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.write("x", "", {"citations": [row("citations", 1), row("citations", 3)]})
    grow(monkeypatch, "citations")
    plan = queried(lake, "EXPLAIN SELECT * FROM citations WHERE citation_id = 'v2'")[0][1]
    assert "Filters" in plan.split("READ_PARQUET")[-1]
