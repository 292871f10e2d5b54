"""The catalogue: views of all tables, including empty ones, from any folder and during writes."""

import shutil
from pathlib import Path

import pytest

from evidence_assets.lake import connect, find_lake, table
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake
from evidence_assets_tests.lake.test_store import citation


def test_every_table_is_a_view_even_without_files(lake: Lake) -> None:
    with connect(lake.root) as connection:
        for name, schema in TABLES.items():
            cursor = connection.execute(f'SELECT * FROM "{name}"')
            assert [d[0] for d in cursor.description or []] == list(dict.fromkeys([*schema.names, "asset"]))
            assert cursor.fetchall() == []


def test_a_view_unions_the_folders_of_a_table_and_adds_the_asset(lake: Lake) -> None:
    lake.write("citations/mcqa/x", "b|0", {"citations": [citation(1)]})
    lake.write("citations/mcqa/y", "", {"citations": [citation(2)]})
    with connect(lake.root) as connection:
        rows = connection.execute("SELECT citation_id, asset FROM citations ORDER BY 1").fetchall()
    assert rows == [("0001", "citations/mcqa/x"), ("0002", "citations/mcqa/y")]


def test_temporary_files_are_not_read(lake: Lake) -> None:
    lake.write("citations/x", "", {"citations": [citation(1)]})
    path = lake.path("citations", "citations/x")
    (path.parent / f".{path.name}.1.tmp").write_text("half a file")
    (path.parent / ".half.parquet").write_text("half a file")
    assert table("citations", lake.root).height == 1


def test_a_moved_lake_is_found_from_a_folder_below_it(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.write("citations/x", "", {"citations": [citation(1)]})
    new_root = tmp_path / "a folder with 'quotes'" / "data_lake"
    new_root.parent.mkdir()
    shutil.move(lake.root, new_root)
    below = new_root.parent / "deep" / "down"
    below.mkdir(parents=True)
    monkeypatch.delenv("EVIDENCE_LAKE", raising=False)
    monkeypatch.chdir(below)
    assert find_lake() == new_root
    assert table("citations").height == 1
    (below / "data_lake").mkdir()
    assert find_lake() == new_root, "a folder of this name is no lake and no project"
    (below / "declarations").mkdir()
    assert find_lake() == below / "data_lake"
    monkeypatch.chdir(tmp_path)
    assert find_lake() == tmp_path / "data_lake", "a new lake belongs in the current folder"
    monkeypatch.setenv("EVIDENCE_LAKE", str(tmp_path / "named"))
    assert find_lake() == tmp_path / "named"
