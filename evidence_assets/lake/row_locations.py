"""In which files a row and its lineage are, so that following one answer opens a few files and not the whole lake.

Evidence, chains, predictions and citations are in the partition of their question, an asset's lineage is beside its
rows: ``predictions/asset=A/b/0.parquet`` is explained by ``lineage_edges/asset=A/b/0.parquet``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from evidence_assets.lake.catalogue import create_views, lake_root, scan_sql, sql_literal
from evidence_assets.lake.mirror import child_names, fetch_folder
from evidence_assets.lake.schemas import KINDS

Connection = duckdb.DuckDBPyConnection

QUESTION_KINDS = ("prediction", "chain", "evidence", "citation")
"""Kinds of rows in the partition of their question."""
ID_LENGTH = 32
"""Characters of a whole id."""
LAST_CHARACTER = "\U0010ffff"
"""The last character: texts that begin with ``x`` are at least ``x`` and less than ``x + LAST``."""


@dataclass(frozen=True)
class PartitionFiles:
    """The files of one partition of questions, such as ``obqa/0.parquet`` below each asset's folder."""

    root: Path
    partition: str

    def rows(self, kind: str) -> list[Path]:
        """Files with rows of this kind in this partition, over all assets."""
        folder = fetch_folder(self.root / KINDS[kind].name, lambda name: name.endswith(f"/{self.partition}"))
        return sorted(folder.glob(f"asset=*/{self.partition}"))

    def lineage(self, kind: str) -> list[Path]:
        """Files with the lineage of rows of this kind: of this partition, or all that explain no question's rows."""
        if kind in QUESTION_KINDS:
            # What a chain or an answer cites is stated where its citations are checked.
            checked = self.rows("citation") if kind in ("chain", "prediction") else []
            return _explaining(self.root, [*self.rows(kind), *checked])
        of_questions = {name for kind in QUESTION_KINDS for name in child_names(self.root / KINDS[kind].name)}
        folder = self.root / "lineage_edges"
        others = [fetch_folder(folder / name) for name in child_names(folder) if name not in of_questions]
        return sorted(path for folder in others for path in folder.rglob("[!.]*.parquet"))


def _explaining(root: Path, files: Iterable[Path]) -> list[Path]:
    """The lineage files beside these files of a table."""
    beside = [root / "lineage_edges" / Path(*path.relative_to(root).parts[1:]) for path in files]
    wanted = {path.relative_to(root).as_posix() for path in beside}
    fetch_folder(root / "lineage_edges", wanted.__contains__)
    return [path for path in beside if path.exists()]


def find_question_row(connection: Connection, identifier: str) -> tuple[str, str, PartitionFiles] | None:
    """Kind, id and partition of the row of a question with this whole id; Bloom filters tell which files lack it."""
    root = lake_root(connection)
    if root is None or len(identifier) != ID_LENGTH:
        return None
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
    """SQL for a column being one of these ids, and its parameters: constants, so that row groups are skipped."""
    parameters = {f"id{number}": identifier for number, identifier in enumerate(ids)}
    return f"{column} IN ({', '.join(f'${name}' for name in parameters)})", parameters


# Sources that no table lists: documents, files and cells, read from columns of the rows that came from them.
_CORPUS = "regexp_extract(asset, '^corpus/(.+)/chunks$', 1) || ':' || "
_DOCUMENT, _CELL = f"{_CORPUS}doc_id", "source_id || ':' || locator"


@dataclass(frozen=True)
class ImpliedEdge:
    """Rows of one kind that came from a source: SQL over a table for child, parent and the parent's version."""

    child_kind: str
    parent_kind: str
    table: str
    child: str
    parent: str
    version: str = "''"
    where: str = "true"


