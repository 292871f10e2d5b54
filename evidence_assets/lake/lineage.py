"""Lineage queries: the sources of a row, the rows that depend on it, and the changes between two runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from evidence_assets.lake.catalogue import create_views, lake_root, scan_sql, view_sql
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.row_locations import (
    LAST_CHARACTER,
    QUESTION_KINDS,
    Connection,
    PartitionFiles,
    find_named_sources,
    find_question_row,
    find_sources,
    id_condition,
    implied_edges,
    query_rows,
    source_contents,
)
from evidence_assets.lake.schemas import KINDS, TABLES

EDGES_PER_PART = 1 << 22
"""Edges that are compared with the rows of the lake at a time."""
USED, DERIVED, GENERATED = "used", "was_derived_from", "was_generated_by"
WAS_SHOWN, CITED = "was_shown", "cited"
"""Evidence that a reasoner received, and evidence that a verified citation refers to."""


def edge(
    child_kind: str,
    child_id: str,
    relation: str,
    parent_kind: str,
    parent_id: str,
    parent_version: str,
    rank: int | None = None,
    score: float | None = None,
) -> dict[str, Any]:
    """One row of ``lineage_edges``."""
    return dict(locals())


@dataclass
class Node:
    """A row in a lineage tree, with the relation and version of the edge that led to it."""

    kind: str
    id: str
    relation: str = ""
    version: str = ""
    content: dict[str, Any] = field(default_factory=dict)
    next: list[Node] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The tree as dictionaries, for JSON."""
        return {**vars(self), "next": [node.as_dict() for node in self.next]}


class UnknownId(LookupError):
    """No row of the lake has this id, or a shortened id is ambiguous."""


def find_row(connection: Connection, identifier: str) -> tuple[str, str]:
    """Kind and full id of the row with this id; an unambiguous prefix, file name or title is enough."""
    tables = [table for table in TABLES.values() if table.display]
    create_views(connection, *(table.name for table in tables))
    union = " UNION ".join(
        f"SELECT '{t.kind}' AS kind, {t.row_id} AS id FROM {t.name} WHERE {t.row_id} >= $low AND {t.row_id} < $high"
        for t in tables
    )
    rows = connection.execute(
        f"SELECT DISTINCT kind, id FROM ({union}) LIMIT 50", {"low": identifier, "high": identifier + LAST_CHARACTER}
    ).fetchall()
    rows = rows or find_sources(connection, identifier, identifier + LAST_CHARACTER)
    rows = [row for row in rows if row[1] == identifier] or rows or find_named_sources(connection, identifier)
    if not rows:
        raise UnknownId(f"no row of the lake has an id that starts with {identifier!r}, and no document has this name")
    if len({id_ for _, id_ in rows}) > 1:
        matches = ", ".join(f"{kind} {id_}" for kind, id_ in sorted(rows)[:5])
        raise UnknownId(f"{identifier!r} matches {len(rows)} rows: {matches} …: use a longer prefix")
    order = [*(t.kind for t in tables), "document", "file", "cell"]
    kind, id_ = min(rows, key=lambda row: order.index(row[0]))
    return str(kind), str(id_)


def locate_row(connection: Connection, identifier: str) -> tuple[str, str, PartitionFiles | None]:
    """Kind and full id of a row, and the files of its partition if it belongs to a question; see `find_row`."""
    if location := find_question_row(connection, identifier):
        return location
    kind, full_id = find_row(connection, identifier)
    return find_question_row(connection, full_id) or (kind, full_id, None)


def _contents(
    connection: Connection, kind: str, ids: Sequence[str], files: PartitionFiles | None
) -> dict[str, dict[str, Any]]:
    """The displayed columns of these rows, by id."""
    schema = KINDS.get(kind)
    if schema is None:
        return source_contents(connection, kind, sorted(ids), files)
    if not schema.display:
        return {}
    if files and kind in (*QUESTION_KINDS, "question"):
        source = scan_sql(schema.name, files.rows(kind))
    else:
        create_views(connection, schema.name)
        source = schema.name
    columns = ", ".join(f'"{column}"' for column in (schema.row_id, *schema.display))
    condition, parameters = id_condition(f'"{schema.row_id}"', sorted(ids))
    rows = connection.execute(f"SELECT {columns} FROM {source} WHERE {condition}", parameters).fetchall()
    return {str(row[0]): dict(zip(schema.display, row[1:], strict=True)) for row in rows}


