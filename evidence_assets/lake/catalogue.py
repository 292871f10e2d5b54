"""DuckDB over the lake: one view a table, made when a connection opens, so that the lake can be moved.

A connection reads the tables' files alone; DuckDB may write where it may read, hence `read_only_query` for others' SQL.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Timer
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.mirror import fetch_folder, local_root
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake

LAKE_VARIABLE = "EVIDENCE_LAKE"
ROOT_VARIABLE = "lake_root"
"""DuckDB variable of every connection: the folder whose files its views read."""
QUERY_MEMORY_LIMIT = "2GB"
"""What a query that someone asks may take."""
MAX_QUERY_ROWS = 1_000_000
TABLE_FUNCTIONS = frozenset(
    {"duckdb_columns", "duckdb_functions", "duckdb_views", "generate_series", "json_each", "json_tree"}
    | {"pragma_table_info", "range", "summary", "unnest"}
)
"""Those that only read what is in the lake; others log to a file, read one, scan memory or run SQL from a text."""


def find_lake() -> Path:
    """Folder of the lake: EVIDENCE_LAKE, or ``data_lake`` in or above this folder, or beside the package."""
    named = os.environ.get(LAKE_VARIABLE)
    if named:
        return local_root(named)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "data_lake" / "format.json").exists():
            return folder / "data_lake"
    return Path(__file__).resolve().parents[2] / "data_lake"


def sql_literal(text: str) -> str:
    """Text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def connect(
    root: Path | str | None = None, *, lazy: bool = False, unsafe: bool = False, memory: str | None = QUERY_MEMORY_LIMIT
) -> duckdb.DuckDBPyConnection:
    """A connection with a view for every table of the lake; a table that nothing has written is an empty view.

    Each view has the table's columns and, last, ``asset``: which asset a row belongs to.

    ``lazy``: Views are made when ``need`` asks for them; making one opens every file of its table.
    ``unsafe``: DuckDB whole: any file, any extension, any setting.
    ``memory``: What a query may take, such as ``2GB``; beyond it the query fails. None leaves it to DuckDB.
    """
    lake = Lake(find_lake() if root is None else root)
    connection = duckdb.connect(config={"allow_persistent_secrets": "false"} if not unsafe else {})
    connection.execute(f"SET VARIABLE {ROOT_VARIABLE} = {sql_literal(str(lake.root.resolve()))}")
    if not unsafe:
        _lock(connection, lake.root.resolve(), memory)
    if not lazy:
        create_views(connection, *TABLES)
    return connection


def _lock(connection: duckdb.DuckDBPyConnection, root: Path, memory: str | None) -> None:
    folders = ", ".join(sql_literal(f"{root.as_posix()}/{name}/") for name in TABLES)
    limit = "" if memory is None else f"SET memory_limit = {sql_literal(memory)}; SET temp_directory = '';"
    connection.execute(
        f"""
        {limit}
        SET autoinstall_known_extensions = false; SET autoload_known_extensions = false;
        SET allow_community_extensions = false;
        SET python_enable_replacements = false; SET parquet_metadata_cache = true;
        SET allowed_directories = [{folders}]; SET enable_external_access = false;
        SET lock_configuration = true
        """
    )


def lake_root(connection: duckdb.DuckDBPyConnection) -> Path | None:
    """The folder that the connection's views read; None for a connection that ``connect`` did not make."""
    [(value,)] = connection.execute(f"SELECT getvariable('{ROOT_VARIABLE}')").fetchall()
    return None if value is None else Path(value)


def create_views(connection: duckdb.DuckDBPyConnection, *tables: str) -> None:
    """Make the views of these tables that a connection made ``lazy`` lacks."""
    root = lake_root(connection)
    if root is None:
        return
    known = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    for name in tables:
        if (name,) not in known:
            # Names beginning with a dot are files being written; the pattern does not match them.
            folder = fetch_folder(root / name).resolve()
            files = [folder / "**/[!.]*.parquet"] if next(folder.rglob("*.parquet"), None) is not None else []
            columns = [f'"{column}"' for column in TABLES[name].names]
            if "asset" not in TABLES[name].names:
                columns.append("replace(regexp_extract(filename, 'asset=([^/]*)', 1), '.', '/') AS asset")
            connection.execute(f'CREATE VIEW "{name}" AS SELECT {", ".join(columns)} FROM {scan_sql(name, files)}')


