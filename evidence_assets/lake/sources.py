"""Sources that no table lists, as rows tell of them themselves: documents, files and cells of tables.

A chunk names its document and its file, an imported triple and an edge of a knowledge base their file, evidence from
a table its cell. They are told from these columns when somebody asks, so that a lake made before has them, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from evidence_assets.lake.catalogue import need, quoted, rows_in
from evidence_assets.lake.places import Places, among

Connection = duckdb.DuckDBPyConnection

_CORPUS = "regexp_extract(asset, '^corpus/(.+)/chunks$', 1) || ':' || "
_DOCUMENT, _CELL = f"{_CORPUS}doc_id", "source_id || ':' || locator"


@dataclass(frozen=True)
class Implied:
    """Rows of one kind that came from a source: SQL over a table for child, parent and the parent's version."""

    child_kind: str
    parent_kind: str
    table: str
    child: str
    parent: str
    version: str = "''"
    where: str = "true"


IMPLIED = (
    Implied("chunk", "document", "chunks", "chunk_id", _DOCUMENT, "source_version"),
    Implied("document", "file", "chunks", _DOCUMENT, f"{_CORPUS}source"),
    Implied(
        "triple", "file", "triples", "triple_id", "regexp_replace(source, ':[0-9]+$', '')", where="origin = 'import'"
    ),
    Implied("edge", "file", "kg_edges", "edge_id", "unnest(sources)", where="len(triple_ids) = 0"),
    Implied("node", "file", "kg_nodes", "node_id", "source", where="source IS NOT NULL"),
    Implied("evidence", "cell", "evidence", "evidence_id", _CELL, where="source_kind = 'table' AND locator <> ''"),
    Implied("cell", "table", "evidence", _CELL, "source_id", where="source_kind = 'table' AND locator <> ''"),
)
_CONTENTS = {
    "document": ("chunks", _DOCUMENT, {"title": "any_value(title)", "chunks": "count(*)"}),
    "cell": ("evidence", _CELL, {"text": "any_value(text)"}),
}
_ENDS = {("chunks", "document"): "doc_id", ("chunks", "file"): "source"}
"""The column that such an id ends with, behind its corpus: rows are looked for by it, which leaves most of a large
corpus unread."""


def implied_edges(
    connection: Connection, kind: str, ids: Sequence[str], relation: str, near: Places | None, *, upwards: bool
) -> list[tuple[Any, ...]]:
    """Edges from these rows to their sources, or from these sources to rows: the columns that stored edges are read
    with.

    ``near`` is the partition of the question that the rows belong to, where it is known.
    """
    rows = []
    for rule in IMPLIED:
        if kind != (rule.child_kind if upwards else rule.parent_kind):
            continue
        here, there, to_kind = (
            ("child", "parent", rule.parent_kind) if upwards else ("parent", "child", rule.child_kind)
        )
        condition, parameters = among(here, sorted(ids))
        rows += connection.execute(
            f"SELECT DISTINCT $kind, {here}, '{relation}', '{to_kind}', {there}, version, NULL FROM "
            f"(SELECT {rule.child} AS child, {rule.parent} AS parent, {rule.version} AS version "
            f"FROM {_from(connection, rule.table, kind, ids, near)} WHERE {rule.where}) WHERE {condition}",
            parameters | {"kind": kind},
        ).fetchall()
    return rows


def sources_called(connection: Connection, low: str, high: str) -> list[tuple[str, str]]:
    """Kind and id of the sources whose id lies between these texts, 50 at most."""
    chosen = []
    for rule in IMPLIED[:-1]:
        need(connection, rule.table)
        chosen.append(
            f"SELECT '{rule.parent_kind}', id FROM (SELECT {rule.parent} AS id FROM {rule.table} WHERE {rule.where}) "
            "WHERE id >= $low AND id < $high"
        )
    sql = f"SELECT DISTINCT * FROM ({' UNION ALL '.join(chosen)}) LIMIT 50"
    return connection.execute(sql, {"low": low, "high": high}).fetchall()


def contents_of(
    connection: Connection, kind: str, ids: Sequence[str], near: Places | None
) -> dict[str, dict[str, Any]]:
    """What people want to see of these sources."""
    if kind not in _CONTENTS:
        return {}
    table, identifier, shown = _CONTENTS[kind]
    source = _from(connection, table, kind, ids, near)
    condition, parameters = among("id", ids)
    sql = f"SELECT {identifier} AS id, {', '.join(shown.values())} FROM {source} WHERE {condition} GROUP BY 1"
    rows = connection.execute(sql, parameters).fetchall()
    return {str(row[0]): dict(zip(shown, row[1:], strict=True)) for row in rows}


def _from(connection: Connection, table: str, kind: str, ids: Sequence[str], near: Places | None) -> str:
    """What stands behind FROM to find rows of a table by ids of this kind."""
    if near is not None and table == "evidence":
        return rows_in(table, near.rows("evidence"))
    need(connection, table)
    if (column := _ENDS.get((table, kind))) is None:
        return table
    ends = ", ".join(quoted(one.partition(":")[2]) for one in ids)
    return f"(SELECT * FROM {table} WHERE {column} IN ({ends}))"
