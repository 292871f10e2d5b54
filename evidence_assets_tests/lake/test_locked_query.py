"""A query only reads the lake: anything else is rejected with a message and without side effects."""

import re
import time
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from evidence_assets.cli import app
from evidence_assets.lake import connect
from evidence_assets.lake.catalogue import QUERY_MEMORY_LIMIT, run_read_only_query
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.lake.test_lineage import triple
from evidence_assets_tests.lake.test_store import citation

ATTEMPTS = [
    "COPY citations TO '{lake}/citations/new.parquet'",
    "COPY citations TO '{elsewhere}/new.csv'",
    "EXPLAIN ANALYZE COPY citations TO '{lake}/citations/new.parquet'",
    "ATTACH '{lake}/citations/new.db'",
    "CREATE OR REPLACE VIEW citations AS SELECT 1",
    "CREATE PERSISTENT SECRET s (TYPE http)",
    "INSERT INTO citations VALUES (1)",
    "SELECT * FROM '{elsewhere}/secret.parquet'",
    "SELECT * FROM '{lake}/citations/../../secret.parquet'",
    "SELECT * FROM read_text('{elsewhere}/secret.csv')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM parquet_metadata('{elsewhere}/secret.parquet')",
    "SELECT * FROM read_parquet('https://example.org/x.parquet')",
    "SELECT * FROM glob('{elsewhere}/*')",
    "WITH f AS (SELECT * FROM glob('/*')) SELECT (SELECT count(*) FROM f)",
    "DESCRIBE (SELECT * FROM read_text('{elsewhere}/secret.csv'))",
    "SELECT * FROM query('SELECT * FROM glob(''/*'')')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM glob(''/*'')'))",
    "SELECT * FROM enable_logging(storage = 'file', storage_path = '{elsewhere}/log')",
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "INSTALL httpfs",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "CALL checkpoint()",
    "SELECT 1; COPY citations TO '{lake}/citations/new.parquet'",
    "SELECT * FROM range(1000001)",
    "",
]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.create(tmp_path / "a lake's" / "data_lake")
    lake.write("citations/x", "", {"citations": [citation(1)]})
    (tmp_path / "secret.csv").write_text("word\nsesame\n")
    duckdb.sql("SELECT 'sesame' AS word").write_parquet(str(tmp_path / "secret.parquet"))
    return lake


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_anything_but_reading_the_lake_is_rejected(
    lake: Lake, tmp_path: Path, attempt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = files(tmp_path)
    sql = attempt.format(lake=str(lake.root).replace("'", "''"), elsewhere=tmp_path)
    with connect(lake.root) as connection, pytest.raises((BadInput, duckdb.Error)) as failure:
        run_read_only_query(connection, sql, seconds=20)
    assert not isinstance(failure.value, duckdb.InternalException)
    assert "sesame" not in str(failure.value)
    assert files(tmp_path) == before


@pytest.mark.parametrize("attempt", [a for a in ATTEMPTS if re.search("secret[.]|SET|httpfs|glob", a)])
def test_the_connection_itself_rejects_other_files_and_settings(lake: Lake, tmp_path: Path, attempt: str) -> None:
    sql = attempt.format(lake=str(lake.root).replace("'", "''"), elsewhere=tmp_path)
    with connect(lake.root) as connection, pytest.raises(duckdb.Error):
        connection.execute(sql).fetchall()


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT count(*) FROM citations", [(1,)]),
        ("FROM range(2);", [(0,), (1,)]),
        (
            "WITH c AS (SELECT asset FROM citations) SELECT * FROM c UNION ALL SELECT 'y' ORDER BY 1",
            [("citations/x",), ("y",)],
        ),
        ("SELECT unnest(['a', 'b'])", [("a",), ("b",)]),
    ],
)
def test_a_read_only_query_returns_rows(lake: Lake, sql: str, rows: list[tuple[object, ...]]) -> None:
    with connect(lake.root) as connection:
        assert run_read_only_query(connection, sql)[1] == rows


def test_a_query_stops_at_its_timeout(lake: Lake) -> None:
    start = time.monotonic()
    with connect(lake.root) as connection, pytest.raises(BadInput, match=r"more than 0.5 s"):
        run_read_only_query(
            connection, "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b", seconds=0.5
        )
    assert time.monotonic() - start < 10


def test_memory_is_limited_without_spilling_to_disk(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = files(tmp_path)
    with connect(lake.root, memory="64MB") as connection:
        with pytest.raises(duckdb.OutOfMemoryException):
            run_read_only_query(
                connection, "SELECT count(*) FROM (SELECT DISTINCT hash(range)::VARCHAR FROM range(20000000))"
            )
        assert run_read_only_query(connection, "SELECT current_setting('temp_directory')")[1] == [("",)]
    assert files(tmp_path) == before
    with connect(lake.root) as connection:
        [(limit,)] = run_read_only_query(connection, "SELECT current_setting('memory_limit')")[1]
    assert QUERY_MEMORY_LIMIT == "2GB" and limit == "1.8 GiB"


def test_control_characters_never_reach_the_terminal(lake: Lake) -> None:
    arguments = ["query", "SELECT chr(27) || '[2J[bold]' AS text", "--lake", str(lake.root)]
    output = CliRunner().invoke(app, arguments).stdout
    assert "\x1b" not in output and "[2J[bold]" in output
    lake.write("triples", "", {"triples": [triple(0) | {"head": "\x1b[2J[bold]"}]})
    for command, stream in (("trace triple0", "stdout"), ("query SELECT '\x1b[2J[bold]' FROM nowhere", "stderr")):
        arguments = CliRunner().invoke(app, [*command.split(maxsplit=1), "--lake", str(lake.root)])
        text = getattr(arguments, stream)
        assert "\x1b" not in text and "[2J[bold]" in text, command
