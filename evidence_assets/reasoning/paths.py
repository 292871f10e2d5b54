"""Paths of a graph as evidence: their locators and texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

PathEdge = tuple[str, bool]
"""Edge id, and whether the path follows the edge from head to tail."""


def path_text(triples: Iterable[tuple[str, str, str]], words: Callable[[str], str]) -> str:
    """The distinct edges of a path as sentences from head to tail, in the order of the path.

    >>> path_text([("aspirin", "may_treat", "fever")], lambda relation: relation.replace("_", " "))
    'Aspirin may treat fever.'
    """
    sentences = (f"{head[:1].upper()}{head[1:]} {words(relation)} {tail}." for head, relation, tail in triples)
    return " ".join(dict.fromkeys(sentences))


def path_locator(edges: Iterable[PathEdge]) -> str:
    """The edges of a path in order, as JSON; ``+`` is from head to tail, ``-`` from tail to head.

    >>> path_locator([("e1", True), ("e2", False)])
    '[["e1", "+"], ["e2", "-"]]'
    """
    return json.dumps([[edge, "+" if forward else "-"] for edge, forward in edges])


def parse_path_locator(locator: str) -> list[PathEdge]:
    """Parse a locator of :func:`path_locator`."""
    return [(edge, direction == "+") for edge, direction in json.loads(locator)]
