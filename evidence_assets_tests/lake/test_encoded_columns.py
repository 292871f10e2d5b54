"""Dictionary-encoded columns: files, hashes and errors equal those of the same rows as strings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from evidence_assets.graphs.merge import edge_id, edge_rows, prefixed_node_id
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
def test_encoded_edges_have_the_version_and_bytes_of_plain_edges(
    count: int, licence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "ROW_GROUP_SIZE", BLOCK)
    encoded = prepare_rows("kg_edges", edge_rows(edges(count), "bäse", "folder/edges.tsv", licence))
    expected = prepare_rows("kg_edges", rows_one_by_one(edges(count), "bäse", "folder/edges.tsv", licence))
    assert encoded.schema != expected.schema and decode_columns(encoded).equals(expected)
    assert version_of(encoded) == version_of(expected)
    lake = Lake.create(tmp_path)
    files = [
        lake.write(name, "", {"kg_edges": rows})["kg_edges"].path for name, rows in (("a", encoded), ("b", expected))
    ]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert check_row_order("kg_edges", files[0]) == (count, True)


def test_a_duplicate_edge_is_reported_by_its_hexadecimal_id() -> None:
    with pytest.raises(SchemaMismatch, match=f"occurs twice: .*{edge_id('base:ü0', 'r0', 'base:t0')}"):
        prepare_rows("kg_edges", edge_rows(pl.concat([edges(1), edges(1)]), "base", "f"))


def test_an_unsorted_file_is_detected_in_any_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "ROW_GROUP_SIZE", 4)
    rows = prepare_rows("kg_edges", edge_rows(edges(9), "base", "f"))
    for order, in_order in ((range(9), True), ([0, 1, 2, 4, 3, *range(5, 9)], False), ([8, *range(8)], False)):
        write_rows("kg_edges", rows.take(list(order)), tmp_path / "rows.parquet")
        assert check_row_order("kg_edges", tmp_path / "rows.parquet") == (9, in_order)


def test_a_late_slice_of_an_oversized_string_array_is_decoded() -> None:
    ends = np.array([0, row_files.MAX_STRING_BYTES + 8, row_files.MAX_STRING_BYTES + 12])
    data = np.zeros(ends[-1], np.uint8)  # no page of the first text is touched
    data[-4:] = list(b"last")
    texts = pa.LargeStringArray.from_buffers(2, pa.py_buffer(ends), pa.py_buffer(data))
    assert decode_columns(pa.table({"text": texts}).slice(1))["text"].to_pylist() == ["last"]
