"""SQL over the lake by DuckDB: one view per table, created for each connection, so that a lake can move.

A connection reads only the tables' files. DuckDB may write where it may read, so users' SQL goes through
`run_read_only_query`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.mirror import fetch_folder, local_root
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake

if TYPE_CHECKING:
    import polars as pl

LAKE_VARIABLE = "EVIDENCE_LAKE"
DECLARATIONS_FOLDER = "declarations"
"""Folder of YAML declarations, in a lake and in a project."""
ROOT_VARIABLE = "lake_root"
"""DuckDB variable of every connection: the folder whose files its views read."""
QUERY_MEMORY_LIMIT = "2GB"
"""Memory limit of users' queries."""
MAX_QUERY_ROWS = 1_000_000
TABLE_FUNCTIONS = frozenset(
    {"duckdb_columns", "duckdb_functions", "duckdb_views", "generate_series", "json_each", "json_tree"}
    | {"pragma_table_info", "range", "summary", "unnest"}
)
"""Table functions that users' queries may call; others access files or memory, or run SQL from a string."""


def project_folder() -> Path:
    """The nearest folder upwards that has a lake or was made by ``evidence init``; else the current folder."""
    current = Path.cwd()
    for folder in (current, *current.parents):
        lake = folder / "data_lake"
        if (lake / "format.json").exists() or (lake.is_dir() and (folder / DECLARATIONS_FOLDER).is_dir()):
            return folder
    return current


def lake_location() -> str:
    """Path or address of the lake: EVIDENCE_LAKE, or ``data_lake`` in the project's folder."""
    return os.environ.get(LAKE_VARIABLE) or str(project_folder() / "data_lake")


def find_lake() -> Path:
    """Folder of the lake; for an address that of its local copy."""
    return local_root(lake_location())


