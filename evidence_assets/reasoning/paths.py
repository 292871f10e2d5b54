"""Paths of a graph as evidence: how one is written down, and whether what is written follows from the graph."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

PathEdge = tuple[str, bool]
"""An edge's id, and whether it is walked from its head to its tail."""


@dataclass(frozen=True)
class PathFact:
    """An edge of a graph with the ids and the names of its ends."""

    head_id: str
    relation: str
    tail_id: str
    head: str
    tail: str


def fact_sentence(head: str, words: str, tail: str) -> str:
    """One edge in words.

    >>> fact_sentence("aspirin", "may treat", "fever")
    'Aspirin may treat fever.'
    """
    return f"{head[:1].upper()}{head[1:]} {words} {tail}."


def path_text(facts: Iterable[PathFact], words: Callable[[str], str]) -> str:
    """The edges of a path as sentences in the order of the path, each once; walking backwards turns none round."""
    return " ".join(dict.fromkeys(fact_sentence(f.head, words(f.relation), f.tail) for f in facts))


def path_locator(walked: Iterable[PathEdge]) -> str:
    """Edges in the order in which they are walked, ``+`` from head to tail and ``-`` back, as JSON.

    >>> path_locator([("e1", True), ("e2", False)])
    '[["e1", "+"], ["e2", "-"]]'
    """
    return json.dumps([[edge, "+" if along else "-"] for edge, along in walked])


def parse_path_locator(locator: str) -> list[PathEdge]:
    """What :func:`path_locator` wrote down; a ValueError says why a text is no such locator."""
    try:
        pairs = [(edge, direction) for edge, direction in json.loads(locator)]
        right = pairs and all(isinstance(edge, str) and direction in ("+", "-") for edge, direction in pairs)
    except (ValueError, TypeError):
        right = False
    if not right:
        raise ValueError(f"{locator!r} is no list of edges with their directions")
    return [(edge, direction == "+") for edge, direction in pairs]


def find_path_errors(locator: str, text: str, facts: Mapping[str, PathFact], words: Callable[[str], str]) -> list[str]:
    """What is wrong with a path as it is written down; nothing where its edges exist, each begins where the one before
    ends (or joins the same two nodes), and the text is what they say.
    """
    try:
        walked = parse_path_locator(locator)
    except ValueError as error:
        return [str(error)]
    absent = [edge for edge, _ in walked if edge not in facts]
    if absent:
        return [f"edge {edge} is not in the graph" for edge in absent]
    complaints = []
    before: tuple[str, str] | None = None
    for edge, along in walked:
        fact = facts[edge]
        here = (fact.head_id, fact.tail_id) if along else (fact.tail_id, fact.head_id)
        if before is not None and here != before and here[0] != before[1]:
            complaints.append(f"edge {edge} does not begin where the one before it ends")
        before = here
    said = path_text((facts[edge] for edge, _ in walked), words)
    if said != text:
        complaints.append(f"its edges say {said!r}, not {text!r}")
    return complaints
