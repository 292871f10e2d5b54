"""Questions about tables that lie in files of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence_assets.benchmarks import own
from evidence_assets.benchmarks.readers import read_pairs
from evidence_assets.lake.errors import BadInput


def test_own_tables(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\ufeffname;price\nTea;3,50\nCoffee;4\n\n", encoding="utf-8")
    pq.write_table(pa.table({"name": ["x", None], "n": [1, 2]}), tmp_path / "b.parquet")
    lines = [
        {"table": "a.csv", "claim": "Tea costs 3,50.", "label": "supports"},
        {"table": "b.parquet", "question": "Which?", "options": ["x", "y"], "answer": "B", "id": "q7"},
        {"table": "a.csv", "claim": "Unlabelled."},
    ]
    (tmp_path / "claims.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (one, first), (two, second), (three, again) = read_pairs("own_tables", [tmp_path / "claims.jsonl"], "all")
    assert (one.task, one.gold) == ("verification", ("SUPPORTS",))
    assert (first.header, first.rows) == (("name", "price"), (("Tea", "3,50"), ("Coffee", "4")))
    assert (two.source_id, two.gold, two.options) == ("q7", ("B",), ("x", "y"))
    assert second.rows == (("x", "1"), ("", "2"))
    assert three.gold == ()
    assert again is first


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ('{"claim": "x"}', "table"),
        ('{"table": "none.csv", "claim": "x"}', "table"),
        ('{"table": "a.csv"}', "question"),
        ('{"table": "a.csv", "question": "x", "options": ["a"]}', "options"),
        ('{"table": "a.csv", "question": "x", "options": ["a", "b"], "answer": "C"}', "answer"),
        ('{"table": "a.csv", "claim": "x", "label": "perhaps"}', "label"),
        ("[1]", None),
        ("{", None),
    ],
)
def test_own_tables_faults_are_named(tmp_path: Path, line: str, field: str | None) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "claims.jsonl").write_text('{"table": "a.csv", "claim": "fine"}\n' + line + "\n")
    with pytest.raises(BadInput) as caught:
        list(read_pairs("own_tables", [tmp_path / "claims.jsonl"], "all"))
    assert (caught.value.line, caught.value.field) == (2, field)


def test_odd_files(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    assert own.read_table_file(tmp_path / "empty.csv").header == ()
    (tmp_path / "one.csv").write_text("only\nx\n")
    assert own.read_table_file(tmp_path / "one.csv").rows == (("x",),)
    (tmp_path / "big.csv").write_text("a,b\n" + "x" * 200_000 + ",1\n")
    assert len(own.read_table_file(tmp_path / "big.csv").rows[0][0]) == 200_000
    (tmp_path / "latin.csv").write_bytes("a\nM\xfcller\n".encode("latin-1"))
    with pytest.raises(BadInput, match="UTF-8"):
        own.read_table_file(tmp_path / "latin.csv")
    (tmp_path / "no.parquet").write_text("not parquet")
    with pytest.raises(BadInput, match="Parquet"):
        own.read_table_file(tmp_path / "no.parquet")
    pq.write_table(pa.table({}), tmp_path / "none.parquet")
    assert own.read_table_file(tmp_path / "none.parquet").header == ()
