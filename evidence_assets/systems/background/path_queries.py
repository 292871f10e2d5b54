"""Questions parsed to a query of one or two relations of the graph: the semantic parsing that the paper names (6.1).

A query starts at an entity that the question names. Its text names the relations, but not the entities between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from evidence_assets.experiment.evidence.selection import (
    Question,
    SelectedEvidence,
    distinct_by_text,
    edge_evidence,
    split_questions,
)
from evidence_assets.graphs.arrays import IntArray
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph, plain_sentence
from evidence_assets.lake.array_files import sorted_unique
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.systems.background import VERSION

Step = tuple[int, bool]
"""A relation, and whether the query follows it from head to tail."""


@dataclass(frozen=True)
class PathQuerySettings:
    """Settings of path queries.

    ``max_ends``: A relation with more ends is not followed by a second one.
    ``max_triples``: Selected triples of the nearest query.
    """

    max_ends: int = 200
    max_triples: int = 20


@dataclass(frozen=True)
class PathQuery:
    """All paths from a node along one or two relations; ``text`` names the node and the relations."""

    text: str
    start: int
    steps: tuple[Step, ...]


class PathQueries:
    """Selects the triples on all paths of the query whose text is most similar to the question."""

    def __init__(self, graph: KnowledgeGraph, encoder: Encoder, settings: PathQuerySettings) -> None:
        self._graph, self._encoder, self._settings = graph, encoder, settings
        model = encoder.model_id, encoder.revision
        self.version = content_id("path_queries", VERSION, asdict(settings), graph.version, *model)

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        """The triples of each question's query, path by path; empty if the question names no node."""
        for group in split_questions(questions):
            queries = [list(self.find_queries(question.text)) for question in group]
            texts = dict.fromkeys([*(q.text for q in group), *(query.text for each in queries for query in each)])
            vectors = dict(zip(texts, self._encoder.encode_sentences(list(texts)), strict=True))
            for question, each in zip(group, queries, strict=True):
                cosines = {query: round(float(vectors[query.text] @ vectors[question.text]), 6) for query in each}
                best = min(each, key=lambda query: (-cosines[query], query.text), default=None)
                yield self._select_triples(best, cosines[best]) if best else []

    def find_queries(self, text: str) -> Iterator[PathQuery]:
        """All queries of one or two relations that have an answer, from the nodes that a text names."""
        names, relations = self._graph.names, self._graph.relations
        starts = {node for span in self._graph.linker.find_spans(text) for node in span.link.nodes}
        for start in sorted(starts):
            for first, edges in self._edges_by_step(np.array([start])).items():
                ends = self._ends(edges, first, start)
                if not len(ends):
                    continue
                yield PathQuery(_describe(names[start], relations, (first,)), start, (first,))
                if len(ends) <= self._settings.max_ends:
                    for second, more_edges in self._edges_by_step(ends).items():
                        if len(self._ends(more_edges, second, start)):
                            yield PathQuery(_describe(names[start], relations, (first, second)), start, (first, second))

    def find_paths(self, query: PathQuery) -> list[tuple[int, ...]]:
        """The edges of each path of a query that does not return to its start, by edge numbers."""
        paths: list[tuple[tuple[int, ...], int]] = [((), query.start)]
        for step in query.steps:
            paths = [
                ((*edges, edge), end)
                for edges, node in paths
                for edge, end in self._follow(node, step)
                if end != query.start
            ]
        return sorted(edges for edges, _ in paths)

    def _select_triples(self, query: PathQuery, cosine: float) -> list[SelectedEvidence]:
        def triples() -> Iterator[SelectedEvidence]:
            for path in self.find_paths(query):
                sentences = [self._graph.sentence(edge) for edge in path]
                for number, edge in enumerate(path, 1):
                    yield edge_evidence(self._graph, edge, cosine, query=query.text, path=sentences, step=number)

        return distinct_by_text(triples(), self._settings.max_triples)

    def _edges_by_step(self, nodes: IntArray) -> Mapping[Step, IntArray]:
        """The edges at some nodes by relation and direction."""
        arrays = self._graph.arrays
        _, slots = arrays.slots_of(nodes)
        edges, outgoing = arrays.slot_edges[slots], arrays.outgoing[slots]
        codes = arrays.relations[edges].astype(np.int64) * 2 + outgoing
        return {(code >> 1, bool(code & 1)): edges[codes == code] for code in sorted_unique(codes).tolist()}

    def _ends(self, edges: IntArray, step: Step, start: int) -> IntArray:
        """The nodes at the other ends, without the start of the query."""
        return np.setdiff1d(self._other_nodes(edges, step), [start])

    def _follow(self, node: int, step: Step) -> Iterator[tuple[int, int]]:
        """Edges of a node in a step, with the node at the other end."""
        edges = self._edges_by_step(np.array([node])).get(step, np.zeros(0, np.int64))
        yield from zip(edges.tolist(), self._other_nodes(edges, step).tolist(), strict=True)

    def _other_nodes(self, edges: IntArray, step: Step) -> IntArray:
        """The node that each edge leads to."""
        return (self._graph.arrays.tails if step[1] else self._graph.arrays.heads)[edges]


def _describe(start: str, relations: Sequence[str], steps: Sequence[Step]) -> str:
    """A query as text: "deer fly is a vector for what", or with "something" between two relations."""
    names = [start, *["something"] * (len(steps) - 1), "what"]
    sentences = [
        plain_sentence(*((a, relations[relation], b) if forwards else (b, relations[relation], a)))
        for (relation, forwards), a, b in zip(steps, names, names[1:], strict=False)
    ]
    return ", and ".join(sentences)
