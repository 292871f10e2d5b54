"""How large the knowledge graphs of a lake are, and whose they are: nodes, edges, sources and licences."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb


@dataclass(frozen=True)
class SourceSize:
    """Edges that one source states, alone or with others, and the licences of its triples."""

    source: str
    edges: int
    licences: tuple[str, ...]


@dataclass(frozen=True)
class GraphSize:
    """A knowledge graph in numbers."""

    graph: str
    nodes: int
    edges: int
    relations: int
    sources: tuple[SourceSize, ...]


def graph_sizes(connection: duckdb.DuckDBPyConnection) -> list[GraphSize]:
    """Every graph of the lake, by name; a source is a file or a harvest."""
    nodes = connection.execute(
        "SELECT regexp_extract(asset, '^knowledge/(.+)/nodes$', 1) AS graph, count(*) FROM kg_nodes GROUP BY 1"
    ).fetchall()
    edges = connection.execute(
        """
        SELECT regexp_extract(asset, '^knowledge/(.+)/edges$', 1) AS graph, count(*), count(DISTINCT relation)
        FROM kg_edges GROUP BY 1
        """
    ).fetchall()
    # A source is a file with a line, or the name of a harvest; a knowledge base states its edges without triples.
    sources = connection.execute(
        """
        WITH stated AS (
            SELECT regexp_extract(asset, '^knowledge/(.+)/edges$', 1) AS graph, edge_id, sources,
                   unnest(triple_ids) AS triple_id
            FROM kg_edges
        )
        , origins AS (
            SELECT graph, source, edge_id, licence
            FROM stated JOIN (SELECT DISTINCT triple_id, source, licence FROM triples) USING (triple_id)
            WHERE list_contains(sources, source)
            UNION ALL
            SELECT regexp_extract(asset, '^knowledge/(.+)/edges$', 1), unnest(sources), edge_id, NULL
            FROM kg_edges WHERE len(triple_ids) = 0
        )
        SELECT graph, regexp_replace(source, ':[0-9]+$', '') AS origin, count(DISTINCT edge_id) AS edges,
               coalesce(list_sort(list(DISTINCT licence) FILTER (licence IS NOT NULL)), [])
        FROM origins GROUP BY graph, origin ORDER BY graph, edges DESC, origin
        """
    ).fetchall()
    counted = {graph: (n, relations) for graph, n, relations in edges}
    return [
        GraphSize(
            graph,
            n,
            *counted.get(graph, (0, 0)),
            tuple(SourceSize(source, count, tuple(held)) for of, source, count, held in sources if of == graph),
        )
        for graph, n in sorted(nodes)
    ]
