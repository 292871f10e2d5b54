"""Tables that are sorted on disk equal tables that are sorted in memory."""

import errno
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.graphs.merge import edge_id, edge_rows
from evidence_assets.lake import rows as row_files
from evidence_assets.lake import sorted_rows
from evidence_assets.lake.atomic import temporary_folder
from evidence_assets.lake.errors import DiskFull, SchemaMismatch
from evidence_assets.lake.rows import build_table
from evidence_assets.lake.sorted_rows import sort_on_disk, store_sorted
from evidence_assets.lake.store import Lake
from evidence_assets_tests.lake_rows import graph_edge, node

BLOCK = 64
WORDS = st.sampled_from(["", "a", "ab", "A", "ü", "z", "é"])


@given(st.lists(st.lists(st.tuples(WORDS, st.integers(-2, 2)), max_size=9), max_size=4), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_blocks_are_a_stable_sort_and_do_not_split_the_first_column(
    rows: list[list[tuple[str, int]]], rows_per_block: int
) -> None:
    schema = pl.Schema({"word": pl.String, "number": pl.Int64, "position": pl.Int64})
    frames = [
        pl.DataFrame([(*row, 100 * i + j) for j, row in enumerate(part)], schema, orient="row")
        for i, part in enumerate(rows)
    ]
    with TemporaryDirectory() as folder, mock.patch.object(sorted_rows, "ROWS_PER_BLOCK", rows_per_block):
        blocks = list(sort_on_disk(frames, ("word", "number"), Path(folder)))
    results = [row for block in blocks for row in block.rows()]
    assert results == sorted(
        (row for frame in frames for row in frame.rows()), key=lambda row: (row[0].encode(), *row[1:])
    )
    words = [word for block in blocks for word in block["word"].unique()]
    assert len(words) == len(set(words))


def test_a_sort_larger_than_its_memory_spills_to_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_rows, "SORT_MEMORY", "150MB")
    numbers = pl.Series(range(1_000_000)).hash(0)
    frame = pl.DataFrame({"key": numbers, "text": numbers.cast(pl.String) + "x" * 200})
    spilled, results = False, []
    for block in sort_on_disk(frame.iter_slices(200_000), ("key",), tmp_path):
        results.append(block)
        spilled |= any(path.suffix == ".tmp" for path in tmp_path.iterdir())
    assert spilled and pl.concat(results).equals(frame.sort("key"))


@pytest.mark.parametrize(("count", "licences"), [(0, []), (1, ["CC0"]), (3 * BLOCK + 5, ["CC0"])])
def test_rows_sorted_on_disk_have_the_bytes_of_rows_sorted_in_memory(
    count: int, licences: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "ROW_GROUP_SIZE", BLOCK)
    monkeypatch.setattr(sorted_rows, "ROWS_PER_BLOCK", BLOCK - 1)
    edges = [(f"ü{i % 7}", f"r{i % 2}", f"t{i}" * 9_000) for i in range(count)]  # several pages of a file
    ends = [(f"bäse:{head}", relation, f"bäse:{tail}") for head, relation, tail in edges]
    expected = [graph_edge(edge_id(*each), *each, sources=["a.tsv"], licences=licences) for each in ends]
    frame = pl.DataFrame(edges, dict.fromkeys(("head_id", "relation", "tail_id"), pl.String), orient="row")
    stored = store_sorted("kg_edges", edge_rows(frame, "bäse", "a.tsv", tmp_path, *licences), tmp_path)
    lake = Lake.create(tmp_path / "lake")
    lake.write("a", "", {"kg_edges": stored})
    lake.write("b", "", {"kg_edges": expected})
    assert lake.path("kg_edges", "a").read_bytes() == lake.path("kg_edges", "b").read_bytes()


def test_blocks_that_do_not_ascend_are_rejected(tmp_path: Path) -> None:
    blocks = [build_table("kg_nodes", [node(name, name)]) for name in ("b", "a")]
    with pytest.raises(SchemaMismatch, match=r"'a'} is after {'node_id': 'b'}"):
        store_sorted("kg_nodes", blocks, tmp_path)
    with pytest.raises(SchemaMismatch, match="is after"):
        store_sorted("kg_nodes", blocks[:1] * 2, tmp_path)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    error = duckdb.IOException(f"Could not write: {os.strerror(errno.ENOSPC)}")
    with pytest.raises(DiskFull, match="free some"), temporary_folder(tmp_path):
        raise error
    assert list(tmp_path.iterdir()) == []
