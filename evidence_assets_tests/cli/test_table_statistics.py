"""The queries of docs/reproduction.md for table 3.2 and figure 3.3, against plain loops over the stored rows."""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from pathlib import Path

import polars as pl

from evidence_assets.lake.store import Lake
from evidence_assets_tests.cli.test_demo import invoke
from evidence_assets_tests.conftest import World

PAGE = Path(__file__).parents[2] / "docs" / "reproduction.md"


def test_the_documented_queries_count_tables_and_labels(made_world: World) -> None:
    queries = [sql for sql in re.findall(r'^evidence query "(.+)"$', PAGE.read_text(), re.M) if "verification" in sql]
    sizes, labels = (json.loads(invoke(made_world, "query", sql, "--format", "json").stdout) for sql in queries)
    lake = Lake(made_world.root / "data_lake")
    claims = lake.read("questions", "questions/table").filter(pl.col("task") == "verification").to_dicts()
    tables = {row["table_id"]: row for row in lake.read("tables").to_dicts()}
    assert claims
    for row in sizes:
        tables_of_claims = [tables[claim["table_id"]] for claim in claims if claim["benchmark"] == row["benchmark"]]
        columns, rows = (
            [len(table["header"]) for table in tables_of_claims],
            [table["n_rows"] for table in tables_of_claims],
        )
        assert row["claims"] == len(tables_of_claims)
        assert (row["max_column"], row["max_row"]) == (max(columns), max(rows))
        assert (row["min_column"], row["min_row"]) == (min(columns), min(rows))
        assert row["mode_column"] in statistics.multimode(columns) and row["mode_row"] in statistics.multimode(rows)
        assert abs(row["average_column"] - statistics.mean(columns)) < 0.006
        assert abs(row["average_row"] - statistics.mean(rows)) < 0.006
    counts = Counter((claim["benchmark"], claim["gold"][0]) for claim in claims)
    assert {(row["benchmark"], row["label"]): row["claims"] for row in labels} == counts
