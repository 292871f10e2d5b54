"""DuckDB over the lake: one view a table, made when a connection opens, so that the lake can be moved.

A connection lives in memory and only reads Parquet files: it locks nobody out and nobody locks it out. It is locked
itself: it opens files below the tables' folders alone, loads no extension and keeps its settings. That DuckDB could
still write into those folders is why SQL that someone else wrote goes through ``locked_query``.

A lake in an object store is queried through this machine's copy of its tables.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa

from evidence_assets.lake.fetching import fetched_below, local_root
from evidence_assets.lake.schemas import TABLES, TableSchema
from evidence_assets.lake.store import Lake

LAKE_VARIABLE = "EVIDENCE_LAKE"
ROOT_VARIABLE = "lake_root"
"""DuckDB variable of every connection: the folder whose files its views read."""
MEMORY = "2GB"
"""What a query that someone asks may take."""


def find_lake() -> Path:
    """Folder of the lake: named by EVIDENCE_LAKE, else the nearest ``data_lake`` in or above this folder, else the
    one beside the package. Of a lake at an address it is what this machine has of it."""
    named = os.environ.get(LAKE_VARIABLE)
    if named:
        return local_root(named)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "data_lake" / "format.json").exists():
            return folder / "data_lake"
    return Path(__file__).resolve().parents[2] / "data_lake"


def quoted(text: str) -> str:
    """Text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def connect(
    root: Path | str | None = None, *, lazily: bool = False, unsafe: bool = False, memory: str | None = MEMORY
) -> duckdb.DuckDBPyConnection:
    """A connection with a view for every table of the lake; a table that nothing has written is an empty view.

    Each view has the table's columns and, last, ``asset``: which asset a row belongs to. Making a view opens every
    file of its table; with ``lazily`` that waits until ``need`` asks for the table, because following one row takes
    few of them.

    ``unsafe``: DuckDB whole: any file, any extension, any setting.
    ``memory``: What a query may take, such as ``2GB``; beyond it the query fails, because nothing is written to make
        room. None leaves both to DuckDB.
    """
    lake = Lake(find_lake() if root is None else root)
    connection = duckdb.connect(config={"allow_persistent_secrets": "false"} if not unsafe else {})
    connection.execute(f"SET VARIABLE {ROOT_VARIABLE} = {quoted(str(lake.root.resolve()))}")
    if not unsafe:
        _lock(connection, lake.root.resolve(), memory)
    if not lazily:
        need(connection, *TABLES)
    return connection


def _lock(connection: duckdb.DuckDBPyConnection, root: Path, memory: str | None) -> None:
    folders = ", ".join(quoted(f"{root.as_posix()}/{name}/") for name in TABLES)
    limit = "" if memory is None else f"SET memory_limit = {quoted(memory)}; SET temp_directory = '';"
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


def root_of(connection: duckdb.DuckDBPyConnection) -> Path | None:
    """The folder that the connection's views read; None for a connection that ``connect`` did not make."""
    [(value,)] = connection.execute(f"SELECT getvariable('{ROOT_VARIABLE}')").fetchall()
    return None if value is None else Path(value)


def need(connection: duckdb.DuckDBPyConnection, *tables: str) -> None:
    """Make the views of these tables that a connection made ``lazily`` lacks."""
    root = root_of(connection)
    if root is None:
        return
    known = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    for name in tables:
        if (name,) not in known:
            # Names beginning with a dot are files being written; the pattern does not match them.
            folder = fetched_below(root / name).resolve()
            files = [folder / "**/[!.]*.parquet"] if next(folder.rglob("*.parquet"), None) is not None else []
            _make_view(connection, TABLES[name], files)


def _make_view(connection: duckdb.DuckDBPyConnection, schema: TableSchema, files: Sequence[Path]) -> None:
    owner = (
        "" if "asset" in schema.names else ", replace(regexp_extract(filename, 'asset=([^/]*)', 1), '.', '/') AS asset"
    )
    columns = ", ".join(f'"{name}"' for name in schema.names)
    connection.execute(f'CREATE VIEW "{schema.name}" AS SELECT {columns}{owner} FROM {rows_in(schema.name, files)}')


def rows_in(table: str, files: Sequence[Path | str]) -> str:
    """Rows of a table in these files, or in the files of a pattern, as what stands behind FROM.

    They have every declared column, empty where a file was written before it was declared, and ``filename``: a typed
    source without rows is united with the files, through which filters still reach them.
    """
    schema = TABLES[table].arrow
    nulls = [f'NULL::{_sql_type(field.type)} AS "{field.name}"' for field in schema] + ["NULL::VARCHAR AS filename"]
    typed_columns = f"SELECT {', '.join(nulls)} WHERE false"
    if not files:
        return f"({typed_columns})"
    listed = ", ".join(quoted(str(path)) for path in files)
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
    """All rows of one table as a Polars frame: the door for notebooks.

    ``name``: Such as ``predictions``; ``evidence query "SHOW TABLES"`` lists them.
    ``root``: Folder of the lake; found as ``find_lake`` says where it is not given.
    """
    if name not in TABLES:
        raise KeyError(f"there is no table {name!r}; the tables are {', '.join(TABLES)}")
    with connect(root, lazily=True, memory=None) as connection:
        need(connection, name)
        return pl.DataFrame(connection.sql(f'SELECT * FROM "{name}"').to_arrow_table())