def scan_sql(table: str, files: Sequence[Path | str]) -> str:
    """SQL for the rows of a table in these files, with every declared column, empty where a file lacks it, and
    ``filename``: united with a typed source without rows, through which filters still reach the files."""
    nulls = [f'NULL::{_sql_type(field.type)} AS "{field.name}"' for field in TABLES[table].arrow]
    typed_columns = f"SELECT {', '.join(nulls)}, NULL::VARCHAR AS filename WHERE false"
    if not files:
        return f"({typed_columns})"
    listed = ", ".join(sql_literal(str(path)) for path in files)
    stored = f"read_parquet([{listed}], filename = true, union_by_name = true, hive_partitioning = false)"
    return f"(SELECT * FROM {stored} UNION ALL BY NAME {typed_columns})"


_SQL_TYPES = {
    pa.string(): "VARCHAR",
    pa.int32(): "INTEGER",
    pa.float16(): "FLOAT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
}


def _sql_type(type_: pa.DataType) -> str:
    if pa.types.is_list(type_):
        return _sql_type(type_.value_type) + "[]"
    if pa.types.is_struct(type_):
        return "STRUCT(" + ", ".join(f'"{part.name}" {_sql_type(part.type)}' for part in type_) + ")"
    return _SQL_TYPES[type_]


def table(name: str, root: Path | str | None = None) -> pl.DataFrame:
    """All rows of one table, such as ``predictions``, as a Polars frame; ``root`` as `find_lake` finds it."""
    if name not in TABLES:
        raise KeyError(f"there is no table {name!r}; the tables are {', '.join(TABLES)}")
    with connect(root, lazy=True, memory=None) as connection:
        create_views(connection, name)
        return pl.DataFrame(connection.sql(f'SELECT * FROM "{name}"').to_arrow_table())


def run_read_only_query(
    connection: duckdb.DuckDBPyConnection, sql: str, seconds: float = 60
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Names and rows of one SELECT, DESCRIBE, SUMMARIZE or SHOW of someone else, on a connection of `connect`.

    Raises BadInput where it is anything else, or takes more than ``seconds`` or a million rows.
    """
    _refuse_all_but_reading(connection, sql)
    started, timer = time.monotonic(), Timer(seconds, connection.interrupt)
    timer.start()
    try:
        cursor = connection.execute(sql)
        rows = cursor.fetchmany(MAX_QUERY_ROWS + 1)
    except duckdb.InterruptException as error:
        if time.monotonic() - started < seconds:
            raise
        message = f"the query took more than {seconds:g} s; ask for less, or allow more with --seconds"
        raise BadInput(message) from error
    finally:
        timer.cancel()
    if len(rows) > MAX_QUERY_ROWS:
        raise BadInput(f"the query gives more than {MAX_QUERY_ROWS:,} rows; add a LIMIT, or aggregate")
    return [description[0] for description in cursor.description or []], rows


def _refuse_all_but_reading(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    [(text,)] = connection.execute("SELECT json_serialize_sql($sql)", {"sql": sql}).fetchall()
    parsed = json.loads(text)
    if parsed["error"]:
        if parsed["error_type"] == "parser":
            raise BadInput(parsed["error_message"])
        raise BadInput("a query only reads: one SELECT, DESCRIBE, SUMMARIZE or SHOW; --unsafe allows all of DuckDB")
    if len(parsed["statements"]) != 1:
        raise BadInput(f"a query is one statement, not {len(parsed['statements'])}")
    for function in _table_functions(parsed):
        if function not in TABLE_FUNCTIONS:
            raise BadInput(f"a query may not call {function}(), which does more than read the lake's tables")


def _table_functions(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if node.get("type") == "TABLE_FUNCTION":
            yield str(node["function"]["function_name"]).lower()
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from _table_functions(part)
