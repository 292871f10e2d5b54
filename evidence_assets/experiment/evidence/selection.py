"""Selectors of evidence, and the evidence that they yield."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.ids import content_id
from evidence_assets.reasoning.questions import Question

QUESTIONS_PER_GROUP = 16
"""Questions that a selector of a graph encodes and ranks at a time, so that its rows come one group after another."""


@dataclass(frozen=True)
class Parent:
    """A source row of selected evidence, with its version."""

    kind: str
    id: str
    version: str


@dataclass(frozen=True)
class SelectedEvidence:
    """Evidence selected for an option or, with an empty label, for the whole question."""

    option: str
    kind: str
    parents: tuple[Parent, ...]
    locator: str
    text: str
    score: float
    why: str | None = None


def edge_evidence(
    graph: KnowledgeGraph, edge: int, score: float, option: str = "", text: str = "", /, **details: object
) -> SelectedEvidence:
    """An edge of a graph as evidence; ``details`` are stored in the column ``why``."""
    why = json.dumps({"triple": graph.triple(edge), **details}, ensure_ascii=False, sort_keys=True)
    edge_id = graph.edge_ids[edge]
    parent = Parent("edge", edge_id, edge_id)
    return SelectedEvidence(option, "triple", (parent,), "", text or graph.sentence(edge), float(score), why)


def distinct_by_text(items: Iterable[SelectedEvidence], limit: int) -> list[SelectedEvidence]:
    """The first ``limit`` items with different texts; parallel edges of several sources count once."""
    distinct: dict[str, SelectedEvidence] = {}
    for item in items:
        distinct.setdefault(item.text, item)
        if len(distinct) == limit:
            break
    return list(distinct.values())


class Selector(Protocol):
    """Selects evidence, best first within each option."""

    @property
    def version(self) -> str:
        """Hash of the parameters, models, sources and code that determine the selection."""
        ...

    def select(self, questions: Sequence[Question]) -> Iterable[list[SelectedEvidence]]:
        """The selected evidence of each question, in order."""
        ...


class NoEvidence:
    """Selects nothing: for a closed book, or a benchmark without the required sources."""

    def __init__(self, reason: str) -> None:
        self.version = content_id("no evidence", reason)
        self.notes = {"no_evidence": reason}
        """Optional metadata of the asset."""

    def select(self, questions: Sequence[Question]) -> list[list[SelectedEvidence]]:
        return [[] for _ in questions]
