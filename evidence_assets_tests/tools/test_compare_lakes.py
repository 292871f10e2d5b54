"""Two lakes differ where their rows say different things, and not where only their ids do."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evidence_assets.lake.lineage import USED, edge
from evidence_assets.lake.store import Lake
from evidence_assets_tests.lake_rows import chain, chunk, citation, evidence, prediction, question

TOOL = Path(__file__).parents[2] / "tools" / "compare_lakes.py"
WHY = '{"aligned": [{"cost": 0.25}]}'


def compared(old: Lake, new: Lake, *options: str) -> tuple[int, dict[str, dict[str, Any]], str]:
    """Exit status, the differences by table, and what is printed for people."""
    command = [sys.executable, str(TOOL), str(old.root), str(new.root), "--show", "2", *options]
    printed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert printed.returncode in (0, 1), printed.stderr
    assert not printed.stderr, printed.stderr
    as_json = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    return printed.returncode, {d["table"]: d for d in json.loads(as_json.stdout)}, printed.stdout


def write(root: Path, version: str = "1") -> Lake:
    """A lake of one answered question; ``version`` enters every id that the code's version may enter."""
    lake = Lake.create(root)
    row_id, chain_id = f"e{version}", f"c{version}"
    lake.write("corpus/x/chunks", "0", {"chunks": [chunk(1, "Paris is in France.")]})
    lake.write(
        "corpus/x/embeddings",
        "0",
        {
            "chunk_embeddings": [{"chunk_id": "k1", "vector": [0.5, 0.25], "model_id": "m", "input_hash": version}],
        },
    )
    lake.write("questions/mcqa", "quiz|0", {"questions": [question(1)]})
    picked = evidence(1, 1, "Paris is in France.", evidence_id=row_id, content_hash=f"f{version}", why=WHY)
    lake.write(
        "evidence/mcqa/s",
        "quiz|0",
        {
            "evidence": [picked],
            "lineage_edges": [edge("evidence", row_id, USED, "question", "q1", version)],
        },
    )
    lake.write("chains/mcqa/s", "quiz|0", {"chains": [chain(1, "A", "So it is.", [row_id], chain_id=chain_id)]})
    lake.write("predictions/mcqa/s", "quiz|0", {"predictions": [prediction(1, "A", prediction_id=f"p{version}")]})
    lake.write("citations/mcqa/s", "quiz|0", {"citations": [citation(chain_id, row_id, "verified")]})
    return lake


@pytest.fixture
def old(tmp_path: Path) -> Lake:
    return write(tmp_path / "old")


def edited(lake: Lake, table: str, **columns: Any) -> Lake:
    """A copy of the lake in which the rows of one table have other values."""
    copy = Lake(shutil.copytree(lake.root, lake.root.parent / "new"))
    path = copy.files(table)[0]
    frame = pl.read_parquet(path)
    frame.with_columns(
        pl.lit(value, dtype=frame.schema[name]).alias(name) for name, value in columns.items()
    ).write_parquet(path)
    return copy


def test_a_lake_equals_itself_and_another_with_other_ids(old: Lake, tmp_path: Path) -> None:
    for other in (old, write(tmp_path / "other", "2")):
        status, tables, _ = compared(old, other)
        assert status == 0
        assert {name: (d["old"], d["equal"], d["changed"]) for name, d in tables.items()} == dict.fromkeys(
            (
                "questions",
                "chunks",
                "chunk_embeddings",
                "evidence",
                "chains",
                "predictions",
                "citations",
                "lineage_edges",
            ),
            (1, 1, 0),
        )


@pytest.mark.parametrize(
    ("table", "column", "before", "after"),
    [("predictions", "answer", "A", "B"), ("predictions", "error", None, "x"), ("evidence", "rank", 1, 2)],
)
def test_one_changed_value_is_named(old: Lake, table: str, column: str, before: Any, after: Any) -> None:
    status, tables, printed = compared(old, edited(old, table, **{column: after}))
    assert status == 1
    assert [name for name, d in tables.items() if d["changed"] or d["only_old"] or d["only_new"]] == [table]
    assert tables[table]["columns"] == {column: 1}
    shown = [value if isinstance(value, str) else json.dumps(value) for value in (before, after)]
    assert f"{table}, {table}/mcqa/s:" in printed
    assert f"{column}: {shown[0]} → {shown[1]}" in printed


def test_numbers_may_differ_within_the_tolerance_also_inside_json_and_vectors(old: Lake) -> None:
    new = edited(old, "evidence", score=1.001, why=WHY.replace("0.25", "0.26"))
    assert compared(old, new)[0] == 1
    status, tables, _ = compared(old, new, "--tolerance", "0.02")
    assert status == 0
    assert tables["evidence"]["largest"] == pytest.approx(0.01)
    shutil.rmtree(new.root)
    new = edited(old, "chunk_embeddings", vector=[0.5, 0.375])
    _, tables, _ = compared(old, new, "--table", "chunk_embeddings")
    assert list(tables) == ["chunk_embeddings"]
    assert (tables["chunk_embeddings"]["changed"], tables["chunk_embeddings"]["largest"]) == (1, 0.125)
