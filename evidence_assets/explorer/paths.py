"""Graph paths for display: nodes and arrows, attention, and the sources of each edge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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

    def __str__(self) -> str:
        return f"{self.head} —{self.words}→ {self.tail}"

    @property
    def start(self) -> str:
        return self.head if self.along else self.tail

    @property
    def end(self) -> str:
        return self.tail if self.along else self.head


def read_walks(connection: duckdb.DuckDBPyConnection, locators: Sequence[str]) -> dict[str, list[WalkedEdge]]:
    """Edges of each locator in path order, without edges that the lake no longer has."""
    if not locators:
        return {}
    steps_by_locator = {locator: parse_path_locator(locator) for locator in dict.fromkeys(locators)}
    edge_ids = sorted({edge_id for steps in steps_by_locator.values() for edge_id, _ in steps})
    rows = connection.execute(
        """
        SELECT DISTINCT ON (e.edge_id) e.edge_id, h.name, e.relation, t.name, e.sources, e.licences
        FROM kg_edges e JOIN kg_nodes h ON h.node_id = e.head_id JOIN kg_nodes t ON t.node_id = e.tail_id
        WHERE e.edge_id IN (SELECT unnest($ids)) ORDER BY ALL
        """,
        {"ids": edge_ids},
    ).fetchall()
    vocabulary = load_vocabulary()
    edges = {}
    for edge_id, head, relation, tail, sources, licences in rows:
        words = vocabulary.template(relation)
        edges[edge_id] = WalkedEdge(edge_id, head, words, tail, True, tuple(sources), tuple(licences))
    walks = {}
    for locator, steps in steps_by_locator.items():
        walks[locator] = [replace(edges[edge_id], along=along) for edge_id, along in steps if edge_id in edges]
    return walks


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
    edges = list(dict.fromkeys(walk))
    attention = reasons.get("attention", {})
    caution = ["two edges state opposite relations between the same two nodes"]
    sections = {
        "path": [format_path(walk)],
        "concepts of the question and the option": [
            f"“{match['phrase']}” ({match['rule']} match)" for match in reasons.get("links") or ()
        ],
        "relevance to the question": [
            f"{node['name']}: " + ("not scored" if node["relevance"] is None else f"{node['relevance']:.3f}")
            for node in reasons.get("nodes", ())
        ],
        "attention in the last layer": [
            _format_attention(edge, *attention[edge.edge_id]) for edge in edges if edge.edge_id in attention
        ],
        "caution": caution if reasons.get("contradictory") else [],
        "sources": [f"{edge}: {', '.join(edge.sources)} ({', '.join(edge.licences)})" for edge in edges],
    }
    return {heading: lines for heading, lines in sections.items() if lines}


def _format_attention(edge: WalkedEdge, to_tail: float, to_head: float) -> str:
    return f"{edge}: from {edge.head} to {edge.tail} {to_tail:.3f}, from {edge.tail} to {edge.head} {to_head:.3f}"
