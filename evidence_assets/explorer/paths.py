"""Paths of a graph as a reader sees them: nodes and arrows, who looked at whom, and where each edge stands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import duckdb

from evidence_assets.benchmarks.graphs.relations import load_vocabulary
from evidence_assets.reasoning.paths import parse_path_locator


@dataclass(frozen=True)
class WalkedEdge:
    """An edge of a path: its two ends and words, whether it is walked from head to tail, and where it stands."""

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
    """The edges of each locator in the order of the walk; edges that the lake no longer holds are left out."""
    pairs = {locator: parse_path_locator(locator) for locator in dict.fromkeys(locators)}
    wanted = sorted({edge for walk in pairs.values() for edge, _ in walk})
    rows = connection.execute(
        """
        SELECT DISTINCT ON (e.edge_id) e.edge_id, h.name, e.relation, t.name, e.sources, e.licences
        FROM kg_edges e JOIN kg_nodes h ON h.node_id = e.head_id JOIN kg_nodes t ON t.node_id = e.tail_id
        WHERE e.edge_id IN (SELECT unnest($ids)) ORDER BY ALL
        """,
        {"ids": wanted},
    ).fetchall()
    words = load_vocabulary().template
    known = {row[0]: row for row in rows}
    return {
        locator: [
            WalkedEdge(edge, head, words(relation), tail, along, tuple(sources), tuple(licences))
            for edge, along in walk
            if edge in known
            for _, head, relation, tail, sources, licences in [known[edge]]
        ]
        for locator, walk in pairs.items()
    }


def format_path(walk: Sequence[WalkedEdge]) -> str:
    """A path in one line: each arrow points from the head of its edge to the tail, whichever way it is walked.

    >>> one = WalkedEdge("1", "metformin", "may treat", "diabetes", True, (), ())
    >>> two = WalkedEdge("2", "thirst", "is associated with", "diabetes", False, (), ())
    >>> arrows([one, two])
    'metformin —may treat→ diabetes ←is associated with— thirst'
    """
    line = walk[0].start if walk else ""
    for (_, end), edges in groupby(walk, key=lambda edge: (edge.start, edge.end)):
        said = [f"—{edge.words}→" if edge.along else f"←{edge.words}—" for edge in edges]
        line += f" {' and '.join(said)} {end}"
    return line


def explain_path(stated: str | None, walk: Sequence[WalkedEdge]) -> dict[str, list[str]]:
    """What led to a path and where it stands, as headings with lines."""
    why: dict[str, Any] = json.loads(stated) if stated else {}
    found: dict[str, list[str]] = {"path": [format_path(walk)]}
    links = why.get("links") or []
    found["named in the question and the option"] = [f"“{link['phrase']}” ({link['rule']} match)" for link in links]
    found["relevance to the question"] = [
        f"{node['name']}: " + ("not scored" if node["relevance"] is None else f"{node['relevance']:.3f}")
        for node in why.get("nodes", [])
    ]
    attention = why.get("attention", {})
    found["attention in the last layer"] = [
        f"{edge.head} —{edge.words}→ {edge.tail}: {edge.head} looks at {edge.tail} with "
        f"{attention[edge.edge_id][0]:.3f}, "
        f"{edge.tail} at {edge.head} with {attention[edge.edge_id][1]:.3f}"
        for edge in dict.fromkeys(walk)
        if edge.edge_id in attention
    ]
    if why.get("contradictory"):
        found["caution"] = ["two of its edges say opposed things of the same two nodes"]
    found["stands in"] = [
        f"{edge.head} —{edge.words}→ {edge.tail}: {', '.join(edge.sources)} ({', '.join(edge.licences)})"
        for edge in dict.fromkeys(walk)
    ]
    return {heading: lines for heading, lines in found.items() if lines}


def parse_reasons(stated: str | None) -> dict[str, Any]:
    """The reasons of a pick, where they are a mapping."""
    try:
        value = json.loads(stated) if stated else {}
    except ValueError:
        return {"why": stated}
    return value if isinstance(value, dict) else {"why": value}