def sql_literal(text: str) -> str:
    """Text as a quoted SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def connect(
    root: Path | str | None = None, *, lazy: bool = False, memory: str | None = QUERY_MEMORY_LIMIT
) -> duckdb.DuckDBPyConnection:
    """A connection with a view for every table of the lake; a table without files is an empty view.

    Each view has the table's columns and, last, ``asset``: the asset that a row belongs to.

    ``lazy``: `create_views` creates views on demand, because creating one opens every file of its table.
    ``memory``: Memory limit of a query, such as ``2GB``; above it the query fails. None uses DuckDB's default.
    """
    folder = Lake(find_lake() if root is None else root).root.resolve()
    connection = duckdb.connect(config={"allow_persistent_secrets": "false"})
    folders = ", ".join(sql_literal(f"{folder.as_posix()}/{name}/") for name in TABLES)
    limit = "" if memory is None else f"SET memory_limit = {sql_literal(memory)}; SET temp_directory = '';"
    connection.execute(
        f"""
        SET VARIABLE {ROOT_VARIABLE} = {sql_literal(str(folder))};
        {limit}
        SET autoinstall_known_extensions = false; SET autoload_known_extensions = false;
        SET allow_community_extensions = false;
        SET python_enable_replacements = false; SET parquet_metadata_cache = true;
        SET allowed_directories = [{folders}]; SET enable_external_access = false;
        SET lock_configuration = true
        """
    )
    if not lazy:
        create_views(connection, *TABLES)
    return connection


def lake_root(connection: duckdb.DuckDBPyConnection) -> Path:
    """The folder that the views of a connection read, which `connect` opened."""
    [(value,)] = connection.execute(f"SELECT getvariable('{ROOT_VARIABLE}')").fetchall()
    return Path(value)


def create_views(connection: duckdb.DuckDBPyConnection, *tables: str) -> None:
    """Create the views of these tables that a ``lazy`` connection does not have yet."""
    root = lake_root(connection)
    existing = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    for name in tables:
        if (name,) not in existing:
            connection.execute(f'CREATE VIEW "{name}" AS {view_sql(root, name)}')


def view_sql(root: Path, table: str) -> str:
    """SQL that selects the rows of a table of the lake in this folder."""
    # Names with a leading dot are temporary files; the pattern does not match them.
    folder = fetch_folder(root / table).resolve()
    files = [folder / "**/[!.]*.parquet"] if next(folder.rglob("*.parquet"), None) is not None else []
    columns = [f'"{column}"' for column in TABLES[table].names]
    if "asset" not in TABLES[table].names:
        columns.append("replace(regexp_extract(filename, 'asset=([^/]*)', 1), '.', '/') AS asset")
    return f"SELECT {', '.join(columns)} FROM {scan_sql(table, files)}"


def scan_sql(table: str, files: Sequence[Path | str]) -> str:
    """SQL that selects a table's rows from these files, with all declared columns and ``filename``.

    A union with a typed empty source fills columns that a file lacks with nulls; filters are still pushed down.
    """
    nulls = [f'NULL::{_sql_type(field.type)} AS "{field.name}"' for field in TABLES[table].arrow]
    typed_columns = f"SELECT {', '.join(nulls)}, NULL::VARCHAR AS filename WHERE false"
    if not files:
        return f"({typed_columns})"
    paths = ", ".join(sql_literal(str(path)) for path in files)
    source = f"read_parquet([{paths}], filename = true, union_by_name = true, hive_partitioning = false)"
    return f"(SELECT * FROM {source} UNION ALL BY NAME {typed_columns})"


def _sql_type(type_: pa.DataType) -> str:
    """The DuckDB type of a column; both libraries have the same names for most types."""
    if pa.types.is_list(type_):
        return _sql_type(type_.value_type) + "[]"
    if pa.types.is_struct(type_):
        return "STRUCT(" + ", ".join(f'"{field.name}" {_sql_type(field.type)}' for field in type_) + ")"
    return "FLOAT" if type_ == pa.float16() else str(type_)


def table(name: str, root: Path | str | None = None) -> pl.DataFrame:
    """All rows of one table, such as ``predictions``, as a Polars frame; ``root`` defaults to `find_lake`."""
    if name not in TABLES:
        raise KeyError(f"unknown table {name!r}; the tables are {', '.join(TABLES)}")
    import polars as pl

    with connect(root, lazy=True, memory=None) as connection:
        create_views(connection, name)
        return pl.DataFrame(connection.sql(f'SELECT * FROM "{name}"').to_arrow_table())


def run_read_only_query(
    connection: duckdb.DuckDBPyConnection, sql: str, seconds: float = 60
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows of a user's SELECT, DESCRIBE, SUMMARIZE or SHOW, on a connection opened by `connect`.

    Raises BadInput for any other statement, and if it takes longer than ``seconds`` or returns over a million rows.
    """
    _check_read_only(connection, sql)
    start = time.monotonic()
    timer = Timer(seconds, connection.interrupt)
    timer.start()
    try:
        cursor = connection.execute(sql)
        rows = cursor.fetchmany(MAX_QUERY_ROWS + 1)
    except duckdb.InterruptException as error:
        if time.monotonic() - start < seconds:
            raise
        raise BadInput(f"the query took more than {seconds:g} s; select less") from error
    finally:
        timer.cancel()
    if len(rows) > MAX_QUERY_ROWS:
        raise BadInput(f"the query returns more than {MAX_QUERY_ROWS:,} rows; add a LIMIT, or aggregate")
    return [description[0] for description in cursor.description or []], rows


def _check_read_only(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    [(text,)] = connection.execute("SELECT json_serialize_sql($sql)", {"sql": sql}).fetchall()
    parsed = json.loads(text)
    if parsed["error"]:
        if parsed["error_type"] == "parser":
            raise BadInput(parsed["error_message"])
        raise BadInput("a query must be one SELECT, DESCRIBE, SUMMARIZE or SHOW")
    if len(parsed["statements"]) != 1:
        raise BadInput(f"a query must be one statement, not {len(parsed['statements'])}: run them one by one")
    for function in _table_functions(parsed):
        if function not in TABLE_FUNCTIONS:
            raise BadInput(f"a query must not call {function}(), which can read other files")


def _table_functions(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if node.get("type") == "TABLE_FUNCTION":
            yield str(node["function"]["function_name"]).lower()
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from _table_functions(child)
