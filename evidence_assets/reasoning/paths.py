"""Paths of a graph as evidence: their locators and texts, and a check against the graph."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

PathEdge = tuple[str, bool]
"""Edge id, and whether the path follows the edge from head to tail."""


@dataclass(frozen=True)
class PathFact:
    """An edge of a graph with ids and names of its ends."""

    head_id: str
    relation: str
    tail_id: str
    head: str
    tail: str


def fact_sentence(head: str, words: str, tail: str) -> str:
    """An edge as a sentence.

    >>> fact_sentence("aspirin", "may treat", "fever")
    'Aspirin may treat fever.'
    """
    return f"{head[:1].upper()}{head[1:]} {words} {tail}."


def path_text(facts: Iterable[PathFact], words: Callable[[str], str]) -> str:
    """The distinct edges of a path as sentences from head to tail, in the order of the path."""
    return " ".join(dict.fromkeys(fact_sentence(f.head, words(f.relation), f.tail) for f in facts))


def path_locator(edges: Iterable[PathEdge]) -> str:
    """The edges of a path in order, as JSON; ``+`` is from head to tail, ``-`` from tail to head.

    >>> path_locator([("e1", True), ("e2", False)])
    '[["e1", "+"], ["e2", "-"]]'
    """
    return json.dumps([[edge, "+" if forward else "-"] for edge, forward in edges])


def parse_path_locator(locator: str) -> list[PathEdge]:
    """Parse a locator of :func:`path_locator`; raises ValueError if it is invalid."""
    try:
        pairs = [(edge, direction) for edge, direction in json.loads(locator)]
        is_valid = pairs and all(isinstance(edge, str) and direction in ("+", "-") for edge, direction in pairs)
    except (ValueError, TypeError):
        is_valid = False
    if not is_valid:
        raise ValueError(f"{locator!r} is not a list of edges with directions")
    return [(edge, direction == "+") for edge, direction in pairs]


def find_path_errors(locator: str, text: str, facts: Mapping[str, PathFact], words: Callable[[str], str]) -> list[str]:
    """Errors of a stored path: unknown edges, gaps between consecutive edges, or a text that differs from its edges.

    Consecutive edges share a node, or join the same two nodes.
    """
    try:
        edges = parse_path_locator(locator)
    except ValueError as error:
        return [str(error)]
    unknown_edges = [edge for edge, _ in edges if edge not in facts]
    if unknown_edges:
        return [f"edge {edge} is not in the graph" for edge in unknown_edges]
    errors = []
    previous_ends: tuple[str, str] | None = None
    for edge, forward in edges:
        fact = facts[edge]
        ends = (fact.head_id, fact.tail_id) if forward else (fact.tail_id, fact.head_id)
        if previous_ends is not None and ends != previous_ends and ends[0] != previous_ends[1]:
            errors.append(f"edge {edge} does not start where the previous edge ends")
        previous_ends = ends
    expected_text = path_text((facts[edge] for edge, _ in edges), words)
    if expected_text != text:
        errors.append(f"the text of its edges is {expected_text!r}, not {text!r}")
    return errors