IMPLIED_EDGES = (
    ImpliedEdge("chunk", "document", "chunks", "chunk_id", _DOCUMENT, "source_version"),
    ImpliedEdge("document", "file", "chunks", _DOCUMENT, f"{_CORPUS}source"),
    ImpliedEdge(
        "triple", "file", "triples", "triple_id", "regexp_replace(source, ':[0-9]+$', '')", where="origin = 'import'"
    ),
    ImpliedEdge("edge", "file", "kg_edges", "edge_id", "unnest(sources)", where="len(triple_ids) = 0"),
    ImpliedEdge("node", "file", "kg_nodes", "node_id", "source", where="source IS NOT NULL"),
    ImpliedEdge("evidence", "cell", "evidence", "evidence_id", _CELL, where="source_kind = 'table' AND locator <> ''"),
    ImpliedEdge("cell", "table", "evidence", _CELL, "source_id", where="source_kind = 'table' AND locator <> ''"),
)
_CONTENTS = {
    "document": ("chunks", _DOCUMENT, {"title": "any_value(title)", "chunks": "count(*)"}),
    "cell": ("evidence", _CELL, {"text": "any_value(text)"}),
}
_ENDS = {("chunks", "document"): "doc_id", ("chunks", "file"): "source"}
"""The column that such an id ends with, behind its corpus: to filter by it leaves most of a large corpus unread."""


def implied_edges(
    connection: Connection, kind: str, ids: Sequence[str], relation: str, near: PartitionFiles | None, *, upwards: bool
) -> list[tuple[Any, ...]]:
    """Edges from these rows to their sources, or from these sources to rows, with the columns of stored edges."""
    rows = []
    for rule in IMPLIED_EDGES:
        if kind != (rule.child_kind if upwards else rule.parent_kind):
            continue
        here, there, to_kind = (
            ("child", "parent", rule.parent_kind) if upwards else ("parent", "child", rule.child_kind)
        )
        condition, parameters = id_condition(here, sorted(ids))
        rows += connection.execute(
            f"SELECT DISTINCT $kind, {here}, '{relation}', '{to_kind}', {there}, version, NULL FROM "
            f"(SELECT {rule.child} AS child, {rule.parent} AS parent, {rule.version} AS version "
            f"FROM {_from(connection, rule.table, kind, ids, near)} WHERE {rule.where}) WHERE {condition}",
            parameters | {"kind": kind},
        ).fetchall()
    return rows


def find_sources(connection: Connection, low: str, high: str) -> list[tuple[str, str]]:
    """Kind and id of the sources whose id lies between these texts, 50 at most."""
    chosen = []
    for rule in IMPLIED_EDGES[:-1]:
        create_views(connection, rule.table)
        chosen.append(
            f"SELECT '{rule.parent_kind}', id FROM (SELECT {rule.parent} AS id FROM {rule.table} WHERE {rule.where}) "
            "WHERE id >= $low AND id < $high"
        )
    sql = f"SELECT DISTINCT * FROM ({' UNION ALL '.join(chosen)}) LIMIT 50"
    return connection.execute(sql, {"low": low, "high": high}).fetchall()


def source_contents(
    connection: Connection, kind: str, ids: Sequence[str], near: PartitionFiles | None
) -> dict[str, dict[str, Any]]:
    """What people want to see of these sources."""
    if kind not in _CONTENTS:
        return {}
    table, identifier, shown = _CONTENTS[kind]
    source = _from(connection, table, kind, ids, near)
    condition, parameters = id_condition("id", ids)
    sql = f"SELECT {identifier} AS id, {', '.join(shown.values())} FROM {source} WHERE {condition} GROUP BY 1"
    rows = connection.execute(sql, parameters).fetchall()
    return {str(row[0]): dict(zip(shown, row[1:], strict=True)) for row in rows}


def _from(connection: Connection, table: str, kind: str, ids: Sequence[str], near: PartitionFiles | None) -> str:
    """What stands behind FROM to find rows of a table by ids of this kind."""
    if near is not None and table == "evidence":
        return scan_sql(table, near.rows("evidence"))
    create_views(connection, table)
    if (column := _ENDS.get((table, kind))) is None:
        return table
    ends = ", ".join(sql_literal(one.partition(":")[2]) for one in ids)
    return f"(SELECT * FROM {table} WHERE {column} IN ({ends}))"
