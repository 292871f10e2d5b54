"""Pages of the corpora and their documents."""

from __future__ import annotations

from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.pages import PER_PAGE, NotFound, Page, Pager, Query

CORPORA = """
    SELECT regexp_extract(asset, '^corpus/(.+)/chunks$', 1) AS name, count(DISTINCT doc_id) AS documents,
           count(*) AS chunks FROM chunks GROUP BY name ORDER BY name
"""
DOCUMENTS = """
    SELECT doc_id, arg_min(title, ordinal) AS title, arg_min(source, ordinal) AS source, count(*) AS chunks
    FROM chunks WHERE asset = $asset GROUP BY doc_id ORDER BY source, doc_id LIMIT $limit OFFSET $offset
"""
BEGINNINGS = """
    SELECT doc_id, arg_min(text, ordinal) AS beginning
    FROM chunks WHERE asset = $asset AND doc_id IN (SELECT unnest($ids)) GROUP BY doc_id
"""
"""The text that documents of a page begin with; a query of its own, as a sort would need all texts in memory."""
CITED = """
    SELECT c.doc_id, count(DISTINCT e.question_id) AS questions
    FROM chunks c JOIN evidence e ON e.source_kind = 'chunk' AND e.source_id = c.chunk_id
    WHERE c.doc_id IN (SELECT unnest($ids)) AND EXISTS
          (FROM citations x WHERE x.evidence_id = e.evidence_id AND x.verdict = 'verified')
    GROUP BY c.doc_id
"""
"""How many questions have an answer that cites a document."""


def read_corpora(reader: LakeReader) -> list[Row]:
    """Names of the corpora, with their numbers of documents and chunks."""
    return reader.rows(CORPORA)


def documents(reader: LakeReader, query: Query) -> Page:
    """The corpora of the lake, or the documents of one."""
    corpora = reader.cached(read_corpora)
    name = query.get("corpus", "") or (corpora[0]["name"] if len(corpora) == 1 else "")
    chosen = next((corpus for corpus in corpora if corpus["name"] == name), None)
    if name and chosen is None:
        raise NotFound(f"The lake has no corpus {name!r}.")
    pager = Pager.of(query.get("page", ""), chosen["documents"] if chosen else 0)
    asset = f"corpus/{name}/chunks"
    rows = reader.rows(DOCUMENTS, asset=asset, limit=PER_PAGE, offset=pager.offset) if chosen else []
    ids = [row["doc_id"] for row in rows]
    beginnings = reader.rows(BEGINNINGS, asset=asset, ids=ids) if ids else []
    counts = reader.rows(CITED, ids=ids) if ids else []
    values = {
        "corpora": corpora,
        "name": name,
        "rows": rows,
        "pager": pager,
        "beginnings": {row["doc_id"]: row["beginning"] for row in beginnings},
        "cited": {row["doc_id"]: row["questions"] for row in counts},
    }
    return Page("documents.html", f"Documents of {name}" if name else "Documents", values)
