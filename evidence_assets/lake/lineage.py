"""Lineage queries: the sources of a row, the rows that depend on it, and the changes between two runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from evidence_assets.lake.catalogue import create_views, lake_root, scan_sql, view_sql
from evidence_assets.lake.errors import BadInput
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
USED = "used"
DERIVED = "was_derived_from"
GENERATED = "was_generated_by"
WAS_SHOWN = "was_shown"
"""Evidence that a reasoner received."""
CITED = "cited"
"""Evidence that a verified citation refers to."""


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
    return {
        "child_kind": child_kind,
        "child_id": child_id,
        "relation": relation,
        "parent_kind": parent_kind,
        "parent_id": parent_id,
        "parent_version": parent_version,
        "rank": rank,
        "score": score,
    }


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
    rows = (
        _find_table_rows(connection, identifier)
        or find_sources(connection, identifier)
        or find_named_sources(connection, identifier)
    )
    if not rows:
        raise UnknownId(f"no row of the lake has an id that starts with {identifier!r}, and no document has this name")
    rows = [row for row in rows if row[1] == identifier] or rows
    if len({id_ for _, id_ in rows}) > 1:
        matches = ", ".join(f"{kind} {id_}" for kind, id_ in sorted(rows)[:5])
        raise UnknownId(f"{identifier!r} matches {len(rows)} rows: {matches} …: use a longer prefix")
    order = [*KINDS, "document", "file", "cell"]
    return min(rows, key=lambda row: order.index(row[0]))


def _find_table_rows(connection: Connection, prefix: str) -> list[tuple[str, str]]:
    """Kind and id of at most 50 rows of tables whose id has this prefix."""
    tables = [table for table in TABLES.values() if table.display]
    create_views(connection, *(table.name for table in tables))
    union = " UNION ".join(
        f"SELECT '{t.kind}' AS kind, {t.row_id} AS id FROM {t.name} WHERE {t.row_id} >= $low AND {t.row_id} < $high"
        for t in tables
    )
    sql = f"SELECT DISTINCT kind, id FROM ({union}) LIMIT 50"
    return connection.execute(sql, {"low": prefix, "high": prefix + LAST_CHARACTER}).fetchall()


def locate_row(connection: Connection, identifier: str) -> tuple[str, str, PartitionFiles | None]:
    """Kind and full id of a row, and the files of its partition if it belongs to a question; see `find_row`."""
    if location := find_question_row(connection, identifier):
        return location
    kind, full_id = find_row(connection, identifier)
    return find_question_row(connection, full_id) or (kind, full_id, None)


class _Link(NamedTuple):
    """A lineage edge, followed from a row to the next one."""

    from_kind: str
    from_id: str
    relation: str
    kind: str
    id: str
    version: str
    rank: int | None


class _LineageSearch:
    """A breadth-first search along lineage edges, towards the sources (``upwards``) or towards the answers."""

    def __init__(self, connection: Connection, identifier: str, *, upwards: bool) -> None:
        kind, full_id, files = locate_row(connection, identifier)
        self._connection = connection
        self._upwards = upwards
        self._files = files if upwards else None  # what depends on a row may be in any file
        self._root = Node(kind, full_id)
        self._nodes = {(kind, full_id): self._root}

    def run(self, limit: int) -> Node:
        """The tree below the row, with the contents of all rows; a level that reaches ``limit`` rows is the last."""
        frontier = [self._root]
        while frontier and len(self._nodes) < limit:
            frontier = self._expand({(node.kind, node.id): node for node in frontier})
        for kind, ids in _group_by_kind(self._nodes).items():
            for node_id, content in self._contents(kind, sorted(ids)).items():
                self._nodes[(kind, node_id)].content.update(content)
        return self._root

    def _expand(self, frontier: dict[tuple[str, str], Node]) -> list[Node]:
        """Add the rows after these to the tree; returns the new ones."""
        links: list[_Link] = []
        for kind, ids in _group_by_kind(frontier).items():
            links += self._links(kind, sorted(ids))
        links.sort(key=lambda link: (link.kind, link.rank is None, link.rank or 0, link.id))
        new_nodes = []
        for link in links:
            node = self._nodes.get((link.kind, link.id))
            if node is None:
                node = self._nodes[(link.kind, link.id)] = Node(link.kind, link.id)
                new_nodes.append(node)
            child = Node(link.kind, link.id, link.relation, link.version, node.content, node.next)
            frontier[(link.from_kind, link.from_id)].next.append(child)
        return new_nodes

    def _links(self, kind: str, ids: Sequence[str]) -> list[_Link]:
        """Stored and implied edges from rows of one kind."""
        source = "lineage_edges"
        if self._files:
            source = scan_sql(source, self._files.lineage(kind))
        else:
            create_views(self._connection, source)
        from_end, to_end = ("child", "parent") if self._upwards else ("parent", "child")
        condition, parameters = id_condition(f"{from_end}_id", ids)
        rows = self._connection.execute(
            f"SELECT DISTINCT {from_end}_kind, {from_end}_id, relation, {to_end}_kind, {to_end}_id, parent_version, "
            f"rank FROM {source} WHERE {from_end}_kind = $kind AND {condition} ORDER BY ALL",
            parameters | {"kind": kind},
        ).fetchall()
        links = [_Link(*row) for row in rows]
        if self._upwards and kind == "evidence":  # only evidence from tables has cells
            ids = sorted({link.from_id for link in links if link.kind == "table"})
        if ids:
            implied = implied_edges(self._connection, kind, ids, DERIVED, self._files, upwards=self._upwards)
            links += [_Link(*row) for row in implied]
        return links

    def _contents(self, kind: str, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The displayed columns of rows of one kind, by id."""
        schema = KINDS.get(kind)
        if schema is None:
            return source_contents(self._connection, kind, ids, self._files)
        if not schema.display:
            return {}
        source = schema.name
        if self._files and kind in (*QUESTION_KINDS, "question"):
            source = scan_sql(schema.name, self._files.rows(kind))
        else:
            create_views(self._connection, schema.name)
        columns = ", ".join(f'"{column}"' for column in (schema.row_id, *schema.display))
        condition, parameters = id_condition(f'"{schema.row_id}"', ids)
        rows = self._connection.execute(f"SELECT {columns} FROM {source} WHERE {condition}", parameters).fetchall()
        return {str(row[0]): dict(zip(schema.display, row[1:], strict=True)) for row in rows}