def _edges(
    connection: Connection, kind: str, ids: Sequence[str], files: PartitionFiles | None, *, upwards: bool
) -> list[tuple[Any, ...]]:
    """Lineage edges of these rows towards their sources (``upwards``) or towards the answers."""
    if files is None:
        create_views(connection, "lineage_edges")
    source = scan_sql("lineage_edges", files.lineage(kind)) if files else "lineage_edges"
    from_end, to_end = ("child", "parent") if upwards else ("parent", "child")
    condition, parameters = id_condition(f"{from_end}_id", sorted(ids))
    rows = connection.execute(
        f"SELECT DISTINCT {from_end}_kind, {from_end}_id, relation, {to_end}_kind, {to_end}_id, parent_version, rank "
        f"FROM {source} WHERE {from_end}_kind = $kind AND {condition} ORDER BY ALL",
        parameters | {"kind": kind},
    ).fetchall()
    if upwards and kind == "evidence":  # only evidence from tables has cells
        ids = sorted({row[1] for row in rows if row[3] == "table"})
    return rows + (implied_edges(connection, kind, ids, DERIVED, files, upwards=upwards) if ids else [])


def _follow(connection: Connection, identifier: str, *, upwards: bool, limit: int) -> Node:
    kind, id_, files = locate_row(connection, identifier)
    files = files if upwards else None  # what depends on a row may be in any file
    root = Node(kind, id_)
    nodes = {(kind, id_): root}
    frontier = [root]
    while frontier and len(nodes) < limit:
        current = {(node.kind, node.id): node for node in frontier}
        rows = []
        for kind, ids in _by_kind(current).items():
            rows += _edges(connection, kind, ids, files, upwards=upwards)
        frontier = []
        for from_kind, from_id, relation, to_kind, to_id, version, _rank in sorted(
            rows, key=lambda row: (row[3], row[6] is None, row[6] or 0, row[4])
        ):
            node = nodes.get((to_kind, to_id))
            if node is None:
                node = nodes[(to_kind, to_id)] = Node(to_kind, to_id)
                frontier.append(node)
            current[(from_kind, from_id)].next.append(Node(to_kind, to_id, relation, version, node.content, node.next))
    for kind, ids in _by_kind(nodes).items():
        for node_id, content in _contents(connection, kind, ids, files).items():
            nodes[(kind, node_id)].content.update(content)
    return root


