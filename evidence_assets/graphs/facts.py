"""The facts of a knowledge graph as the graph systems see them: shape, words and ids side by side.

Belongs here: turning edges into sentences and into evidence. Does not belong here: which edges are picked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evidence_assets.graphs.graph import Graph
from evidence_assets.graphs.knowledge_base import KnowledgeBase

Verbalise = Callable[[str, str, str], str]


def plain_sentence(head: str, relation: str, tail: str) -> str:
    """A fact as a sentence without a template: underscores and joined words become words.

    >>> plain_sentence("ferret", "AtLocation", "pet store")
    'ferret at location pet store'
    """
    words = "".join(" " + c.lower() if c.isupper() and i and relation[i - 1].islower() else c
                    for i, c in enumerate(relation))  # fmt: skip
    return f"{head} {words.replace('_', ' ').strip().lower()} {tail}"


@dataclass(frozen=True)
class GraphFacts:
    """A graph with names of its nodes, of its relations, and an id for every edge."""

    graph: Graph
    names: Sequence[str]
    relations: Sequence[str]
    edge_ids: Sequence[str]
    edge_versions: Sequence[str]
    version: str
    verbalise: Verbalise = plain_sentence

    def triple(self, edge: int) -> tuple[str, str, str]:
        """An edge in words."""
        graph = self.graph
        return (
            self.names[int(graph.heads[edge])],
            self.relations[int(graph.relations[edge])],
            self.names[int(graph.tails[edge])],
        )

    def sentence(self, edge: int) -> str:
        """An edge as a sentence."""
        return self.verbalise(*self.triple(edge))

    def edges_at(self, nodes: Sequence[int]) -> list[int]:
        """Edges that touch any of the nodes, ascending."""
        _, slots = self.graph.slots_of(np.array(sorted(set(nodes)), dtype=np.int64))
        return np.unique(self.graph.slot_edges[slots]).tolist() if len(slots) else []


def facts_of(base: KnowledgeBase, verbalise: Verbalise = plain_sentence) -> GraphFacts:
    """The edges of a knowledge base as facts."""
    edges = zip(base.heads.tolist(), base.edge_types.tolist(), base.tails.tolist(), strict=True)
    ids = [base.edge_id(*edge) for edge in edges]
    return GraphFacts(base.graph, base.names, base.edge_type_names, ids, ids, base.content_hash, verbalise)