def _group_by_kind(rows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    ids: dict[str, list[str]] = {}
    for kind, identifier in rows:
        ids.setdefault(kind, []).append(identifier)
    return ids


def trace(connection: Connection, identifier: str, limit: int = 10_000) -> Node:
    """The row and everything that it was derived from, as a tree towards the sources."""
    return _LineageSearch(connection, identifier, upwards=True).run(limit)


def impact(connection: Connection, identifier: str, limit: int = 100_000) -> Node:
    """The row and everything that was derived from it, as a tree towards the answers."""
    return _LineageSearch(connection, identifier, upwards=False).run(limit)


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
    stack = list(root.next)
    visited = set()
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


def _find_run(times: Mapping[str, str | None], prefix: str) -> tuple[str, str | None]:
    """Id and time of the only run whose id has this prefix; ``times`` has all runs, the oldest first."""
    matches = [run for run in times if run.startswith(prefix)]
    if len(matches) != 1:
        latest = ", ".join(f"{run[:8]} ({time or 'no time'})" for run, time in [*times.items()][-5:])
        hint = f"give one run; the last are {latest}" if latest else "`evidence run BENCHMARK` makes one"
        raise UnknownId(f"{prefix!r} matches {len(matches)} of the lake's {len(times)} runs: {hint}")
    return matches[0], times[matches[0]]


PAIRED_ROWS = """
    WITH a AS (SELECT * FROM {history} WHERE run_id = $a), b AS (SELECT * FROM {history} WHERE run_id = $b)
    SELECT asset, partition, row_id,
           CASE WHEN a.run_id IS NULL THEN 'added' WHEN b.run_id IS NULL THEN 'removed'
                WHEN a.content_hash <> b.content_hash THEN 'changed' END AS change,
           a.answer AS answer_before, b.answer AS answer_after, a.status AS status_before, b.status AS status_after
    FROM a FULL JOIN b USING (asset, partition, row_id)
    WHERE (asset, partition) IN (SELECT (asset, partition) FROM a)
      AND (asset, partition) IN (SELECT (asset, partition) FROM b)
"""
"""Rows of two runs in partitions that both wrote; ``change`` is null for equal rows. ``history`` is that table."""


def diff_runs(connection: Connection, run_a: str = "", run_b: str = "") -> RunDiff:
    """Rows that differ between two runs (added, removed or changed), in partitions that both runs wrote.

    Without ids, the last two runs. Predictions come first, with their question.
    """
    create_views(connection, "history", "predictions", "questions")
    times = dict(connection.execute("SELECT run_id, max(time) FROM history GROUP BY 1 ORDER BY 2, 1").fetchall())
    if not run_a and len(times) < 2:
        raise BadInput("the lake has the history of fewer than two runs: run something again, then compare")
    names = (run_a, run_b) if run_a else [*times][-2:]
    runs = [_find_run(times, name) for name in names]
    if all(time for _, time in runs):
        runs.sort(key=lambda run: run[1] or "")
    older, newer = runs
    sql = "SELECT DISTINCT asset, partition FROM history WHERE run_id = "
    [(partitions,)] = connection.execute(
        f"SELECT count(*) FROM ({sql} $a INTERSECT {sql} $b)", {"a": older[0], "b": newer[0]}
    ).fetchall()
    rows = query_rows(
        connection,
        f"""
        SELECT h.*, h.row_id AS prediction_id, replace(h.asset, 'predictions/', '') AS variant,
               q.text AS question, q.task, q.options
        FROM ({PAIRED_ROWS.format(history="history")}) h
        LEFT JOIN (SELECT DISTINCT prediction_id, question_id FROM predictions) p ON p.prediction_id = h.row_id
        LEFT JOIN (SELECT DISTINCT ON (question_id) * FROM questions) q USING (question_id)
        WHERE h.change IS NOT NULL
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