def _by_kind(rows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    ids: dict[str, list[str]] = {}
    for kind, identifier in rows:
        ids.setdefault(kind, []).append(identifier)
    return ids


def trace(connection: Connection, identifier: str, limit: int = 10_000) -> Node:
    """The row and everything that it was derived from, as a tree towards the sources."""
    return _follow(connection, identifier, upwards=True, limit=limit)


def impact(connection: Connection, identifier: str, limit: int = 100_000) -> Node:
    """The row and everything that was derived from it, as a tree towards the answers."""
    return _follow(connection, identifier, upwards=False, limit=limit)


def list_answers(connection: Connection, root: Node) -> list[dict[str, Any]]:
    """The predictions below ``root`` with their question.

    ``cites``: Whether the answer cites evidence below ``root``, directly or in the chain of its option.
    """
    ids = distinct_ids(root)
    create_views(connection, "predictions", "questions", "citations", "chains")
    return query_rows(
        connection,
        """
        WITH cited AS (
            SELECT ci.chain_id, c.question_id, c.hypothesis, replace(ci.asset, 'citations/', '') AS variant
            FROM citations ci LEFT JOIN chains c USING (chain_id)
            WHERE ci.verdict = 'verified' AND ci.evidence_id IN (SELECT unnest($evidence))
        )
        SELECT DISTINCT p.prediction_id, p.benchmark, replace(p.asset, 'predictions/', '') AS variant, p.answer,
               p.status, q.text AS question, q.task, q.options, p.prediction_id IN (SELECT chain_id FROM cited)
               OR (p.question_id, p.answer, variant) IN (SELECT (question_id, hypothesis, variant) FROM cited)
               OR (coalesce(q.negated, false)
                   AND (p.question_id, variant) IN (SELECT (question_id, variant) FROM cited)) AS cites
        FROM predictions p LEFT JOIN questions q USING (question_id)
        WHERE p.prediction_id IN (SELECT unnest($predictions))
        ORDER BY cites DESC, question, variant
        """,
        evidence=ids.get("evidence", []),
        predictions=ids.get("prediction", []),
    )


def distinct_ids(root: Node) -> dict[str, list[str]]:
    """Distinct ids below ``root``, by kind."""
    ids_by_kind: dict[str, set[str]] = {}
    stack, visited = list(root.next), set()
    while stack:
        node = stack.pop()
        ids_by_kind.setdefault(node.kind, set()).add(node.id)
        if id(node.next) not in visited:
            visited.add(id(node.next))
            stack.extend(node.next)
    return {kind: sorted(ids) for kind, ids in sorted(ids_by_kind.items())}


class RunDiff(NamedTuple):
    """Changes between two runs; each run is its id and time, and ``partitions`` counts those that both wrote."""

    older: tuple[str, str | None]
    newer: tuple[str, str | None]
    partitions: int
    rows: list[dict[str, Any]]


def diff_runs(connection: Connection, run_a: str, run_b: str) -> RunDiff:
    """Rows that differ between two runs (added, removed or changed), in partitions that both runs wrote.

    Predictions come first, with their question.
    """
    create_views(connection, "history", "predictions", "questions")
    times = dict(connection.execute("SELECT run_id, max(time) FROM history GROUP BY 1 ORDER BY 2, 1").fetchall())
    runs = []
    for run in (run_a, run_b):
        matches = sorted(name for name in times if name.startswith(run))
        if len(matches) != 1:
            latest = ", ".join(f"{name[:8]} ({time or 'no time'})" for name, time in [*times.items()][-5:])
            hint = f"give one run; the last are {latest}" if latest else "`evidence run BENCHMARK` makes one"
            raise UnknownId(f"{run!r} matches {len(matches)} of the lake's {len(times)} runs: {hint}")
        runs.append((matches[0], times[matches[0]]))
    older, newer = sorted(runs, key=lambda run: run[1]) if all(time for _, time in runs) else runs
    sql = "SELECT DISTINCT asset, partition FROM history WHERE run_id = "
    [(partitions,)] = connection.execute(
        f"SELECT count(*) FROM ({sql} $a INTERSECT {sql} $b)", {"a": older[0], "b": newer[0]}
    ).fetchall()
    rows = query_rows(
        connection,
        """
        WITH a AS (SELECT * FROM history WHERE run_id = $a), b AS (SELECT * FROM history WHERE run_id = $b)
        SELECT h.*, h.row_id AS prediction_id, replace(h.asset, 'predictions/', '') AS variant,
               q.text AS question, q.task, q.options FROM (
            SELECT asset, partition, row_id,
               CASE WHEN a.run_id IS NULL THEN 'added' WHEN b.run_id IS NULL THEN 'removed' ELSE 'changed' END change,
               a.answer AS answer_before, b.answer AS answer_after, a.status AS status_before, b.status AS status_after
            FROM a FULL JOIN b USING (asset, partition, row_id)
            WHERE (asset, partition) IN (SELECT (asset, partition) FROM a)
              AND (asset, partition) IN (SELECT (asset, partition) FROM b)
              AND a.content_hash IS DISTINCT FROM b.content_hash) h
        LEFT JOIN (SELECT DISTINCT prediction_id, question_id FROM predictions) p ON p.prediction_id = h.row_id
        LEFT JOIN (SELECT DISTINCT ON (question_id) * FROM questions) q USING (question_id)
        ORDER BY NOT starts_with(h.asset, 'predictions/'), h.asset, h.partition, h.row_id
        """,
        a=older[0],
        b=newer[0],
    )
    return RunDiff(older, newer, partitions, rows)


def find_dangling_edges(connection: Connection, lineage_file: Path) -> list[dict[str, Any]]:
    """Edges of a lineage file whose parent is missing from the lake, or ``present`` with another version."""
    source = scan_sql("lineage_edges", [lineage_file])
    kinds = [row[0] for row in connection.execute(f"SELECT DISTINCT parent_kind FROM {source} ORDER BY 1").fetchall()]
    edges: list[dict[str, Any]] = []
    n_parts = 1 + pq.read_metadata(lineage_file).num_rows // EDGES_PER_PART
    for kind, part in product(kinds, range(n_parts)):
        schema = KINDS.get(kind)
        if schema is None:
            raise ValueError(f"{lineage_file}: unknown kind of row {kind!r}: materialize its asset again")
        edges += query_rows(
            connection,
            f"""
            WITH edges AS (SELECT child_kind, child_id, parent_kind, parent_id, parent_version
                           FROM {source} WHERE parent_kind = $kind AND hash(parent_id) % {n_parts} = {part}),
            rows AS (SELECT "{schema.row_id}" AS id, CAST("{schema.version_column}" AS VARCHAR) AS version
                     FROM ({view_sql(lake_root(connection), schema.name)}) WHERE hash(id) % {n_parts} = {part})
            SELECT DISTINCT edges.*, parent_id IN (SELECT id FROM rows) AS present
            FROM edges ANTI JOIN rows ON rows.id = parent_id AND rows.version = parent_version ORDER BY ALL
            """,
            kind=kind,
        )
    return edges


def history_rows(table: str, rows: Any, run_id: str, asset: str, partition: str) -> list[dict[str, Any]]:
    """The ``history`` rows of prepared rows of ``table``."""
    schema = TABLES[table]
    names = {schema.row_id, schema.version_column, "answer", "status"} & set(rows.column_names)
    time = datetime.now(UTC).isoformat(" ", "seconds")
    history = {}
    for row in rows.select(sorted(names)).to_pylist():
        version = row[schema.version_column]
        history[row[schema.row_id]] = {
            "run_id": run_id,
            "asset": asset,
            "partition": partition,
            "row_id": row[schema.row_id],
            "content_hash": version if isinstance(version, str) else content_id(version),
            "answer": row.get("answer"),
            "status": row.get("status"),
            "time": time,
        }
    return list(history.values())
