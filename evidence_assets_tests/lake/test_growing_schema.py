"""A table gets a new nullable column: older rows are read, queried, traced, reused and checked with nulls."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence_assets.lake import connect, table
from evidence_assets.lake.errors import LakeVersionError, SchemaMismatch
from evidence_assets.lake.rows import prepare_rows, version_of
from evidence_assets.lake.schemas import KINDS, TABLES
from evidence_assets.lake.store import FORMAT_VERSION, Lake

ADDED = "added_later"


def example_value(type_: pa.DataType, number: int) -> Any:
    """An example value of this type."""
    if pa.types.is_list(type_):
        return [example_value(type_.value_type, number)]
    if pa.types.is_struct(type_):
        return {part.name: example_value(part.type, number) for part in type_}
    return {"string": f"v{number}", "bool": True}.get(str(type_), number)


def example_row(name: str, number: int) -> dict[str, Any]:
    """An example row of a table, with all columns filled."""
    return {column.name: example_value(column.type, number) for column in TABLES[name].arrow}


def add_column(monkeypatch: pytest.MonkeyPatch, name: str, type_: pa.DataType) -> None:
    """Replace the schema of a table by that of a release with one more column."""
    grown = replace(TABLES[name], arrow=TABLES[name].arrow.append(pa.field(ADDED, type_)))
    monkeypatch.setitem(TABLES, name, grown)
    monkeypatch.setitem(KINDS, grown.kind, grown)


def query(lake: Lake, sql: str) -> list[tuple[Any, ...]]:
    with connect(lake.root) as connection:
        return connection.execute(sql).fetchall()


STRUCTS = pa.list_(pa.struct([pa.field("a", pa.float32())]))


@pytest.mark.parametrize(("name", "type_"), [("chunks", STRUCTS), ("lineage_edges", pa.int32())], ids=str)
def test_every_table_may_grow(name: str, type_: pa.DataType, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read, query and rewrite: old files alone, with new files, and old and new partitions of one asset."""
    lake.write("an/asset", "b|0", {name: [example_row(name, 1)]})
    path = lake.path(name, "an/asset", "b|0")
    version = version_of(prepare_rows(name, [example_row(name, 1)]))
    add_column(monkeypatch, name, type_)
    value = example_value(type_, 2)
    old = lake.read(name, "an/asset", "b|0")
    assert old.to_dicts() == [example_row(name, 1) | {ADDED: None}]
    assert lake.read(name, columns=[ADDED]).to_dicts() == [{ADDED: None}]
    assert query(lake, f'SELECT {ADDED} FROM "{name}"') == [(None,)]
    assert table(name, lake.root).schema[ADDED] == lake.read(name).schema[ADDED]
    assert lake.scan(name, "an/asset").collect().equals(old) and lake.scan(name, "none").collect().is_empty()
    lake.write("an/asset", "b|1", {name: [example_row(name, 2)]})
    lake.write("another/asset", "", {name: [example_row(name, 3) | {ADDED: None}]})
    assert lake.read(name, "an/asset")[ADDED].to_list() == [None, value]
    assert lake.scan(name).collect().equals(lake.read(name))
    assert query(lake, f'SELECT {ADDED} FROM "{name}" ORDER BY 1 NULLS FIRST') == [(None,), (None,), (value,)]
    assert version_of(prepare_rows(name, old)) == version, "dependent rows would be stale"
    assert lake.stored_version(name, "an/asset", "b|0") == version, "dependent files would be stale"
    lake.write("an/asset", "b|0", {name: old})
    assert pq.read_schema(path).names[-1] == ADDED
    assert lake.stored_version(name, "an/asset", "b|0") == version


def test_a_file_without_a_required_column_is_rejected(lake: Lake) -> None:
    lake.write("x", "", {"citations": [example_row("citations", 1)]})
    path = lake.path("citations", "x")
    pq.write_table(pq.read_table(path).drop_columns(["verdict"]), path)
    with pytest.raises(SchemaMismatch, match=r"all\.parquet has no column verdict.*materialize its asset again"):
        lake.read("citations")


@pytest.mark.parametrize(
    ("version", "says"),
    [(FORMAT_VERSION + 1, "upgrade evidence-assets"), (FORMAT_VERSION - 1, "rebuild the lake, or use an older")],
)
def test_a_lake_of_another_format_is_rejected_with_a_remedy(version: int, says: str, lake: Lake) -> None:
    (lake.root / "format.json").write_text(f'{{"format": {version}}}')
    for open_it in (lambda: Lake(lake.root), lambda: Lake.create(lake.root), lambda: connect(lake.root)):
        with pytest.raises(
            LakeVersionError, match=f"has format {version}, this program reads {FORMAT_VERSION}: {says}"
        ):
            open_it()
    (lake.root / "format.json").write_text("not json")
    with pytest.raises(LakeVersionError, match="no valid format version"):
        Lake(lake.root)
    with pytest.raises(LakeVersionError, match="there is no lake"):
        Lake(lake.root / "elsewhere")
