"""Columns held as codes: no file, hash or refusal differs from that of the same rows as texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from evidence_assets.graphs.base_rows import edge_rows, prefixed_node_id
from evidence_assets.graphs.merge import edge_id
from evidence_assets.lake import rows as row_files
from evidence_assets.lake.errors import SchemaMismatch
from evidence_assets.lake.rows import build_table, check_row_order, decode_columns, prepare_rows, version_of, write_rows
from evidence_assets.lake.store import Lake

BLOCK = 64


def edges(count: int) -> pl.DataFrame:
    rows = [{"head_id": f"ü{i % 7}", "relation": f"r{i % 2}", "tail_id": f"t{i}"} for i in range(count)]
    return pl.DataFrame(rows, schema=dict.fromkeys(("head_id", "relation", "tail_id"), pl.String))


def rows_one_by_one(frame: pl.DataFrame, name: str, source: str, licence: str) -> pa.Table:
    rows = []
    for head, relation, tail in frame.iter_rows():
        ends = prefixed_node_id(name, head), relation, prefixed_node_id(name, tail)
        constants = {"triple_ids": [], "sources": [source], "licences": [licence] if licence else []}
        rows.append(
            {"edge_id": edge_id(*ends), "head_id": ends[0], "relation": relation, "tail_id": ends[2], **constants}
        )
    return build_table("kg_edges", rows)


@pytest.mark.parametrize(("count", "licence"), [(0, ""), (1, "CC0"), (3 * BLOCK + 5, "CC0")])
def test_edges_have_the_version_and_the_bytes_of_edges_written_one_by_one(
    count: int, licence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "ROW_GROUP_SIZE", BLOCK)
    held = prepare_rows("kg_edges", edge_rows(edges(count), "bäse", "folder/edges.tsv", licence))
    expected = prepare_rows("kg_edges", rows_one_by_one(edges(count), "bäse", "folder/edges.tsv", licence))
    assert held.schema != expected.schema and decode_columns(held).equals(expected)
    assert version_of(held) == version_of(expected)
    lake = Lake.create(tmp_path)
    files = [lake.write(name, "", {"kg_edges": rows})["kg_edges"].path for name, rows in (("a", held), ("b", expected))]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert check_row_order("kg_edges", files[0]) == (count, True)


def test_an_edge_that_occurs_twice_is_named_by_its_digits() -> None:
    with pytest.raises(SchemaMismatch, match=f"occurs twice: .*{edge_id('base:ü0', 'r0', 'base:t0')}"):
        prepare_rows("kg_edges", edge_rows(pl.concat([edges(1), edges(1)]), "base", "f"))


def test_a_file_out_of_order_is_noticed_in_any_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "ROW_GROUP_SIZE", 4)
    rows = prepare_rows("kg_edges", edge_rows(edges(9), "base", "f"))
    for order, in_order in ((range(9), True), ([0, 1, 2, 4, 3, *range(5, 9)], False), ([8, *range(8)], False)):
        write_rows("kg_edges", rows.take(list(order)), tmp_path / "rows.parquet")
        assert check_row_order("kg_edges", tmp_path / "rows.parquet") == (9, in_order)


def test_a_slice_far_behind_in_texts_that_no_one_array_holds_is_written_out() -> None:
    ends = np.array([0, row_files.MAX_STRING_BYTES + 8, row_files.MAX_STRING_BYTES + 12])
    data = np.zeros(ends[-1], np.uint8)  # no page of the first text is touched
    data[-4:] = list(b"last")
    texts = pa.LargeStringArray.from_buffers(2, pa.py_buffer(ends), pa.py_buffer(data))
    assert decode_columns(pa.table({"text": texts}).slice(1))["text"].to_pylist() == ["last"]
