"""Graph paths for display: nodes and arrows, attention, and the sources of each edge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import duckdb

from evidence_assets.benchmarks.graphs.relations import load_vocabulary
from evidence_assets.reasoning.paths import parse_path_locator


@dataclass(frozen=True)
class WalkedEdge:
    """An edge of a path with its verbalised relation; ``along``: walked from head to tail."""

    edge_id: str
    head: str
    words: str
    tail: str
    along: bool
    sources: tuple[str, ...]
    licences: tuple[str, ...]

    @property
    def start(self) -> str:
        return self.head if self.along else self.tail

    @property
    def end(self) -> str:
        return self.tail if self.along else self.head


def read_walks(connection: duckdb.DuckDBPyConnection, locators: Sequence[str]) -> dict[str, list[WalkedEdge]]:
    """Edges of each locator in path order, without edges that the lake no longer has."""
    pairs = {locator: parse_path_locator(locator) for locator in dict.fromkeys(locators)}
    edge_ids = sorted({edge for walk in pairs.values() for edge, _ in walk})
    rows = connection.execute(
        """
        SELECT DISTINCT ON (e.edge_id) e.edge_id, h.name, e.relation, t.name, e.sources, e.licences
        FROM kg_edges e JOIN kg_nodes h ON h.node_id = e.head_id JOIN kg_nodes t ON t.node_id = e.tail_id
        WHERE e.edge_id IN (SELECT unnest($ids)) ORDER BY ALL
        """,
        {"ids": edge_ids},
    ).fetchall()
    words = load_vocabulary().template
    edge_rows = {row[0]: row for row in rows}
    return {
        locator: [
            WalkedEdge(edge, head, words(relation), tail, along, tuple(sources), tuple(licences))
            for edge, along in walk
            if edge in edge_rows
            for _, head, relation, tail, sources, licences in [edge_rows[edge]]
        ]
        for locator, walk in pairs.items()
    }


def format_path(walk: Sequence[WalkedEdge]) -> str:
    """A path in one line: each arrow points from the head of its edge to the tail.

    >>> treats = WalkedEdge("1", "metformin", "may treat", "diabetes", True, (), ())
    >>> symptom = WalkedEdge("2", "thirst", "is associated with", "diabetes", False, (), ())
    >>> format_path([treats, symptom])
    'metformin —may treat→ diabetes ←is associated with— thirst'
    """
    line = walk[0].start if walk else ""
    for (_, end), edges in groupby(walk, key=lambda edge: (edge.start, edge.end)):
        relations = [f"—{edge.words}→" if edge.along else f"←{edge.words}—" for edge in edges]
        line += f" {' and '.join(relations)} {end}"
    return line


def explain_path(reasons: Mapping[str, Any], walk: Sequence[WalkedEdge]) -> dict[str, list[str]]:
    """Reasons for a path and its sources, as headings with lines."""
    sections: dict[str, list[str]] = {"path": [format_path(walk)]}
    links = reasons.get("links") or []
    sections["concepts of the question and the option"] = [f"“{x['phrase']}” ({x['rule']} match)" for x in links]
    sections["relevance to the question"] = [
        f"{node['name']}: " + ("not scored" if node["relevance"] is None else f"{node['relevance']:.3f}")
        for node in reasons.get("nodes", [])
    ]
    attention = reasons.get("attention", {})
    sections["attention in the last layer"] = [
        f"{edge.head} —{edge.words}→ {edge.tail}: from {edge.head} to {edge.tail} "
        f"{attention[edge.edge_id][0]:.3f}, from {edge.tail} to {edge.head} {attention[edge.edge_id][1]:.3f}"
        for edge in dict.fromkeys(walk)
        if edge.edge_id in attention
    ]
    if reasons.get("contradictory"):
        sections["caution"] = ["two edges state opposite relations between the same two nodes"]
    sections["sources"] = [
        f"{edge.head} —{edge.words}→ {edge.tail}: {', '.join(edge.sources)} ({', '.join(edge.licences)})"
        for edge in dict.fromkeys(walk)
    ]
    return {heading: lines for heading, lines in sections.items() if lines}
