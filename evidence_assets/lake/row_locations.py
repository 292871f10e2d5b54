"""Files with a row and its lineage, so that tracing an answer opens a few files, not the lake.

Evidence, chains, predictions and citations are in the partition of their question. Lineage mirrors the rows' paths:
``lineage_edges/asset=A/b/0.parquet`` has the lineage of ``predictions/asset=A/b/0.parquet``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from evidence_assets.lake.catalogue import create_views, lake_root, scan_sql, sql_literal
from evidence_assets.lake.mirror import child_names, fetch_folder
from evidence_assets.lake.schemas import KINDS, TABLES

Connection = duckdb.DuckDBPyConnection

QUESTION_KINDS = ("prediction", "chain", "evidence", "citation")
"""Kinds of rows that are stored in the partition of their question."""
LAST_CHARACTER = "\U0010ffff"
"""The last code point: strings with the prefix ``x`` are at least ``x`` and less than ``x + LAST_CHARACTER``."""


@dataclass(frozen=True)
class PartitionFiles:
    """The files of one partition of questions, such as ``obqa/0.parquet`` below each asset's folder."""

    root: Path
    partition: str

    def rows(self, kind: str) -> list[Path]:
        """Files with rows of this kind in this partition, of all assets."""
        folder = fetch_folder(self.root / KINDS[kind].name, lambda name: name.endswith(f"/{self.partition}"))
        return sorted(folder.glob(f"asset=*/{self.partition}"))

    def lineage(self, kind: str) -> list[Path]:
        """Lineage files of a kind of rows: of this partition, or (other kinds) of assets without questions."""
        folder = self.root / "lineage_edges"
        if kind in QUESTION_KINDS:
            # The asset that checks citations writes their lineage.
            citations = self.rows("citation") if kind in ("chain", "prediction") else []
            files = [Path(*path.relative_to(self.root).parts[1:]) for path in [*self.rows(kind), *citations]]
            names = {f"{folder.name}/{file.as_posix()}" for file in files}
            fetch_folder(folder, names.__contains__)
            return [folder / file for file in files if (folder / file).exists()]
        of_questions = {name for kind in QUESTION_KINDS for name in child_names(self.root / KINDS[kind].name)}
        others = [fetch_folder(folder / name) for name in child_names(folder) if name not in of_questions]
        return sorted(path for folder in others for path in folder.rglob("[!.]*.parquet"))


def find_question_row(connection: Connection, identifier: str) -> tuple[str, str, PartitionFiles] | None:
    """Kind, id and partition files of a question's row, by its full id; Bloom filters prune files."""
    root = lake_root(connection)
    for kind in QUESTION_KINDS:
        schema = KINDS[kind]
        files = sorted(fetch_folder(root / schema.name).rglob("[!.]*.parquet"))
        row = connection.execute(
            f'SELECT filename FROM {scan_sql(schema.name, files)} WHERE "{schema.row_id}" = $id', {"id": identifier}
        ).fetchone()
        if row is not None:
            return kind, identifier, PartitionFiles(root, Path(*Path(row[0]).relative_to(root).parts[2:]).as_posix())
    return None


