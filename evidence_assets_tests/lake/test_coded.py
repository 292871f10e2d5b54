"""Rows held as codes: nothing that lies in the lake, no hash and no refusal tells them from the same rows as texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evidence_assets.graphs.base_rows import edge_rows, node_id
from evidence_assets.graphs.merge import edge_id
from evidence_assets.lake import coded
from evidence_assets.lake import rows as row_files
from evidence_assets.lake.errors import SchemaMismatch
from evidence_assets.lake.rows import count_in_order, prepare, typed, version_of, write_rows
from evidence_assets.lake.store import Lake

BLOCK = 64


def rows_one_by_one(edges: pl.DataFrame, name: str, source: str, licence: str) -> pa.Table:
    """What `edge_rows` stands for: a row after another."""
    rows = []
    for head, relation, tail in edges.iter_rows():
        ends = node_id(name, head), relation, node_id(name, tail)
        of = {"triple_ids": [], "sources": [source], "licences": [licence] if licence else []}
        rows.append({"edge_id": edge_id(*ends), "head_id": ends[0], "relation": relation, "tail_id": ends[2], **of})
    return typed("kg_edges", rows)


@st.composite
def edge_frames(draw: st.DrawFn) -> pl.DataFrame:
    """Distinct edges of ends and relations of any length, of none to a few blocks of rows."""
    texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=draw(st.sampled_from([1, 40])))
    ends, relations = (draw(st.lists(texts, min_size=1, max_size=20, unique=True)) for _ in range(2))
    every = len(ends) ** 2 * len(relations)
    draws = np.random.default_rng(draw(st.integers(0, 9)))
    chosen = draws.permutation(every)[: draw(st.sampled_from([0, 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5]))]
    heads, rest = np.divmod(chosen, len(ends) * len(relations))
    which, tails = np.divmod(rest, len(ends))
    frame = pl.DataFrame(
        {
            "head_id": [ends[place] for place in heads],
            "relation": [relations[place] for place in which],
            "tail_id": [ends[place] for place in tails],
        },
        schema=dict.fromkeys(("head_id", "relation", "tail_id"), pl.String),
    )
    return frame.cast(pl.Enum(list(dict.fromkeys([*ends, *relations])))) if draw(st.booleans()) else frame


@settings(deadline=None, max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edges=edge_frames(), licence=st.sampled_from(["", "CC0"]))
def test_edges_are_the_rows_the_version_and_the_bytes_of_edges_written_one_by_one(
    edges: pl.DataFrame, licence: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lake = Lake.create(tmp_path_factory.mktemp("lake"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_files, "ROW_GROUP", BLOCK)
        held = prepare("kg_edges", edge_rows(edges, "bäse", "folder/edges.tsv", licence))
        expected = prepare("kg_edges", rows_one_by_one(edges, "bäse", "folder/edges.tsv", licence))
        assert held.schema != expected.schema and coded.plain(held).equals(expected)
        assert version_of(held) == version_of(expected)
        files = [
            lake.write(asset, "", {"kg_edges": rows})["kg_edges"].path for asset, rows in (("a", held), ("b", expected))
        ]
        assert files[0].read_bytes() == files[1].read_bytes()
        assert count_in_order("kg_edges", files[0]) == (len(edges), True)
    again = prepare("kg_edges", held)
    assert again.schema == held.schema and again.equals(held)


def held_ids(first: list[int], second: list[int]) -> pa.ChunkedArray:
    halves = np.array([first, second], ">u8").T.copy()
    return pa.chunked_array([pa.FixedSizeBinaryArray.from_buffers(coded.ID, len(first), [None, pa.py_buffer(halves)])])


def test_ids_whose_first_halves_are_equal_are_in_the_order_of_their_digits() -> None:
    ids = held_ids([7, 7, 2, 2**63, 7], [3, 1, 9, 0, 2**63])
    digits = coded.plain(pa.table({"id": ids}))["id"].to_pylist()
    assert [digits[place] for place in coded.order_of(ids).to_pylist()] == sorted(digits)


def test_an_edge_that_occurs_twice_is_named_by_its_digits() -> None:
    rows = edge_rows(pl.DataFrame({"head_id": ["a", "a"], "relation": ["r", "r"], "tail_id": ["b", "b"]}), "base", "f")
    with pytest.raises(SchemaMismatch, match=f"occurs twice: .*{edge_id('base:a', 'r', 'base:b')}"):
        prepare("kg_edges", rows)


def test_codes_that_stand_for_an_empty_text_or_for_nothing_are_written_out_at_once() -> None:
    rows = edge_rows(pl.DataFrame({"head_id": ["a"], "relation": [""], "tail_id": ["b"]}), "base", "f")
    assert prepare("kg_edges", rows).schema.field("relation").type == pa.string()
    nothing = pa.DictionaryArray.from_arrays(pa.array([None], pa.int32()), pa.array(["r"]))
    with pytest.raises(SchemaMismatch, match="column relation is empty in 1 rows"):
        prepare("kg_edges", rows.set_column(1, "relation", nothing))


def test_a_file_out_of_order_is_told_whichever_block_it_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "ROW_GROUP", 4)
    ends = [str(number) for number in range(9)]
    rows = prepare(
        "kg_edges", edge_rows(pl.DataFrame({"head_id": ends, "relation": "r", "tail_id": ends}), "base", "f")
    )
    for order, in_order in ((range(9), True), ([0, 1, 2, 4, 3, *range(5, 9)], False), ([8, *range(8)], False)):
        write_rows("kg_edges", rows.take(list(order)), tmp_path / "rows.parquet")
        assert count_in_order("kg_edges", tmp_path / "rows.parquet") == (9, in_order)
    write_rows("kg_edges", rows.take([0, 1, 2, 3, 3]), tmp_path / "rows.parquet")
    with pytest.raises(SchemaMismatch, match="occurs twice"):
        count_in_order("kg_edges", tmp_path / "rows.parquet")


def test_texts_that_no_one_array_holds_are_written_as_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = pl.DataFrame(
        {
            "node_id": [f"n{number}" for number in range(200)],
            "name": "a name",
            "aliases": [["b"]] * 200,
            "type": None,
            "document": [None if number % 3 == 0 else "text " * (number % 40) for number in range(200)],
            "source": "file",
        },
        schema_overrides={"type": pl.String},
    )
    lake, expected = Lake.create(tmp_path / "lake"), prepare("kg_nodes", nodes)
    monkeypatch.setattr(row_files, "ROW_GROUP", BLOCK)
    files = [lake.write("plain", "", {"kg_nodes": nodes})["kg_nodes"].path]
    monkeypatch.setattr(coded, "MOST", 2_000)
    for rows in (nodes[::-1], expected, nodes.to_arrow()):
        prepared = prepare("kg_nodes", rows)
        assert prepared.schema.field("document").type == coded.LONG and coded.plain(prepared).equals(expected)
        write_rows("kg_nodes", prepared, tmp_path / "rows.parquet")
        assert (tmp_path / "rows.parquet").stat().st_size > 0
        assert pl.read_parquet(tmp_path / "rows.parquet").equals(pl.read_parquet(files[0]))
        assert version_of(prepared) == version_of(prepare("kg_nodes", prepared))


def test_a_slice_far_behind_in_such_texts_is_written_out() -> None:
    ends = np.array([0, coded.MOST + 8, coded.MOST + 12])
    data = np.zeros(ends[-1], np.uint8)  # no page of the first text is touched
    data[-4:] = list(b"last")
    texts = pa.LargeStringArray.from_buffers(2, pa.py_buffer(ends), pa.py_buffer(data))
    assert coded.plain(pa.table({"text": texts}).slice(1))["text"].to_pylist() == ["last"]
