"""How large the knowledge graphs of a lake are, and whose they are: nodes, edges, sources and licences."""

from __future__ import annotations

from typing import Any

import duckdb

from evidence_assets.lake.places import rows_of

SIZES = """
WITH of AS (SELECT regexp_extract(asset, '^knowledge/(.+)/edges$', 1) AS graph, * FROM kg_edges)
SELECT graph, nodes, coalesce(edges, 0) AS edges, coalesce(relations, 0) AS relations
FROM (SELECT regexp_extract(asset, '^knowledge/(.+)/nodes$', 1) AS graph, count(*) AS nodes FROM kg_nodes GROUP BY 1)
LEFT JOIN (SELECT graph, count(*) AS edges, count(DISTINCT relation) AS relations FROM of GROUP BY 1) USING (graph)
ORDER BY graph
"""
SOURCES = """
WITH of AS (SELECT regexp_extract(asset, '^knowledge/(.+)/edges$', 1) AS graph, * FROM kg_edges)
, stated AS (SELECT graph, edge_id, sources, unnest(triple_ids) AS triple_id FROM of)
, origins AS (
    SELECT graph, source, edge_id, licence
    FROM stated JOIN (SELECT DISTINCT triple_id, source, licence FROM triples) USING (triple_id)
    WHERE list_contains(sources, source)
    UNION ALL SELECT graph, unnest(sources), edge_id, NULL FROM of WHERE len(triple_ids) = 0
)
SELECT graph, regexp_replace(source, ':[0-9]+$', '') AS source, count(DISTINCT edge_id) AS edges,
       coalesce(list_sort(list(DISTINCT licence) FILTER (licence IS NOT NULL)), []) AS licences
FROM origins GROUP BY ALL ORDER BY graph, edges DESC, source
"""
"""A source is a file with a line, or the name of a harvest; a knowledge base states its edges without triples."""


def graph_sizes(connection: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Every graph of the lake, with the edges that each source states, alone or with others, and their licences."""
    sources = rows_of(connection, SOURCES)
    return [
        row
        | {
            "sources": [
                {name: of[name] for name in ("source", "edges", "licences")}
                for of in sources
                if of["graph"] == row["graph"]
            ]
        }
        for row in rows_of(connection, SIZES)
    ]
