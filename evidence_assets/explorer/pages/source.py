"""Page of a source: its content, the evidence taken from it, and the answers that depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.evidence_view import build_grid
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.pages import PER_PAGE, NotFound, Page, Pager, Query, link
from evidence_assets.lake.row_locations import id_condition

MAX_ROWS = 1_000
"""Maximum rows of evidence, edges, or chunks of a document, that a page reads; the page reports if there are more."""
KINDS = {
    "chunk": ("chunks", "chunk_id", "doc_id source char_start char_end asset"),
    "document": ("chunks", "doc_id", "doc_id source asset"),
    "table": ("tables", "table_id", "table_id benchmark n_rows"),
    "edge": ("kg_edges", "edge_id", "relation sources licences asset"),
    "node": ("kg_nodes", "node_id", "name aliases type source asset"),
    "triple": ("triples", "triple_id", "origin source licence model_id semantic fluency score rank agreement flags"),
    "seed": ("relation_seeds", "seed_id", "relation_id head tail prompt"),
}
"""Table, column of the id, and displayed columns of each kind of source."""
EDGE_CONDITIONS = {
    "edge": "e.edge_id = $id",
    "node": "$id IN (e.head_id, e.tail_id)",
    "triple": "list_contains(e.triple_ids, $id)",
}
"""Edges of a source, from which evidence is derived."""
EDGES = f"""
    SELECT DISTINCT ON (e.edge_id) e.*, h.name AS head, t.name AS tail
    FROM kg_edges e JOIN kg_nodes h ON h.node_id = e.head_id JOIN kg_nodes t ON t.node_id = e.tail_id
    WHERE {{condition}} ORDER BY e.edge_id LIMIT {MAX_ROWS}
"""
EVIDENCE = f"""
    SELECT e.*, q.text AS question, EXISTS (FROM citations c WHERE c.evidence_id = e.evidence_id
           AND c.verdict = 'verified') AS cited
    FROM evidence e LEFT JOIN all_questions q USING (question_id) WHERE {{condition}} LIMIT {MAX_ROWS + 1}
"""
FROM_EDGES = """e.evidence_id IN (SELECT child_id FROM lineage_edges WHERE child_kind = 'evidence'
    AND parent_kind = 'edge' AND parent_id IN (SELECT unnest($edges)))"""
DEPENDENT_ANSWERS = """
    SELECT c.question_id, replace(c.asset, 'counterfactuals/', '') AS variant, c.answer, c.without_cited,
           q.text AS question
    FROM counterfactuals c LEFT JOIN all_questions q USING (question_id)
    WHERE c.necessary AND len(c.cited) > 0 AND c.question_id IN (SELECT unnest($questions))
          AND list_has_all($facts, c.cited) ORDER BY ALL
"""
"""Answers that change without their citations, all of which are among these facts."""


def source(reader: LakeReader, query: Query, kind: str, identifier: str) -> Page:
    if kind not in KINDS:
        raise NotFound(f"{kind!r} is not a kind of source. Choose one of {', '.join(KINDS)}.")
    table, column, names = KINDS[kind]
    order = "ordinal" if table == "chunks" else "asset"
    rows = reader.rows(f'SELECT * FROM "{table}" WHERE {column} = $id ORDER BY {order} LIMIT {MAX_ROWS}', id=identifier)
    if not rows:
        raise NotFound(f"The lake has no {kind} {identifier!r}.")
    condition = EDGE_CONDITIONS.get(kind)
    edges = reader.rows(EDGES.format(condition=condition), id=identifier) if condition else []
    values = {
        "kind": kind,
        "facts": _list_facts(rows, names.split()),
        "texts": _list_texts(rows),
        "grid": build_grid(rows[0], []) if kind == "table" else None,
        "links": _related_pages(kind, rows[0], edges),
        "max_rows": MAX_ROWS,
    }
    if kind != "seed":
        ids = [row["chunk_id"] for row in rows] if table == "chunks" else [identifier]
        values |= _dependent_rows(reader, query, ids, [edge["edge_id"] for edge in edges])
    return Page("source.html", _title(rows[0], edges), values)


def _list_facts(rows: Sequence[Row], names: Sequence[str]) -> list[dict[str, str]]:
    """The distinct values of these columns."""
    facts: list[dict[str, str]] = []
    for row in rows:
        fact = {name: _format_fact(row[name]) for name in names}
        if fact not in facts:
            facts.append(fact)
    return facts


def _list_texts(rows: Sequence[Row]) -> list[tuple[str | None, str]]:
    """The texts of chunks with their ids, or the document of a node."""
    if "chunk_id" in rows[0]:
        return [(row["chunk_id"], row["text"]) for row in rows]
    document = rows[0].get("document")
    return [(None, document)] if document else []


def _format_fact(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)


def _title(row: Row, edges: list[Row]) -> str:
    if "head_id" in row and edges:
        return _format_edge(edges[0])
    if "head" in row:
        return _format_edge({"relation": row["relation_id"]} | row)
    names = ("title", "doc_id", "caption", "table_id", "name", "relation")
    return str(next(row[name] for name in names if row.get(name)))


def _format_edge(row: Row) -> str:
    return f"{row['head']} — {row['relation']} → {row['tail']}"


def _related_pages(kind: str, row: Row, edges: list[Row]) -> list[tuple[str, str]]:
    """Addresses and titles of pages that a source links to."""
    if kind == "chunk":
        return [(link("source", "document", row["doc_id"]), "the whole document")]
    if kind == "edge":
        links = [(link("source", "node", edge[f"{end}_id"]), edge[end]) for edge in edges for end in ("head", "tail")]
        return links + [(link("source", "triple", triple), f"triple {triple[:12]}") for triple in row["triple_ids"]]
    links = [(link("source", "edge", edge["edge_id"]), _format_edge(edge)) for edge in edges]
    relation = row.get("relation_id")
    return links + ([(link("relation", relation), f"relation {relation}")] if relation else [])


def _dependent_rows(reader: LakeReader, query: Query, ids: Sequence[str], edge_ids: Sequence[str]) -> dict[str, Any]:
    """The evidence from a source or its edges, and the answers that depend on it."""
    condition, id_parameters = id_condition("e.source_id", ids)
    parameters: dict[str, Any] = {**id_parameters}
    if edge_ids:
        condition = f"({condition} OR {FROM_EDGES})"
        parameters["edges"] = edge_ids
    evidence = reader.rows(EVIDENCE.format(condition=condition), **parameters)
    has_more = len(evidence) > MAX_ROWS
    evidence = evidence[:MAX_ROWS]
    evidence.sort(key=lambda row: (row["rank"], row["benchmark"], row["question_id"], row["selector"], row["option"]))
    pager = Pager.of(query.get("page", ""), len(evidence))
    questions = sorted({row["question_id"] for row in evidence})
    facts = sorted({row["content_hash"] for row in evidence})
    return {
        "has_more": has_more,
        "pager": pager,
        "rows": evidence[pager.offset : pager.offset + PER_PAGE],
        "dependent": reader.rows(DEPENDENT_ANSWERS, questions=questions, facts=facts) if evidence else [],
    }
