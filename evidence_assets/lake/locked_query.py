"""SQL that someone else wrote, run so that it can only read the lake's tables.

Belongs here: what a statement may be and how much it may take. ``catalogue.connect`` keeps it from other files,
extensions and settings; here it is kept to one SELECT without functions that act, because DuckDB may write where it
may read.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb

from evidence_assets.lake.errors import BadInput

MOST_ROWS = 1_000_000
_GRACE = 5.0
"""Seconds after which a query that does not heed its interruption ends with the process."""

TABLE_FUNCTIONS = frozenset(
    {"duckdb_columns", "duckdb_functions", "duckdb_views", "generate_series", "json_each", "json_tree"}
    | {"pragma_table_info", "range", "summary", "unnest"}
)
"""Those that only read what is in the lake; others log to a file, read one, scan memory or run SQL from a text."""


def ask(
    connection: duckdb.DuckDBPyConnection, sql: str, seconds: float = 60
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Names and rows of one SELECT, DESCRIBE, SUMMARIZE or SHOW on a connection of ``catalogue.connect``.

    Raises BadInput where it is anything else, or takes more than ``seconds`` or a million rows.
    """
    _refuse_all_but_reading(connection, sql)
    with _within(connection, seconds):
        cursor = connection.execute(sql)
        rows = cursor.fetchmany(MOST_ROWS + 1)
    if len(rows) > MOST_ROWS:
        raise BadInput(f"the query gives more than {MOST_ROWS:,} rows; add a LIMIT, or aggregate")
    return [description[0] for description in cursor.description or []], rows


def _refuse_all_but_reading(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in sql):
        raise BadInput("the query holds bytes that are no UTF-8 text")
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
    stack = [node]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if node.get("type") == "TABLE_FUNCTION":
                yield str(node["function"]["function_name"]).lower()
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


@contextmanager
def _within(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    done = threading.Event()
    late = threading.Event()

    def watch() -> None:
        if done.wait(seconds):
            return
        late.set()
        connection.interrupt()
        if not done.wait(_GRACE):
            # DuckDB heeds an interruption between vectors of rows; one row can be made to take for ever.
            print(f"evidence: the query took more than {seconds:g} s and did not end when told", file=sys.stderr)
            sys.stderr.flush()
            os._exit(1)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except duckdb.InterruptException as error:
        if late.is_set():
            raise BadInput(
                f"the query took more than {seconds:g} s; ask for less, or allow more with --seconds"
            ) from error
        raise
    finally:
        done.set()
        watcher.join()