def query_rows(connection: Connection, sql: str, **parameters: Any) -> list[dict[str, Any]]:
    """Rows of a query as dictionaries."""
    cursor = connection.execute(sql, parameters)
    names = [description[0] for description in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def id_condition(column: str, ids: Sequence[str]) -> tuple[str, dict[str, str]]:
    """SQL condition on a column's ids, with its parameters; constants let DuckDB skip row groups.

    Without ids, no row meets it.
    """
    parameters = {f"id{number}": identifier for number, identifier in enumerate(ids)}
    return f"{column} IN ({', '.join(f'${name}' for name in parameters) or 'NULL'})", parameters


# Documents, files and cells have no table; their ids come from columns of the rows derived from them.
_CORPUS = "regexp_extract(asset, '^corpus/(.+)/chunks$', 1) || ':' || "
_DOCUMENT = f"{_CORPUS}doc_id"
_CELL = "source_id || ':' || locator"
_JOINED_CELL = "unnest(list_transform(origins, lambda o: table_id || ':' || o.locator))"
_ORIGIN_CELL = "unnest(list_transform(origins, lambda o: o.table_id || ':' || o.source_locator))"
_ORIGIN_TABLE = "unnest(list_transform(origins, lambda o: o.table_id))"


@dataclass(frozen=True)
class ImpliedEdge:
    """SQL over a table for edges from rows of one kind to their source, which are not stored as lineage."""

    child_kind: str
    parent_kind: str
    table: str
    child: str
    parent: str
    version: str = "''"
    condition: str = "true"


IMPLIED_EDGES = (
    ImpliedEdge("chunk", "document", "chunks", "chunk_id", _DOCUMENT, "source_version"),
    ImpliedEdge("document", "file", "chunks", _DOCUMENT, f"{_CORPUS}source"),
    ImpliedEdge(
        "triple",
        "file",
        "triples",
        "triple_id",
        "regexp_replace(source, ':[0-9]+$', '')",
        condition="origin = 'import'",
    ),
    ImpliedEdge("edge", "file", "kg_edges", "edge_id", "unnest(sources)", condition="len(triple_ids) = 0"),
    ImpliedEdge("node", "file", "kg_nodes", "node_id", "source", condition="source IS NOT NULL"),
    ImpliedEdge(
        "evidence", "cell", "evidence", "evidence_id", _CELL, condition="source_kind = 'table' AND locator <> ''"
    ),
    ImpliedEdge("cell", "cell", "tables", _JOINED_CELL, _ORIGIN_CELL),
    ImpliedEdge("cell", "table", "tables", _ORIGIN_CELL, _ORIGIN_TABLE),
    ImpliedEdge("cell", "table", "evidence", _CELL, "source_id", condition="source_kind = 'table' AND locator <> ''"),
)
_CONTENTS = {
    "document": ("chunks", _DOCUMENT, {"title": "any_value(title)", "chunks": "count(*)"}),
    "cell": ("evidence", _CELL, {"text": "any_value(text)"}),
}
_ID_COLUMNS = {("chunks", "document"): "doc_id", ("chunks", "file"): "source"}
"""The column with an id's end, after the corpus: a filter on it skips most row groups of a large corpus."""


def implied_edges(
    connection: Connection, kind: str, ids: Sequence[str], relation: str, files: PartitionFiles | None, *, upwards: bool
) -> list[tuple[Any, ...]]:
    """Edges from rows to their sources, or from sources to rows, that no table stores, like stored edges."""
    rows = []
    for rule in IMPLIED_EDGES:
        if kind != (rule.child_kind if upwards else rule.parent_kind):
            continue
        from_end, to_end, to_kind = (
            ("child", "parent", rule.parent_kind) if upwards else ("parent", "child", rule.child_kind)
        )
        condition, parameters = id_condition(from_end, sorted(ids))
        source = _source_sql(connection, rule.table, kind, ids, files)
        rows += connection.execute(
            f"SELECT DISTINCT $kind, {from_end}, '{relation}', '{to_kind}', {to_end}, version, NULL "
            f"FROM (SELECT {rule.child} AS child, {rule.parent} AS parent, {rule.version} AS version "
            f"FROM {source} WHERE {rule.condition}) WHERE {condition}",
            parameters | {"kind": kind},
        ).fetchall()
    return rows


def find_sources(connection: Connection, prefix: str) -> list[tuple[str, str]]:
    """Kind and id of at most 50 sources whose id has this prefix."""
    selects = []
    for rule in IMPLIED_EDGES:
        if rule.parent_kind == "table":
            continue  # a row of its own
        create_views(connection, rule.table)
        selects.append(
            f"SELECT '{rule.parent_kind}', id FROM "
            f"(SELECT {rule.parent} AS id FROM {rule.table} WHERE {rule.condition}) WHERE id >= $low AND id < $high"
        )
    sql = f"SELECT DISTINCT * FROM ({' UNION ALL '.join(selects)}) LIMIT 50"
    return connection.execute(sql, {"low": prefix, "high": prefix + LAST_CHARACTER}).fetchall()


def find_named_sources(connection: Connection, name: str) -> list[tuple[str, str]]:
    """Kind and id of at most 50 files and documents with this file name, document id or title."""
    create_views(connection, "chunks")
    return connection.execute(
        f"SELECT DISTINCT 'document', {_DOCUMENT} FROM chunks WHERE lower($name) IN (lower(doc_id), lower(title)) "
        f"UNION SELECT DISTINCT 'file', {_CORPUS}source FROM chunks WHERE source = $name LIMIT 50",
        {"name": name},
    ).fetchall()


def source_contents(
    connection: Connection, kind: str, ids: Sequence[str], files: PartitionFiles | None
) -> dict[str, dict[str, Any]]:
    """The displayed columns of these sources, by id."""
    if kind not in _CONTENTS:
        return {}
    table, identifier, display_columns = _CONTENTS[kind]
    source = _source_sql(connection, table, kind, ids, files)
    condition, parameters = id_condition("id", ids)
    sql = f"SELECT {identifier} AS id, {', '.join(display_columns.values())} FROM {source} WHERE {condition} GROUP BY 1"
    rows = connection.execute(sql, parameters).fetchall()
    return {str(row[0]): dict(zip(display_columns, row[1:], strict=True)) for row in rows}


def _source_sql(connection: Connection, table: str, kind: str, ids: Sequence[str], files: PartitionFiles | None) -> str:
    """SQL source of a table's rows for ids of this kind, filtered if possible."""
    if files is not None and table in ("evidence", "tables"):
        return scan_sql(table, files.rows(TABLES[table].kind))
    create_views(connection, table)
    if (column := _ID_COLUMNS.get((table, kind))) is None:
        return table
    ends = ", ".join(sql_literal(identifier.partition(":")[2]) for identifier in ids)
    return f"(SELECT * FROM {table} WHERE {column} IN ({ends}))"
